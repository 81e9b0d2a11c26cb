-- One row per ticker and session, either after hours (resources.md, afterhours-stats) or premarket (resources.md,
-- premarket-stats). reference_close is the close on the same day or, for a premarket session, on the previous day.
create table afterhours_stats (
  ticker                 ticker not null,
  date                   fact_day not null,
  reference_close        price not null,
  open_price             price,
  close_price            price,
  high_price             price not null,
  low_price              price not null,
  high_time              wall_time,
  low_time               wall_time,
  percentage_gain        change not null,
  change_percentage      change not null,
  vwap                   price,
  volume                 quantity not null,
  dollar_volume          dollars not null,
  volume_ratio           proportion,
  trade_count            tally,
  spike_start_time       wall_time,
  spike_start_price      price,
  spike_duration_minutes tally,
  est_halt_minutes       tally,
  market_cap             dollars,
  tradable_float         quantity,
  filing_types           text_list not null default '{}',
  all_tags               text_list not null default '{}',
  last_updated           wall_time not null,
  primary key (ticker, date)
);

-- The sort order of lists over all tickers: newest first. For a single ticker, a backward scan of the primary key gives
-- the same order.
create index on afterhours_stats (date desc, ticker);
select index_each('afterhours_stats', '{percentage_gain,change_percentage,volume,dollar_volume,market_cap,
  tradable_float}');
create index afterhours_stats_all_tags_any_case_idx on afterhours_stats using gin (lowered(all_tags));

create table premarket_stats (like afterhours_stats including all);
alter index premarket_stats_lowered_idx rename to premarket_stats_all_tags_any_case_idx;

select history.track('afterhours_stats');
select history.track('premarket_stats');
