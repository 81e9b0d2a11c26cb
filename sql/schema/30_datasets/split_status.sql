-- Stock splits as filings report them, from the shareholders' vote to the effective date (§4.4). A 1-for-100 split is
-- stored as 100 and 1.
create table split_status (
  id                     filled_text primary key,
  ticker                 ticker not null,
  action_type            text not null check (
    action_type in ('pending_vote', 'vote_approved', 'split_announced', 'split_effective', 'withdrawn')
  ),
  split_from             ratio,
  split_to               ratio,
  split_ratio_min        ratio,
  split_ratio_max        ratio,
  vote_date              fact_day,
  approved_date          fact_day,
  authority_expires_date fact_day,
  effective_date         fact_day,
  executed               boolean not null,
  details                text,
  filed_at               fact_day not null,
  form_type              filled_text not null,
  document_url           text,
  last_updated           wall_time not null
);

-- Every request specifies tickers, so the index on ticker is enough for most requests. The other indexes are for
-- tickers with many rows.
select index_each('split_status', '{ticker,action_type,executed}', 'filed_at desc, id');
create index on split_status (filed_at desc, id);
select index_each('split_status', '{vote_date,effective_date}');

select history.track('split_status');
