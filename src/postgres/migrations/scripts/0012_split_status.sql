-- Stock splits as filings report them, from the vote to the effective date (§4.4). A 1-for-100 split is 100 and 1.
-- last_updated is New York wall-clock time (D15: timestamps).
create table split_status (
  id                     text primary key,
  ticker                 text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  action_type            text not null check (
    action_type in ('pending_vote', 'vote_approved', 'split_announced', 'split_effective', 'withdrawn')
  ),
  split_from             numeric(18, 4),
  split_to               numeric(18, 4),
  split_ratio_min        numeric(18, 4),
  split_ratio_max        numeric(18, 4),
  vote_date              date,
  approved_date          date,
  authority_expires_date date,
  effective_date         date,
  executed               boolean not null,
  details                text,
  filed_at               date not null,
  form_type              text not null,
  document_url           text,
  last_updated           timestamp(3) not null
);

-- Every request names tickers, so the first index serves most requests; the others serve tickers with many rows.
create index on split_status (ticker, filed_at desc, id);
create index on split_status (filed_at desc, id);
create index on split_status (action_type, filed_at desc, id);
create index on split_status (executed, filed_at desc, id);
create index on split_status (vote_date);
create index on split_status (effective_date);
