-- Columns that the SEC does not publish, in new rows of an ingest: nothing is recorded in this database.
alter table screener
  alter num_gaps set default 0,
  alter num_runners set default 0;

alter table registrations
  alter is_atm set default false;
