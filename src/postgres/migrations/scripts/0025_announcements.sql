-- Customer emails (§3, §6, §9.6: announcements). The rendered text is stored, so that all customers get the same text
-- regardless of the release that sends it.
create table announcements (
  entry_id     text primary key,
  subject      text not null check (subject !~ '[\r\n]'),
  text         text not null,
  html         text not null,
  -- Operational emails go to all customers; from others they can opt out.
  operational  boolean not null,
  announced_at timestamptz(3) not null default now()
);

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

alter table accounts add column news boolean not null default true;
