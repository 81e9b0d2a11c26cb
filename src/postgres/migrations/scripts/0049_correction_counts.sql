-- How many rows of each dataset were added, corrected and removed, so that buyers can check its quality (decision 118).
--
-- A job reads the change feed in its order and adds up what it finds, so that requests read only these small tables.
create table history.change_counts (
  dataset text not null,
  -- At the fixed offset -05:00.
  day     date not null,
  kind    text not null check (kind in ('added', 'corrected', 'removed')),
  -- The time from the record of a row to its correction. Empty unless corrected.
  delay   text not null,
  changes bigint not null,
  primary key (dataset, day, kind, delay)
);

-- How many corrections changed a field.
create table history.corrected_fields (
  dataset     text not null,
  month       date not null,
  field       text not null,
  corrections bigint not null,
  primary key (dataset, month, field)
);

-- The place in the feed up to which the changes are counted.
create table history.counting_place (
  only_one      boolean primary key default true check (only_one),
  -- The counts begin after this time.
  since         timestamptz not null,
  -- As in `/v1/changes`. Null: nothing is counted yet.
  cursor        text,
  -- The time of the newest counted change.
  counted_until timestamptz
);

insert into history.counting_place (since) select earliest from history.beginning;
