-- Requests of the last hour that got 5xx before their account was known, such as while PostgreSQL could not look up their
-- keys. The console counts them; usage cannot, because it belongs to accounts (docs/operations/which-account.md).
create table failed_requests (
  minute      timestamptz(0) not null,
  endpoint    text not null,
  status_code smallint not null,
  requests    bigint not null,
  primary key (minute, endpoint, status_code)
);
