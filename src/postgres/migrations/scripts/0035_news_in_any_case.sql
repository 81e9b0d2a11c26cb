-- no transaction: indexes are built while writes continue. They serve case-insensitive filters (D33) in list order.
drop index concurrently if exists news_form_type_any_case_idx;
create index concurrently news_form_type_any_case_idx on news (lower(form_type), created_at desc, id);
drop index concurrently if exists news_tags_any_case_idx;
create index concurrently news_tags_any_case_idx on news using gin (lowered(tags));
