-- Schema version 2, as in SQLite: how much a key may be used, and how much it was.

alter table keys add column limits text;

create table key_uses (
  name text not null,
  span text not null,
  began text not null,
  requests bigint not null,
  tokens bigint not null,
  microdollars bigint not null,
  primary key (name, span)
);

-- Calls are opened by their id alone, and listed newest first.
create index sent_id on sent (id);
create index sent_started on sent (started_at, id);
