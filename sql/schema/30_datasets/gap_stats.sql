-- Days on which a ticker opened with a price gap (resources.md, gap-stats). gap-stats-advanced returns all columns
-- (D30).
create table gap_stats (
  ticker                     ticker not null,
  date                       fact_day not null,
  previous_day_close         price not null,
  market_open                price not null,
  gap_percentage             change not null,
  high_price                 price not null,
  low_price                  price not null,
  high_time                  wall_time,
  low_time                   wall_time,
  market_close               price not null,
  closed_over_vwap           boolean,
  volume                     quantity not null,
  dollar_volume              dollars not null,
  premarket_volume           quantity not null,
  premarket_dollar_volume    dollars not null,
  premarket_vwap             price,
  afterhours_close           price,
  market_cap                 dollars,
  filing_types               text_list not null default '{}',
  all_tags                   text_list not null default '{}',
  spike_start_time           wall_time,
  last_updated               instant not null,
  -- Only gap-stats-advanced returns the following columns.
  open_to_high_pct           change not null,
  open_to_low_pct            change not null,
  percentage_gain            change not null,
  spike_start_price          price,
  spike_duration_minutes     tally,
  est_halt_minutes           tally,
  rth_volume                 quantity not null,
  rth_dollar_volume          dollars not null,
  premarket_high             price,
  premarket_low              price,
  afterhours_high            price,
  afterhours_low             price,
  afterhours_volume          quantity,
  close_under_50pct_of_range boolean not null,
  gap_filled                 boolean not null,
  gap_fill_time              wall_time,
  tradable_float             quantity,
  primary key (ticker, date)
);

-- The sort order of lists over all tickers: newest first. For a single ticker, a backward scan of the primary key gives
-- the same order.
create index on gap_stats (date desc, ticker);
create index on gap_stats (closed_over_vwap, date desc, ticker);
select index_each('gap_stats', '{gap_percentage,volume,dollar_volume,market_cap}');
create index gap_stats_all_tags_any_case_idx on gap_stats using gin (lowered(all_tags));
create index gap_stats_filing_types_any_case_idx on gap_stats using gin (lowered(filing_types));

select history.track('gap_stats');
