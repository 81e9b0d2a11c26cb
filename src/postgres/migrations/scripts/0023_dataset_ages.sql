-- Time of the last change per dataset, for monitoring. Every change inserts a new row, so the default is correct.
alter table dataset_versions add column changed_at timestamptz not null default now();
