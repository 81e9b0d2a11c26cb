-- What processes share and operators use.

-- Schema in which `load` builds a staging table (D31: loading).
create schema loading;

-- Leases make each background job run in one process at a time. Processes insert a row for each job they know.
create table leases (
  name   text primary key check (name <> ''),
  holder uuid, -- null once it was released
  until  timestamptz(3) not null default '-infinity'
);

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

-- Requests of the last hour that got 5xx before their account was known, for example while keys could not be looked up.
-- The console counts them; usage cannot, because it belongs to accounts (docs/operations/which-account.md).
create table failed_requests (
  minute      timestamptz(0) not null,
  endpoint    text not null,
  status_code smallint not null,
  requests    bigint not null,
  primary key (minute, endpoint, status_code)
);

-- Tokens of the admin API (docs/operations/admin-api.md), and sessions of the console and invitations to it, which are
-- tokens that expire soon (docs/operations/console.md). Only the SHA-256 and the first characters are stored.
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
  -- The token with which a session was opened. The session ends with it.
  opened_with  bigint references admin_tokens,
  check (kind = 'token' or expires_at is not null)
);

-- The audit log names the token, so two that work cannot have the same name.
create unique index on admin_tokens (name) where kind = 'token' and revoked_at is null;

create trigger audit after insert or delete
  or update of kind, name, scope, token_hint, expires_at, revoked_at, opened_with on admin_tokens
  for each row execute function audit_row('admin_token', 'name', 'token_hash', 'last_used_at');

-- Responses to writes with an `Idempotency-Key`, which a repeated request gets instead of a second write. Of the key,
-- only the SHA-256 is stored, and the response without its secrets.
create table admin_requests (
  admin        text not null,
  key_hash     bytea not null,
  -- The SHA-256 of method, path, `If-Match` and body.
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
