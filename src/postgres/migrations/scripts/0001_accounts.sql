-- Accounts and API keys (D2: credentials, D3: tiers). Of a key, only its SHA-256 and first characters are stored.
create table accounts (
  account_id    bigint generated always as identity primary key,
  name          text not null unique check (name = btrim(name) and name <> ''),
  contact_email text,
  tier          text not null check (tier in ('basic', 'pro', 'ultimate')),
  created_at    timestamptz(3) not null default now()
);

create table api_keys (
  key_id       bigint generated always as identity primary key,
  account_id   bigint not null references accounts,
  key_hash     bytea not null unique check (octet_length(key_hash) = 32),
  key_hint     text not null,
  created_at   timestamptz(3) not null default now(),
  expires_at   timestamptz(3),
  disabled_at  timestamptz(3),
  last_used_at timestamptz(3)
);

create index on api_keys (account_id);

-- Schema in which `load` builds a replacement table (D31: loading).
create schema loading;
