#!/bin/sh
# Run once by the image of PostgreSQL, when its database is made: a role for Scrollback that is no superuser. Row-level
# security does not hold a superuser to the rows of one tenant, so `scrollback serve` refuses to run as one.
set -e
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  --set password="${SCROLLBACK_PASSWORD:?}" <<'SQL'
create role scrollback login nosuperuser nobypassrls nocreatedb nocreaterole password :'password';
create database scrollback owner scrollback;
SQL
