-- no transaction: indexes are built while writes continue. They serve case-insensitive filters (D33) in list order.
drop index concurrently if exists registrations_form_type_any_case_idx;
create index concurrently registrations_form_type_any_case_idx on registrations (lower(form_type), filed_at desc, id);
