-- Networks from which a key may be used, the address of its last use, and emails to single accounts
-- (docs/operations/accounts.md, docs/operations/announcements.md).

-- `networks` is null if the key may be used from everywhere. The constraint is never validated, because no older row has
-- networks.
alter table api_keys
  add column networks cidr[],
  add column last_used_address inet,
  -- When `expires_at` was set, so that nobody is warned of an expiry that has just been chosen. Null: with the key.
  add column expiry_set_at timestamptz(3),
  -- The key that replaces this one since its rotation. Has no reference, because keys are removed only with an account.
  add column replaced_by bigint,
  add constraint api_keys_networks_check
    check (cardinality(networks) between 1 and 100 and array_position(networks, null) is null) not valid;

create function note_expiry() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if new.expires_at is distinct from old.expires_at then new.expiry_set_at := now(); end if;
  return new;
end $$;

create trigger note_expiry before update of expires_at on api_keys for each row execute function note_expiry();

create or replace trigger audit after insert or delete
  or update of account_id, key_hint, expires_at, revoked_at, disabled_at, name, endpoints, networks, replaced_by
  on api_keys
  for each row execute function audit_row('key', 'key_id', 'key_hash', 'last_used_at', 'last_used_address', 'expiry_set_at');

-- The account that a notice is about; null for a changelog entry. It has no reference, because the account may be
-- removed after the email was sent.
alter table announcements add column account_id bigint;

-- Nobody changes the data of the service with a notice, so the audit log leaves notices out.
create or replace trigger audit after insert or update on announcements
  for each row when (new.account_id is null) execute function audit_row('announcement', 'entry_id', 'text', 'html');
create trigger audit_removal after delete on announcements
  for each row when (old.account_id is null) execute function audit_row('announcement', 'entry_id', 'text', 'html');

-- Queues an email to the contact address of an account, unless a notice with this id was queued before. Returns whether
-- it was queued. The colon keeps ids apart from those of changelog entries, so that a service role cannot announce.
create function queue_notice(notice_id text, account bigint, subject text, content text, html text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if notice_id not like '%:%' then raise 'The id of a notice needs a colon: %', notice_id; end if;
  with recipient as (
    select account_id, btrim(contact_email) as address from public.accounts
    where account_id = account and btrim(contact_email) <> ''
  ), queued as (
    insert into public.announcements (entry_id, subject, text, html, operational, account_id)
    select notice_id, subject, content, html, true, account_id from recipient
    on conflict do nothing returning entry_id
  )
  insert into public.announcement_mails (entry_id, recipient) select entry_id, address from queued cross join recipient;
  return found;
end $$;

revoke execute on function queue_notice from public;
