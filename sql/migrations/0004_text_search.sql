-- Filters on a part of a text find it by its trigrams. A trusted extension: the owner of the database may create it.
create extension if not exists pg_trgm;
