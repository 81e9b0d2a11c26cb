-- The outbox, which contains messages to customers. Emails (§3, §6, §9.6: announcements) are sent at most once
-- (decision 0052). Webhooks (docs/operations/webhooks.md) are sent at least once and in order (decision 0157).

-- Announcements: changelog entries that are emailed to customers, and notices to single accounts. The email for a
-- changelog entry is rendered only when it is sent, so that nobody can queue a different text. The text of notices is
-- stored.
create table announcements (
  -- The id of a changelog entry or of a notice. Only the ids of notices contain a colon.
  entry_id     text primary key,
  subject      text check (subject !~ '[\r\n]'),
  text         text,
  html         text,
  -- Operational emails go to all customers, who can opt out of all other emails.
  operational  boolean not null,
  announced_at timestamptz(3) not null default now(),
  -- The account that receives a notice. Null for a changelog entry. Not a foreign key, because the account may be
  -- erased later.
  account_id   bigint
);

-- Notices, which are emails to single accounts, do not change the service's data, so they are not audited.
create trigger audit after insert or update on announcements
  for each row when (new.account_id is null) execute function audit_row('announcement', 'entry_id', 'text', 'html');
create trigger audit_removal after delete on announcements
  for each row when (old.account_id is null) execute function audit_row('announcement', 'entry_id', 'text', 'html');

-- The email queue, with one row per announcement and address. Addresses are compared in lower case, so that accounts
-- with the same address receive only one email. Values of `status`:
--   queued     waiting to be sent
--   sending    claimed by a sender; the mail server cannot have accepted it yet
--   handed     fully transmitted; the mail server has not replied yet
--   sent       accepted by the mail server
--   failed     rejected permanently, or given up after too long
--   unknown    the sender stopped or lost its connection in the state `handed`; not retried automatically
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

-- Queues an email to an account's contact address, unless a notice with this id was queued before. Returns whether the
-- email was queued. A notice's id must contain a colon, so that a service role cannot announce a changelog entry.
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

-- Requeues emails whose delivery failed or whose outcome is unknown, for one announcement or, if `entry` is null, for
-- all. Returns the number of emails.
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
  ), counted as (select entry_id, count(*) as emails from queued group by entry_id), recorded as (
    select emails, public.record_audit('announcement', entry_id, 'changed', jsonb_build_object(from_status, emails),
      jsonb_build_object('queued', emails)) from counted
  )
  select coalesce(sum(emails), 0) into mails from recorded;
  return mails;
end $$;

-- Webhook endpoints, which are URLs of customers that receive messages.
create table webhook_endpoints (
  endpoint_id           bigint generated always as identity primary key,
  account_id            bigint not null references accounts on delete cascade,
  url                   text not null check (length(url) <= 2048),
  -- Event types, such as 'key.created', or groups of event types, such as 'key.*'. Null means all events.
  events                text[],
  -- The datasets for which 'dataset.changed' is sent. Null means all datasets.
  datasets              text[],
  tickers               text[],
  -- Stored in plain text, because every message is signed with it. Until it expires, the previous secret signs messages
  -- as well.
  secret                text not null,
  previous_secret       text,
  previous_secret_until timestamptz(3),
  created_at            timestamptz(3) not null default now(),
  disabled_at           timestamptz(3),
  disabled_reason       text,
  -- Whether the endpoint was disabled by the service rather than by an operator.
  disabled_by_service   boolean not null default false,
  -- The number of messages in a row that were given up, after all of their attempts, since the last successful
  -- delivery.
  dead_letters_in_a_row int not null default 0,
  check ((disabled_at is null) = (disabled_reason is null))
);

create index on webhook_endpoints (account_id);

-- The service itself counts `dead_letters_in_a_row`, so changes to it are not audited.
create trigger audit after insert or delete
  or update of account_id, url, events, datasets, tickers, previous_secret_until, disabled_at, disabled_reason
  on webhook_endpoints
  for each row
  execute function audit_row('webhook', 'endpoint_id', 'secret', 'previous_secret', 'dead_letters_in_a_row');

-- One row per message and endpoint. Messages to an endpoint are sent in order of `position`. Values of `status`:
--   pending    waiting for the first or the next attempt
--   delivered  accepted by the receiver
--   dead       given up after the last attempt; sent again only on request
create table webhook_messages (
  message_id      text primary key default 'msg_' || replace(gen_random_uuid()::text, '-', ''),
  position        bigint generated always as identity,
  endpoint_id     bigint not null references webhook_endpoints on delete cascade,
  type            text not null,
  -- The bytes that are signed and sent. They are the same in every attempt.
  body            text not null,
  -- Identifies the event. An event that is queued again with the same key does not produce a second message for an
  -- endpoint.
  event_key       text,
  status          text not null default 'pending' check (status in ('pending', 'delivered', 'dead')),
  attempts        int not null default 0,
  -- The number of attempts that were made before the message was last requeued. Requeuing restarts the delays between
  -- attempts, but not the count of attempts, because the count identifies an attempt.
  attempts_before int not null default 0,
  -- The time of the next attempt. During an attempt, the time after which other processes assume that the process that
  -- made it has died, and try again.
  next_attempt_at timestamptz(3) not null default now(),
  created_at      timestamptz(3) not null default now(),
  last_attempt_at timestamptz(3),
  finished_at     timestamptz(3),
  http_status     int,
  last_error      text,
  check ((status = 'pending') = (finished_at is null))
);

create index on webhook_messages (endpoint_id, position) where status = 'pending';
create index on webhook_messages (endpoint_id, position) where status <> 'pending';
create index on webhook_messages (finished_at);
create unique index on webhook_messages (endpoint_id, event_key) where event_key is not null;

-- The position in the change feed up to which webhook messages have been queued: a cursor or a time. Null means that no
-- endpoint has subscribed to dataset changes yet.
create table webhook_feed (
  only_one boolean primary key default true check (only_one),
  cursor   text
);

insert into webhook_feed default values;

-- Formats a time with microseconds, in the format of responses (D15).
create function precise_time(moment timestamptz) returns text language sql stable
return to_char(moment at time zone 'Etc/GMT+5', 'YYYY-MM-DD"T"HH24:MI:SS.US"-05:00"');

-- Queues a message if the endpoint is enabled, and returns whether it was queued. If 10,000 messages are already
-- waiting for the endpoint, disables it instead: its receiver is too slow or has been unreachable for a long time.
create function enqueue_webhook_message(endpoint bigint, event_type text, data json, event_key text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if (
    select count(*) from (
      select from public.webhook_messages where endpoint_id = endpoint and status = 'pending' limit 10000
    ) as waiting
  ) = 10000 then
    update public.webhook_endpoints set disabled_at = now(), disabled_by_service = true,
      disabled_reason = '10,000 messages were waiting'
    where endpoint_id = endpoint and disabled_at is null;
    return false;
  end if;
  insert into public.webhook_messages (endpoint_id, type, body, event_key)
  select endpoint, event_type,
    json_build_object('type', event_type, 'timestamp', public.precise_time(now()), 'data', data)::text,
    enqueue_webhook_message.event_key
  from public.webhook_endpoints where endpoint_id = endpoint and disabled_at is null
  on conflict do nothing;
  return found;
end $$;

-- Queues an event for each of the account's enabled endpoints that subscribe to the event type, in the caller's
-- transaction. Returns the number of messages. In a larger statement, the result of the call must be selected, because
-- PostgreSQL does not run a call whose result is unused.
create function enqueue_webhook_event(account bigint, event_type text, data json, event_key text default null)
returns bigint language sql set search_path = pg_catalog, pg_temp as $$
  select count(*) filter (
    where public.enqueue_webhook_message(endpoint_id, event_type, data, enqueue_webhook_event.event_key)
  )
  from public.webhook_endpoints
  where account_id = account and disabled_at is null
    and (events is null or event_type = any(events) or split_part(event_type, '.', 1) || '.*' = any(events))
$$;

-- Queues an event about an API key. `replaced_key_id` is the key that this key replaced in a rotation.
create function enqueue_key_event(
  event_type text, key api_keys, replaced_key_id bigint default null, event_key text default null
) returns bigint language sql set search_path = pg_catalog, pg_temp as $$
  select public.enqueue_webhook_event(
    (key).account_id, event_type,
    json_build_object(
      'key_id', (key).key_id, 'name', left((key).name, 200), 'key_hint', (key).key_hint,
      'expires_at', replace(
        to_char((key).expires_at at time zone 'Etc/GMT+5', 'YYYY-MM-DD"T"HH24:MI:SS.MS"-05:00"'), '.000-', '-'
      ),
      'replaced_key_id', replaced_key_id
    ),
    event_key
  )
$$;

-- A trigger function for `api_keys`. Queues an event whenever a key changes, in the transaction of the change and
-- regardless of who makes it.
create function queue_key_event() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  replaced bigint;
  event    text;
begin
  if not exists (select from public.webhook_endpoints where account_id = new.account_id) then return null; end if;
  if tg_op = 'INSERT' then
    select key_id into replaced from public.api_keys where account_id = new.account_id and replaced_by = new.key_id;
    event := case when replaced is null then 'key.created' else 'key.rotated' end;
  else
    event := case
      when old.revoked_at is null and new.revoked_at is not null then 'key.revoked'
      when old.disabled_at is null and new.disabled_at is not null then 'key.disabled'
      when old.disabled_at is not null and new.disabled_at is null then 'key.enabled'
    end;
  end if;
  if event is not null then perform public.enqueue_key_event(event, new, replaced); end if;
  return null;
end $$;

create trigger queue_key_event after insert or update of revoked_at, disabled_at on api_keys
  for each row execute function queue_key_event();

-- Moves the webhooks' position in the change feed (`webhook_feed`) to the present, if no enabled endpoint subscribes to
-- dataset changes. Must be called before the first such endpoint is enabled, so that it does not receive older changes.
create function begin_webhook_feed() returns void language sql set search_path = pg_catalog, pg_temp as $$
  update public.webhook_feed
  set cursor = public.precise_time(now())
  where not exists (
    select from public.webhook_endpoints
    where disabled_at is null and (events is null or events && '{dataset.changed,dataset.*}')
  )
$$;

-- Enables an endpoint. Its waiting messages are sent immediately, and each gets as many attempts as a new message.
-- Returns false if the endpoint does not exist or its account has been erased.
create function enable_webhook_endpoint(endpoint bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform public.begin_webhook_feed();
  update public.webhook_endpoints
  set disabled_at = null, disabled_reason = null, disabled_by_service = false, dead_letters_in_a_row = 0
  where endpoint_id = endpoint and account_id not in (select account_id from public.account_erasures);
  if not found then return false; end if;
  update public.webhook_messages set attempts_before = attempts, next_attempt_at = now()
  where endpoint_id = endpoint and status = 'pending';
  return true;
end $$;

-- Requeues the messages that meet all given conditions, with the same ids and in the same order, ahead of all waiting
-- messages. If more than 10,000 messages would be waiting for an endpoint, only its oldest messages are requeued.
-- Returns the number of messages that were requeued, the number that were found, and the disabled endpoints, which
-- receive the messages only once they are enabled.
create function replay_webhook_messages(
  message text, endpoint bigint, since timestamptz, include_delivered boolean,
  out replayed int, out found int, out disabled bigint[]
) language sql security definer set search_path = pg_catalog, pg_temp as $$
  with found as (
    select message_id, endpoint_id, row_number() over (partition by endpoint_id order by position) as number
    from public.webhook_messages
    where (status = 'dead' or (include_delivered and status = 'delivered'))
      and message_id = coalesce(message, message_id)
      and endpoint_id = coalesce(endpoint, endpoint_id)
      and created_at >= coalesce(since, '-infinity')
  ), waiting as (
    select endpoint_id, count(*) as messages from public.webhook_messages where status = 'pending' group by endpoint_id
  ), queued as (
    update public.webhook_messages as stored
    set status = 'pending', attempts_before = attempts, next_attempt_at = now(), finished_at = null
    from found left join waiting using (endpoint_id)
    where stored.message_id = found.message_id and stored.status <> 'pending'
      and number <= 10000 - coalesce(waiting.messages, 0)
    returning stored.endpoint_id
  ), counted as (select endpoint_id, count(*)::int as messages from queued group by endpoint_id), recorded as (
    select endpoint_id, messages, public.record_audit('webhook', endpoint_id::text, 'changed', null,
      jsonb_build_object('replayed', messages)) from counted
  )
  select coalesce(sum(messages), 0)::int, (select count(*) from found)::int, array(
    select endpoint_id from recorded join public.webhook_endpoints using (endpoint_id)
    where disabled_at is not null order by 1
  )
  from recorded
$$;

-- Queues the emails about a changelog entry, but only to those `recipients` that are the address of an account. If the
-- entry is announced for the first time and is about a deprecation, also queues the webhook messages. Returns the
-- number of emails.
create function announce_entry(entry text, is_operational boolean, recipients json, deprecation json) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  mails    bigint;
  messages bigint := 0;
begin
  if entry like '%:%' then raise 'Only the id of a notice has a colon.'; end if;
  insert into public.announcements (entry_id, operational) values (entry, is_operational) on conflict do nothing;
  if found and deprecation is not null then
    select coalesce(sum(public.enqueue_webhook_event(account_id, 'deprecation.announced', deprecation, entry)), 0)
    into messages from (select distinct account_id from public.webhook_endpoints) as subscribed;
  end if;
  insert into public.announcement_mails (entry_id, recipient)
  select entry, recipient from json_array_elements_text(recipients) as recipient
  -- Skips accounts that have been erased in the meantime.
  where lower(recipient) in (select lower(btrim(contact_email)) from public.accounts)
  on conflict do nothing;
  get diagnostics mails = row_count;
  if mails + messages > 0 then
    perform public.record_audit('announcement', entry, 'changed', null, jsonb_build_object(
      'queued', mails, 'webhooks', messages, 'deprecation', case when messages > 0 then deprecation end
    ));
  end if;
  return mails;
end $$;

revoke execute on function queue_notice, retry_emails, queue_key_event, announce_entry, enable_webhook_endpoint,
  replay_webhook_messages from public;

insert into role_privileges values
  ('service', 'update (status, attempts, next_attempt_at, claimed_by, last_error, sent_at)',
    'public.announcement_mails'),
  ('service', 'execute', 'public.queue_notice'),
  ('admin', 'execute', 'public.retry_emails'),
  ('service', 'insert, update, delete', 'public.webhook_messages'),
  ('service', 'update (disabled_at, disabled_reason, disabled_by_service, dead_letters_in_a_row)',
    'public.webhook_endpoints'),
  ('service', 'update (cursor)', 'public.webhook_feed'),
  -- The granted columns exclude the secrets. A new column that the admin API reads must be added to this list.
  ('admin', 'no select', 'public.webhook_endpoints'),
  ('admin', 'select (endpoint_id, account_id, url, events, datasets, tickers, created_at, disabled_at, disabled_reason,
    disabled_by_service, dead_letters_in_a_row)', 'public.webhook_endpoints'),
  ('admin', 'update (disabled_at, disabled_reason)', 'public.webhook_endpoints'),
  ('admin', 'execute', 'public.announce_entry'),
  ('admin', 'execute', 'public.enable_webhook_endpoint'),
  ('admin', 'execute', 'public.replay_webhook_messages');
