-- What all processes count together, for a minute each. Unlogged: that costs no WAL, and after a crash or a failover
-- the tables are empty, so that minutes begin anew.

-- D18: the running minute of each account. `used` is what was given to processes, used by them or not; each permit
-- makes the window longer by its share of the minute, from a second on. `given` is what the last statement gave.
create unlogged table rate_limits (
  account_id bigint primary key,
  began_at   timestamptz not null,
  ends_at    timestamptz not null,
  used       bigint not null,
  given      bigint not null
) with (fillfactor = 50);

-- D2, D18: wrong keys by the network that sent them, within a minute of the first one. Old rows are deleted by the
-- service, and the oldest where there are too many.
create unlogged table wrong_keys (
  network  text primary key,
  began_at timestamptz not null,
  wrong    integer not null
) with (fillfactor = 50);

create index on wrong_keys (began_at);
