-- Schema 5: requests are kept as what they share with the record, and calls know who made them.

-- Whose conversation the call is in, so that the newest calls of a tenant can be found.
alter table sent add column tenant text not null default '';
update sent set tenant = coalesce((select c.tenant from conversations c where c.id = sent.conversation_id), '');
-- What the request is made of, as in request.rs; null where `request` names a blob that holds all of it.
alter table sent add column template text;
-- BLAKE3 of the whole request that the template makes up.
alter table sent add column request_hash blob;
-- Tokens counted in the request, as JSON.
alter table sent add column tokens text;
-- What that count was multiplied by; text, because it must read back as the same number.
alter table sent add column factor text;
-- Which process asked.
alter table sent add column holder text;

-- Stretches of templates that calls of one conversation have in common, each once.
create table sent_parts (
  conversation_id text not null,
  hash blob not null,                -- BLAKE3 of items
  items text not null,
  refs integer not null,             -- how many calls and other parts name it
  primary key (conversation_id, hash)
);

create index sent_model on sent (tenant, model, started_at, id);
-- Calls that have not ended; there are few.
create index sent_open on sent (started_at) where status = 'sent';
