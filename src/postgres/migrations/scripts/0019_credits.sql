-- Prepaid accounts (D27: billing). A balance is the sum of credits minus the cost of usage; null means billed later.
-- It can become slightly negative, because requests in flight complete before the empty balance is noticed.
alter table accounts
  add column balance_microdollars bigint,
  add column last_charged_at timestamptz(3);

-- All credits. A reference, such as a payment id, is credited only once.
create table credits (
  credit_id           bigint generated always as identity primary key,
  account_id          bigint not null references accounts,
  amount_microdollars bigint not null check (amount_microdollars <> 0),
  reference           text check (reference <> ''),
  created_at          timestamptz(3) not null default now(),
  unique (account_id, reference)
);

-- Revoking a key is final; disabling it is not. A key may be restricted to some endpoints.
alter table api_keys rename column disabled_at to revoked_at;
alter table api_keys
  add column disabled_at timestamptz(3),
  add column name text not null default 'default' check (name = btrim(name) and name <> ''),
  add column endpoints text[] check (cardinality(endpoints) > 0);
