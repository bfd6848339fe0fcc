-- Schema version 2: how much a key may be used, and how much it was.

-- What a key may be used for, as JSON; null where nothing is said.
alter table keys add column limits text;

-- One row for each key and span: the minute or the day it is in. A later one takes its place.
create table key_uses (
  name text not null,
  span text not null,
  began text not null,
  requests integer not null,
  tokens integer not null,
  microdollars integer not null,
  primary key (name, span)
) without rowid;

-- Calls are opened by their id alone, and listed newest first.
create index sent_id on sent (id);
create index sent_started on sent (started_at, id);
