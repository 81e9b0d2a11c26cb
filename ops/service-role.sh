#!/bin/sh
# PostgreSQL's image runs this when it creates the database: it creates the serving role. `grant` gives it its rights.
set -eu
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set=password="$SERVICE_PASSWORD" <<'SQL'
create role tickerline_service login password :'password';
SQL
