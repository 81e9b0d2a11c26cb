-- How many requests a row of usage stands for: 1, except for requests refused with 429. Of these a process writes one
-- row for each account, endpoint and minute, and counts on in it. `usage_moments` goes on counting rows.
alter table usage add column request_count bigint not null default 1;
