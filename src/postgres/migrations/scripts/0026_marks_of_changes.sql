-- Gives each change a random mark. Counts alone are ambiguous: a restored database, or a standby promoted without the
-- last commits, can reach the same count with other data. The marks of a dataset's rows form a globally unique version.
--
-- The table is small, so rewriting it is fast. Triggers need no change, because the mark has a default.
alter table dataset_versions add column mark uuid not null default gen_random_uuid();
