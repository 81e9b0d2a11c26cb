-- D18 (rate limits): the token bucket of each account, shared by all processes. Unlogged, which costs no WAL: after a
-- crash or a failover the table is empty and every bucket is full.
-- `rate_limits` and `wrong_keys` serve processes of the previous release. A later release drops them. While both
-- releases run, each of them counts separately.
create unlogged table rate_limit_buckets (
  account_id  bigint primary key,
  -- Tokens missing from a full bucket at `refilled_at`.
  used        double precision not null check (used >= 0),
  refilled_at timestamptz not null,
  -- Tokens granted by the last statement, so that the upsert can return them.
  granted     bigint not null
) with (fillfactor = 50);
