-- By how often a dataset was changed, two histories may look alike: a standby that takes over without the last commits,
-- and is written to as often as those were, or a database that was restored. So each change has a mark of its own, and
-- a version of a dataset is the marks of its rows: it names one history, and no other ever has it.
-- The table has few rows, so writing them anew takes no time; whoever notes a change gives no mark, and gets one.
alter table dataset_versions add column mark uuid not null default gen_random_uuid();
