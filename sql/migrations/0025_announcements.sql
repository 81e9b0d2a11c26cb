-- Customer emails (§3, §6, §9.6). What was announced is kept as it was worded, so that every customer reads the same,
-- whichever release of the service happens to send it.
create table announcements (
  entry_id     text primary key,
  subject      text not null check (subject !~ '[\r\n]'),
  text         text not null,
  html         text not null,
  -- Customers can wish for no news; what concerns how their requests are answered is written to all.
  operational  boolean not null,
  announced_at timestamptz(3) not null default now()
);

-- The outbox: one row for an entry and an address, which are compared in lower case, so that two accounts with one
-- address get one mail, once.
--   queued     waits for its time
--   sending    a sender has it; the server cannot have accepted it yet
--   handed     all of it went to the server, whose answer is not known yet
--   sent       the server accepted it
--   failed     the server refused it for good, or for too long
--   unknown    the sender ended, or was cut off, while it was handed over: it is not sent again by itself
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

-- Of several instances one sends: the one whose lease has not run out.
create table announcement_sender (
  only_one boolean primary key default true check (only_one),
  holder   uuid,
  until    timestamptz(3) not null default '-infinity'
);

insert into announcement_sender default values;

alter table accounts add column news boolean not null default true;
