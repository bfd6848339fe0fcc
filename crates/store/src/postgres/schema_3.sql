-- Schema version 3, as version 5 in SQLite: requests are kept as what they share with the record, and calls know who made
-- them.

-- Row-level security holds for migrations too: this one is the operator's.
select set_config('scrollback.tenant', '*', true);

alter table sent add column tenant text not null default '';
update sent set tenant = c.tenant from conversations c where c.id = sent.conversation_id;
alter table sent add column template text;
alter table sent add column request_hash bytea;
alter table sent add column tokens text;
alter table sent add column factor text;
alter table sent add column holder text;

create table sent_parts (
  conversation_id text not null,
  hash bytea not null,
  items text not null,
  refs bigint not null,
  primary key (conversation_id, hash)
);
create policy tenant on sent_parts
  using (current_setting('scrollback.tenant', true) = '*' or exists
    (select 1 from conversations c where c.id = conversation_id))
  with check (current_setting('scrollback.tenant', true) = '*' or exists
    (select 1 from conversations c where c.id = conversation_id));
alter table sent_parts enable row level security;
alter table sent_parts force row level security;

create index sent_model on sent (tenant, model, started_at, id);
create index sent_open on sent (started_at) where status = 'sent';
