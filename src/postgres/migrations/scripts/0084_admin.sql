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
