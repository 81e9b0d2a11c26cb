-- Accounts, API keys and credits (D2: credentials, D3: tiers, D27: billing).

create table accounts (
  account_id                bigint generated always as identity primary key,
  name                      text not null unique check (name = btrim(name) and name <> ''),
  contact_email             text,
  tier                      text not null check (tier in ('basic', 'pro', 'ultimate')),
  created_at                timestamptz(3) not null default now(),
  -- Whether the account receives emails other than operational ones.
  news                      boolean not null default true,
  -- For a prepaid account, the sum of its credits minus the cost of usage that has been charged. Null for a postpaid
  -- account. The balance can become slightly negative, because requests in flight still complete when the balance runs
  -- out.
  balance_microdollars      bigint,
  last_charged_at           timestamptz(3),
  -- The monthly budget (docs/operations/accounts.md, decision 156). Months are in New York time, like the days of
  -- `usage_daily`. If the account has no budget, the budget columns are null, except `budget_stops`.
  budget_microdollars       bigint,
  -- Whether requests for data are refused once the budget is used up.
  budget_stops              boolean not null default false,
  -- The first day of the month for which spending is counted: the latest month with a cost, or the month in which the
  -- budget was set.
  budget_month              date,
  -- The account's total cost in `usage_daily` for that month. The statement that charges usage updates both.
  budget_spent_microdollars bigint,
  constraint accounts_budget_check check (
    case when budget_microdollars is null then not budget_stops
    else budget_microdollars > 0 and budget_month is not null and budget_spent_microdollars is not null end
  )
-- Leaves half of each page free for new row versions, so that charging an account does not have to update any index.
) with (fillfactor = 50);

-- API keys. Only the SHA-256 hash and the first characters of a key are stored. A revoked key cannot be restored; a
-- disabled key can.
create table api_keys (
  key_id            bigint generated always as identity primary key,
  account_id        bigint not null references accounts,
  key_hash          bytea not null unique check (octet_length(key_hash) = 32),
  key_hint          text not null,
  name              text not null default 'default' check (name = btrim(name) and name <> ''),
  -- The endpoints that the key may access. Null means all endpoints.
  endpoints         text[] check (cardinality(endpoints) > 0),
  -- The networks from which the key may be used. Null means all networks.
  networks          cidr[],
  created_at        timestamptz(3) not null default now(),
  expires_at        timestamptz(3),
  -- When `expires_at` was last changed, so that customers are not warned about an expiry time that they have just set.
  -- Null means that it has not changed since the key was created.
  expiry_set_at     timestamptz(3),
  revoked_at        timestamptz(3),
  disabled_at       timestamptz(3),
  -- The key that replaced this one in a rotation. Not a foreign key, because keys are deleted only together with their
  -- account.
  replaced_by       bigint,
  last_used_at      timestamptz(3),
  last_used_address inet,
  constraint api_keys_networks_check
    check (cardinality(networks) between 1 and 100 and array_position(networks, null) is null)
);

create index on api_keys (account_id);

-- A trigger function. Stores in `expiry_set_at` when the expiry time of a key was changed.
create function note_expiry() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if new.expires_at is distinct from old.expires_at then new.expiry_set_at := now(); end if;
  return new;
end $$;

create trigger note_expiry before update of expires_at on api_keys for each row execute function note_expiry();

-- The credits of all accounts. An account can be credited only once for a reference, such as a payment id.
create table credits (
  credit_id           bigint generated always as identity primary key,
  account_id          bigint not null references accounts,
  amount_microdollars bigint not null check (amount_microdollars <> 0),
  reference           text check (reference <> ''),
  created_at          timestamptz(3) not null default now(),
  unique (account_id, reference)
);

-- Recording usage constantly updates some of the columns, which these triggers ignore. A change to the balance is
-- audited only if the balance increases, or if the account becomes prepaid or postpaid.
create trigger audit after insert or delete
  or update of name, contact_email, tier, news, budget_microdollars, budget_stops on accounts
  for each row
  execute function audit_row('account', 'name', 'last_charged_at', 'budget_month', 'budget_spent_microdollars');
create trigger audit_prepaid after update of balance_microdollars on accounts
  for each row when (
    (old.balance_microdollars is null) <> (new.balance_microdollars is null)
    or new.balance_microdollars > old.balance_microdollars
  )
  execute function audit_row('account', 'name', 'last_charged_at', 'budget_month', 'budget_spent_microdollars');
create trigger audit after insert or delete
  or update of account_id, key_hint, expires_at, revoked_at, disabled_at, name, endpoints, networks, replaced_by
  on api_keys
  for each row
  execute function audit_row('key', 'key_id', 'key_hash', 'last_used_at', 'last_used_address', 'expiry_set_at');
create trigger audit after insert or delete or update on credits
  for each row execute function audit_row('credit', 'credit_id');

insert into role_privileges values
  ('service', 'no select', 'public.credits'),
  ('service', 'update (last_used_at, last_used_address)', 'public.api_keys'),
  -- To lock rows of `accounts`, a role must be allowed to update one of the columns. The functions that charge accounts
  -- run with the privileges of their owner instead.
  ('service', 'update (last_charged_at)', 'public.accounts'),
  ('admin', 'insert, update (tier, contact_email, news)', 'public.accounts'),
  ('admin', 'insert, update (expires_at, revoked_at, disabled_at, networks, replaced_by)', 'public.api_keys'),
  ('admin', 'insert', 'public.credits');
