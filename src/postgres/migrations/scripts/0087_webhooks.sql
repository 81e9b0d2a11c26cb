-- Webhooks (docs/operations/webhooks.md): addresses of customers, and the messages that are sent to them.
create table webhook_endpoints (
  endpoint_id           bigint generated always as identity primary key,
  account_id            bigint not null references accounts on delete cascade,
  url                   text not null check (length(url) <= 2048),
  -- Types of events, such as 'key.created', or groups of them, such as 'key.*'. Null: all.
  events                text[],
  -- Limits of 'dataset.changed'. Null: all.
  datasets              text[],
  tickers               text[],
  -- Stored as it is, because it signs each message. The previous one also signs until its end.
  secret                text not null,
  previous_secret       text,
  previous_secret_until timestamptz(3),
  created_at            timestamptz(3) not null default now(),
  disabled_at           timestamptz(3),
  disabled_reason       text,
  -- Whether the service has disabled the endpoint, and not an operator.
  disabled_by_service   boolean not null default false,
  -- Dead letters since the last delivered message.
  dead_letters_in_a_row int not null default 0,
  check ((disabled_at is null) = (disabled_reason is null))
);

create index on webhook_endpoints (account_id);

-- The service writes `dead_letters_in_a_row`.
create trigger audit after insert or delete
  or update of account_id, url, events, datasets, tickers, previous_secret_until, disabled_at, disabled_reason
  on webhook_endpoints
  for each row execute function audit_row(
    'webhook', 'endpoint_id', 'secret', 'previous_secret', 'dead_letters_in_a_row'
  );

-- One row per message and endpoint. An endpoint gets its messages in the order of `position`. Values of `status`:
--   pending    waiting for its first attempt or the next one
--   delivered  accepted by the receiver
--   dead       given up after the last attempt; sent again only on request
create table webhook_messages (
  message_id      text primary key default 'msg_' || replace(gen_random_uuid()::text, '-', ''),
  position        bigint generated always as identity,
  endpoint_id     bigint not null references webhook_endpoints on delete cascade,
  type            text not null,
  -- The bytes that are signed and sent, the same in each attempt.
  body            text not null,
  -- An endpoint gets each event with a key once.
  event_key       text,
  status          text not null default 'pending' check (status in ('pending', 'delivered', 'dead')),
  attempts        int not null default 0,
  -- While an attempt is running, the time from which another process may assume that its sender has died.
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

-- The place in the change feed up to which messages were queued: a cursor or a time. Null: no endpoint ever wanted them.
create table webhook_feed (
  only_one boolean primary key default true check (only_one),
  cursor   text
);

insert into webhook_feed default values;

-- Queues a message if the endpoint is enabled, and returns whether it did. An endpoint with 10,000 waiting messages is
-- disabled instead, because its receiver has long been away or is too slow.
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
  select
    endpoint, event_type,
    json_build_object(
      'type', event_type,
      'timestamp', to_char(now() at time zone 'Etc/GMT+5', 'YYYY-MM-DD"T"HH24:MI:SS.US"-05:00"'),
      'data', data
    )::text,
    enqueue_webhook_message.event_key
  from public.webhook_endpoints where endpoint_id = endpoint and disabled_at is null
  on conflict do nothing;
  return found;
end $$;

-- Queues an event for each enabled endpoint of the account that wants its type, in the caller's transaction. Returns
-- the number of messages. In a statement, the call must be selected, or PostgreSQL does not run it.
create function enqueue_webhook_event(account bigint, event_type text, data json, event_key text default null)
returns bigint language sql set search_path = pg_catalog, pg_temp as $$
  select count(*) filter (
    where public.enqueue_webhook_message(endpoint_id, event_type, data, enqueue_webhook_event.event_key)
  )
  from public.webhook_endpoints
  where account_id = account and disabled_at is null
    and (events is null or event_type = any(events) or split_part(event_type, '.', 1) || '.*' = any(events))
$$;

-- Queues an event about a key. `replaced_key_id` is the key that a rotation replaced.
create function enqueue_key_event(
  event_type text, key api_keys, replaced_key_id bigint default null, event_key text default null
) returns bigint language sql set search_path = pg_catalog, pg_temp as $$
  select public.enqueue_webhook_event(
    (key).account_id, event_type,
    json_build_object(
      'key_id', (key).key_id,
      'name', left((key).name, 200),
      'key_hint', (key).key_hint,
      'expires_at', replace(
        to_char((key).expires_at at time zone 'Etc/GMT+5', 'YYYY-MM-DD"T"HH24:MI:SS.MS"-05:00"'), '.000-', '-'
      ),
      'replaced_key_id', replaced_key_id
    ),
    event_key
  )
$$;
