-- Paying in advance (D27). A balance is what was credited less what usage has cost since; null: the account is billed
-- later. It goes below zero by what was answered before the last of it was seen to be used up.
alter table accounts
  add column balance_microdollars bigint,
  add column last_charged_at timestamptz(3);

-- Every credit there was; one reference (of a payment, say) is credited once.
create table credits (
  credit_id           bigint generated always as identity primary key,
  account_id          bigint not null references accounts,
  amount_microdollars bigint not null check (amount_microdollars <> 0),
  reference           text check (reference <> ''),
  created_at          timestamptz(3) not null default now(),
  unique (account_id, reference)
);

-- A revoked key is one for good, a disabled one can be enabled again. A key may be limited to some endpoints.
alter table api_keys rename column disabled_at to revoked_at;
alter table api_keys
  add column disabled_at timestamptz(3),
  add column name text not null default 'default' check (name = btrim(name) and name <> ''),
  add column endpoints text[] check (cardinality(endpoints) > 0);
