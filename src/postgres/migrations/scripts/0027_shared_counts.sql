-- Counters shared by all processes. The tables are unlogged to avoid WAL; after a crash or failover they start empty.

-- The current rate-limit window per account (D18: rate limits). `used` counts permits handed to processes, and `given`
-- those of the last statement. Each permit extends the window by 60 / limit seconds; the minimum is one second.
create unlogged table rate_limits (
  account_id bigint primary key,
  began_at   timestamptz not null,
  ends_at    timestamptz not null,
  used       bigint not null,
  given      bigint not null
) with (fillfactor = 50);

-- Wrong keys per client network, within a minute of the first (D2, D18: brute-force protection). The service deletes
-- old rows, and the oldest if there are too many.
create unlogged table wrong_keys (
  network  text primary key,
  began_at timestamptz not null,
  wrong    integer not null
) with (fillfactor = 50);

create index on wrong_keys (began_at);
