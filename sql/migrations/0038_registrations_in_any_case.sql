-- no transaction: indexes are made while rows are written. They serve filters that ignore case (D33), in the order of
-- the list.
drop index concurrently if exists registrations_form_type_any_case_idx;
create index concurrently registrations_form_type_any_case_idx on registrations (lower(form_type), filed_at desc, id);
