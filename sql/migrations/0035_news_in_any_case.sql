-- no transaction: indexes are made while rows are written. They serve filters that ignore case (D33), in the order of
-- the list.
drop index concurrently if exists news_form_type_any_case_idx;
create index concurrently news_form_type_any_case_idx on news (lower(form_type), created_at desc, id);
drop index concurrently if exists news_tags_any_case_idx;
create index concurrently news_tags_any_case_idx on news using gin (lowered(tags));
