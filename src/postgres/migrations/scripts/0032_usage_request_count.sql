-- Number of requests that a usage row stands for: 1, except for requests rejected with 429, which a process counts in
-- one row per account, endpoint and minute. `usage_moments` still counts rows.
alter table usage add column request_count bigint not null default 1;
