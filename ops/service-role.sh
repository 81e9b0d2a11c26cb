#!/bin/sh
# Run by PostgreSQL's image when it makes the database: the role that only serves. `grant` then gives it its rights.
set -eu
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set=password="$SERVICE_PASSWORD" <<'SQL'
create role tickerline_service login password :'password';
SQL
