-- no transaction: indexes are built while writes continue. They serve case-insensitive filters (D33: text filters).
drop index concurrently if exists gap_stats_all_tags_any_case_idx;
create index concurrently gap_stats_all_tags_any_case_idx on gap_stats using gin (lowered(all_tags));
drop index concurrently if exists gap_stats_filing_types_any_case_idx;
create index concurrently gap_stats_filing_types_any_case_idx on gap_stats using gin (lowered(filing_types));
drop index concurrently if exists premarket_stats_all_tags_any_case_idx;
create index concurrently premarket_stats_all_tags_any_case_idx on premarket_stats using gin (lowered(all_tags));
drop index concurrently if exists afterhours_stats_all_tags_any_case_idx;
create index concurrently afterhours_stats_all_tags_any_case_idx on afterhours_stats using gin (lowered(all_tags));
