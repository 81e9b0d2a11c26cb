-- The audit log, with one row for each change that an operator makes (docs/operations/audit.md). Triggers write the
-- rows, so that neither a command nor a psql session can bypass the log. Service roles can change it only by calling
-- functions.
create table audit (
  audit_id      bigint generated always as identity primary key,
  recorded_at   timestamptz not null default clock_timestamp(),
  -- Who made the change: an operating-system user, an admin, or a PostgreSQL role.
  actor         text not null,
  -- How the change was made: `command`, `admin` or `sql`.
  via           text not null,
  -- The host on which the command ran, or the client's IP address.
  origin        text,
  -- The command, such as `keys rotate`, the request to the admin API, or the name of the SQL client.
  operation     text,
  database_role text not null,
  subject_type  text not null,
  subject       text not null,
  account_id    bigint,
  change        text not null check (change in ('created', 'changed', 'removed')),
  -- The values of a row that the change removed, or the previous values of the columns that it changed.
  before        jsonb,
  -- The values of a row that the change added, or the new values of the columns that it changed.
  after         jsonb,
  -- For a change to datasets: the id of the transaction in `history.transactions`.
  transaction   bigint unique
);

create index on audit (recorded_at);
create index on audit (account_id, audit_id) where account_id is not null;
create index on audit (subject_type, subject, audit_id);

-- Writes a row to the audit log. The setting `tickerline.actor` names the person or program that makes the change; if a
-- connection has not set it, the database role is recorded. Only the functions below may call this function:
-- `transaction` is a unique key, so a role that could pass any transaction id could overwrite the log's row about
-- another change.
create function write_audit(
  subject_type text, subject text, change text, before jsonb, after jsonb, account bigint, history_transaction bigint
) returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into public.audit as recorded (
    actor, via, origin, operation, database_role, subject_type, subject, account_id, change, before, after, transaction
  )
  select left(coalesce(given ->> 'actor', session_user), 200),
    case when given ->> 'via' in ('admin', 'command') then given ->> 'via' else 'sql' end,
    left(case when given is null then host(inet_client_addr()) else given ->> 'origin' end, 200),
    left(case when given is null then nullif(current_setting('application_name'), '') else given ->> 'operation' end,
      200),
    session_user, subject_type, subject, account, change, before, after, history_transaction
  from (values (nullif(current_setting('tickerline.actor', true), '')::jsonb)) as actors (given)
  on conflict (transaction) do update set subject = excluded.subject, after = excluded.after
$$;

-- Records a change that no `audit_row` trigger records, such as a change of settings.
create function record_audit(subject_type text, subject text, change text, before jsonb, after jsonb) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select public.write_audit(subject_type, subject, change, before, after, null, null)
$$;

-- A trigger function. Records in the audit log that a row was added, changed or removed. The trigger's arguments are
-- the subject type, the column that identifies the subject, and the columns to omit because they are secret or change
-- with every request.
create function audit_row() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  previous jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) - tg_argv[2:] end;
  present  jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) - tg_argv[2:] end;
  row      jsonb := coalesce(present, previous);
begin
  if tg_op = 'UPDATE' then
    select jsonb_object_agg(key, previous -> key), jsonb_object_agg(key, value) into previous, present
    from jsonb_each(present) where value is distinct from previous -> key;
    if present is null then return null; end if;
  end if;
  perform public.write_audit(
    tg_argv[0], row ->> tg_argv[1],
    case tg_op when 'INSERT' then 'created' when 'DELETE' then 'removed' else 'changed' end,
    previous, present, (row ->> 'account_id')::bigint, null
  );
  return null;
end $$;

-- Records in the audit log the settings for prices and rate limits with which a service starts (`present`), if they
-- differ from the settings recorded most recently.
create function record_settings(present jsonb) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select public.record_audit('settings', 'prices and limits', case when last is null then 'created' else 'changed' end,
    last, present)
  from (
    select (select after from public.audit where subject_type = 'settings' order by audit_id desc limit 1) as last
  ) as recorded
  where present is distinct from last
$$;

-- Deletes the rows of the audit log that are older than the given time, but never rows from the last 31 days. Returns
-- the number of deleted rows.
create function drop_audit_before(moment timestamptz) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  removed bigint;
begin
  delete from public.audit where recorded_at < least(moment, now() - interval '31 days');
  get diagnostics removed = row_count;
  if removed > 0 then
    perform public.record_audit('audit', 'retention', 'removed', jsonb_build_object('rows', removed), null);
  end if;
  return removed;
end $$;

-- Redacts the fields of a row or response that belongs to an erased account. Only fields that cannot identify anyone
-- keep their values. These are listed here, so that a column added later is redacted by default.
create function redact_customer_data(fields jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case when jsonb_typeof(fields) = 'object' then (
    select coalesce(jsonb_object_agg(key, case
      when value = 'null' or key = any ('{account_id,amount_microdollars,balance_microdollars,became_prepaid,
        budget_microdollars,budget_stops,bytes,closed_at,cost_microdollars,created_at,credit_id,datasets,digest,
        disabled_at,disabled_by_service,endpoint_id,endpoints,erased,events,expires_at,key_id,keys,last_charged_at,
        lines,month,news,previous_secret_until,requests,revoked_at,tier,usage_from}')
      then value else '"erased"' end), '{}')
    from jsonb_each(fields)
  ) else fields end
$$;

revoke execute on function write_audit, record_audit, audit_row, record_settings, drop_audit_before from public;

insert into role_privileges values
  ('service', 'no select', 'public.audit'),
  ('service', 'execute', 'public.record_settings'),
  ('service', 'execute', 'public.drop_audit_before');
