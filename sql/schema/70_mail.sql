-- Emails to customers (§3, §6, §9.6: announcements).

-- Emails about changelog entries are rendered when they are sent, so that nobody can queue another text. Only notices to
-- single accounts are stored.
create table announcements (
  -- The id of a changelog entry, or that of a notice, which has a colon.
  entry_id     text primary key,
  subject      text check (subject !~ '[\r\n]'),
  text         text,
  html         text,
  -- Operational emails go to all customers; from others they can opt out.
  operational  boolean not null,
  announced_at timestamptz(3) not null default now(),
  -- The account that a notice is about; null for a changelog entry. It has no reference, because the account may be
  -- removed after the email was sent.
  account_id   bigint
);

-- Nobody changes the data of the service with a notice, so the audit log leaves notices out.
create trigger audit after insert or update on announcements
  for each row when (new.account_id is null) execute function audit_row('announcement', 'entry_id', 'text', 'html');
create trigger audit_removal after delete on announcements
  for each row when (old.account_id is null) execute function audit_row('announcement', 'entry_id', 'text', 'html');

-- The outbox: one row per announcement and address. Addresses are compared in lower case, so that accounts with the
-- same address get one email. Values of `status`:
--   queued     waiting to be sent
--   sending    claimed by a sender; the mail server cannot have accepted it yet
--   handed     fully transmitted; the server's reply is outstanding
--   sent       accepted by the server
--   failed     rejected permanently, or for too long
--   unknown    the sender ended or lost its connection after `handed`; not retried automatically
create table announcement_mails (
  mail_id         uuid primary key default gen_random_uuid(),
  entry_id        text not null references announcements,
  recipient       text not null,
  status          text not null default 'queued'
                  check (status in ('queued', 'sending', 'handed', 'sent', 'failed', 'unknown')),
  attempts        int not null default 0,
  next_attempt_at timestamptz(3) not null default now(),
  claimed_by      uuid,
  last_error      text,
  queued_at       timestamptz(3) not null default now(),
  sent_at         timestamptz(3)
);

create unique index on announcement_mails (entry_id, lower(recipient));
create index on announcement_mails (next_attempt_at, mail_id) where status = 'queued';
create index on announcement_mails (status) where status in ('sending', 'handed');

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

-- Queues emails again whose delivery failed or is unknown, for one entry or all (null). Returns their number.
create function retry_emails(from_status text, entry text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  mails bigint;
begin
  if from_status not in ('failed', 'unknown') then raise 'Such emails are not queued again: %', from_status; end if;
  with queued as (
    update public.announcement_mails
    set status = 'queued', attempts = 0, next_attempt_at = now(), claimed_by = null
    where status = from_status and entry_id = coalesce(entry, entry_id)
    returning entry_id
  ), counted as (
    select entry_id, count(*) as emails from queued group by entry_id
  ), recorded as (
    select emails, public.record_audit('announcement', entry_id, 'changed', jsonb_build_object(from_status, emails),
      jsonb_build_object('queued', emails)) from counted
  )
  select coalesce(sum(emails), 0) into mails from recorded;
  return mails;
end $$;

revoke execute on function queue_notice, retry_emails from public;

insert into role_privileges values
  ('service', 'update (status, attempts, next_attempt_at, claimed_by, last_error, sent_at)',
    'public.announcement_mails'),
  ('service', 'execute', 'public.queue_notice'),
  ('admin', 'execute', 'public.retry_emails');
