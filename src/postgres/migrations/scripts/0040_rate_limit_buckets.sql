-- D18 (rate limits): the token bucket of each account, shared by all processes. The table is unlogged to save WAL, so
-- after a crash or a failover it is empty, which means that every bucket is full.
create unlogged table rate_limit_buckets (
  account_id  bigint primary key,
  -- Tokens taken from the bucket and not yet refilled at `refilled_at`.
  used        double precision not null check (used >= 0),
  refilled_at timestamptz not null,
  -- Tokens that the last upsert granted. They are stored so that the upsert can return them.
  granted     bigint not null
) with (fillfactor = 50);
