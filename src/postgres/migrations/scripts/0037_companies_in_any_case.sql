-- no transaction: indexes are built while writes continue. They serve case-insensitive filters (D33) in list order.
drop index concurrently if exists float_outstanding_country_any_case_idx;
create index concurrently float_outstanding_country_any_case_idx on float_outstanding (lower(country), ticker);
drop index concurrently if exists float_outstanding_sector_any_case_idx;
create index concurrently float_outstanding_sector_any_case_idx on float_outstanding (lower(sector), ticker);
drop index concurrently if exists float_outstanding_industry_any_case_idx;
create index concurrently float_outstanding_industry_any_case_idx on float_outstanding (lower(industry), ticker);
drop index concurrently if exists float_outstanding_exchange_any_case_idx;
create index concurrently float_outstanding_exchange_any_case_idx on float_outstanding (lower(exchange), ticker);
drop index concurrently if exists screener_exchange_any_case_idx;
create index concurrently screener_exchange_any_case_idx on screener (lower(exchange), ticker);
drop index concurrently if exists screener_sector_any_case_idx;
create index concurrently screener_sector_any_case_idx on screener (lower(sector), ticker);
drop index concurrently if exists screener_industry_any_case_idx;
create index concurrently screener_industry_any_case_idx on screener (lower(industry), ticker);
drop index concurrently if exists screener_country_any_case_idx;
create index concurrently screener_country_any_case_idx on screener (lower(country), ticker);
drop index concurrently if exists screener_state_any_case_idx;
create index concurrently screener_state_any_case_idx on screener (lower(state), ticker);
