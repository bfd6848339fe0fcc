-- Schema version 4, as version 6 in SQLite: conversations belong to sessions.

-- Row-level security holds for migrations too: this one is the operator's.
select set_config('scrollback.tenant', '*', true);

alter table conversations add column session_id text not null default '';
alter table conversations add column kind text not null default 'main';
alter table conversations add column scope text;
with recursive family (id, root) as (
  select id, id from conversations where parent_id is null
  union all
  select c.id, f.root from conversations c join family f on c.parent_id = f.id
)
update conversations set session_id = family.root from family where family.id = conversations.id;
update conversations set kind = 'branch' where parent_id is not null;
create index conversations_session on conversations (session_id, updated_at, id);
create index conversations_scope on conversations (scope, head_prefix, updated_at, id) where scope is not null;

create table sessions (
  id text primary key,
  tenant text not null,
  caller text not null,
  client text not null,
  client_id text not null,
  main_id text,
  title text,
  created_at text not null
);
create unique index sessions_client on sessions (tenant, caller, client, client_id);
create policy tenant on sessions
  using (current_setting('scrollback.tenant', true) in (tenant, '*'))
  with check (current_setting('scrollback.tenant', true) in (tenant, '*'));
alter table sessions enable row level security;
alter table sessions force row level security;

-- The newest of several equal lists are looked at first.
drop index entries_prefix;
create index entries_prefix on entries (prefix_hash, conversation_id, position) where prefix_hash is not null;
