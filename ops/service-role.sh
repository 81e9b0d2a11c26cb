#!/bin/sh
# Creates the service role. The PostgreSQL image runs this script when it creates the database. The command `grant` gives
# the role its privileges later.
set -eu
password=$(cat /run/secrets/service-password)
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set=password="$password" <<'SQL'
create role tickerline_service login password :'password';
SQL
