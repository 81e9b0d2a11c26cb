-- Number of requests that a row stands for.
alter table usage add column request_count bigint not null default 1;
