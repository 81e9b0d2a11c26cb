-- Sessions of the console, and invitations to it, are admin tokens that expire soon (docs/operations/console.md). The
-- table has few rows, so no change holds its lock for long.
alter table admin_tokens
  add kind text not null default 'token',
  -- The token with which a session was opened. The session ends with it.
  -- squawk-ignore adding-foreign-key-constraint
  add opened_with bigint references admin_tokens;

-- squawk-ignore constraint-missing-not-valid
alter table admin_tokens add check (kind in ('token', 'session', 'invitation'));
-- squawk-ignore constraint-missing-not-valid
alter table admin_tokens add check (kind = 'token' or expires_at is not null);

-- squawk-ignore require-concurrent-index-deletion, prefer-robust-stmts
drop index admin_tokens_name_idx;

-- squawk-ignore require-concurrent-index-creation
create unique index on admin_tokens (name) where kind = 'token' and revoked_at is null;

create or replace trigger audit after insert or delete
  or update of name, scope, token_hint, expires_at, revoked_at, kind, opened_with on admin_tokens
  for each row execute function audit_row('admin_token', 'name', 'token_hash', 'last_used_at');
