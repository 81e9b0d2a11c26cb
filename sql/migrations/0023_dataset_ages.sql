-- When a dataset was changed last, for those who watch how old the data are. The row that notes a change is always a
-- new one, so its transaction's time is that of the change.
alter table dataset_versions add column changed_at timestamptz not null default now();
