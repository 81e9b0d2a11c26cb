-- State that the service's processes share, and tables for operators.

-- The schema in which `load` creates staging tables (D31, loading).
create schema loading;

-- Leases, which ensure that each background job runs in only one process at a time. A process inserts a row for each
-- job that it can run. The process in `holder` runs the job until the time `until`, which it keeps moving forward.
create table leases (
  name   text primary key check (name <> ''),
  holder uuid, -- null after the lease was released
  until  timestamptz(3) not null default '-infinity'
);

-- The token buckets of accounts, shared by all processes (D18, rate limits). The table is unlogged to save WAL. It is
-- therefore empty after a crash or failover, which means that every bucket is full.
create unlogged table rate_limit_buckets (
  account_id  bigint primary key,
  -- Tokens that had been taken from the bucket, and not yet refilled, at the time `refilled_at`.
  used        double precision not null check (used >= 0),
  refilled_at timestamptz not null,
  -- The number of tokens that the last upsert granted. It is stored, because the upsert's `returning` clause sees only
  -- the new row, not how many tokens it took.
  granted     bigint not null
) with (fillfactor = 50);

-- Requests that failed with 5xx within the last hour before their account was known, for example because keys could not
-- be looked up. Usage always belongs to an account, so the console reads these failures from here
-- (docs/operations/which-account.md).
create table failed_requests (
  minute      timestamptz(0) not null,
  endpoint    text not null,
  status_code smallint not null,
  requests    bigint not null,
  primary key (minute, endpoint, status_code)
);

-- Tokens for the admin API (docs/operations/admin-api.md). Console sessions and invitations to the console are also
-- stored here, as tokens that expire soon (docs/operations/console.md). Only the SHA-256 hash and the first characters
-- of a token are stored.
create table admin_tokens (
  token_id     bigint generated always as identity primary key,
  kind         text not null default 'token' check (kind in ('token', 'session', 'invitation')),
  name         text not null check (name = btrim(name) and name <> ''),
  scope        text not null check (scope in ('read', 'support', 'admin')),
  token_hash   bytea not null unique check (octet_length(token_hash) = 32),
  token_hint   text not null,
  created_by   text not null,
  created_at   timestamptz(3) not null default now(),
  expires_at   timestamptz(3),
  revoked_at   timestamptz(3),
  last_used_at timestamptz(3),
  -- The token with which the session was opened. When that token is revoked or expires, the session ends too.
  opened_with  bigint references admin_tokens,
  check (kind = 'token' or expires_at is not null)
);

-- The audit log refers to admin tokens by name, so two usable tokens cannot have the same name.
create unique index on admin_tokens (name) where kind = 'token' and revoked_at is null;

create trigger audit after insert or delete
  or update of kind, name, scope, token_hint, expires_at, revoked_at, opened_with on admin_tokens
  for each row execute function audit_row('admin_token', 'name', 'token_hash', 'last_used_at');

-- Responses to write requests to the admin API with an `Idempotency-Key`. A repeated request gets the stored response
-- instead of writing again. Only the SHA-256 hash of the key is stored, and the response is stored without its secrets.
create table admin_requests (
  admin        text not null,
  key_hash     bytea not null,
  -- The SHA-256 hash of the method, the path, `If-Match` and the body.
  request_hash bytea not null,
  status       smallint,
  headers      jsonb,
  body         text,
  requested_at timestamptz(3) not null default now(),
  primary key (admin, key_hash)
);

create index on admin_requests (requested_at);

insert into role_privileges values
  ('service', 'insert (name), update (holder, until)', 'public.leases'),
  ('service', 'insert, update', 'public.rate_limit_buckets'),
  ('service', 'insert, update, delete', 'public.failed_requests'),
  ('service', 'no select', 'public.admin_tokens'),
  ('service', 'no select', 'public.admin_requests'),
  ('admin', 'insert, update (revoked_at, last_used_at)', 'public.admin_tokens'),
  ('admin', 'insert, update, delete', 'public.admin_requests');
