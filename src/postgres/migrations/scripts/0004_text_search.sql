-- Trigram indexes serve substring filters. The extension is trusted, so the database owner may create it.
create extension if not exists pg_trgm;
