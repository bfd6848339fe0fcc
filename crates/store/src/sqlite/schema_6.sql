-- Schema 6: conversations belong to sessions.

-- The session of a conversation. One whose client named no session is a session of its own, together with its forks.
alter table conversations add column session_id text not null default '';
-- main, sub-agent, side or branch.
alter table conversations add column kind text not null default 'main';
-- Whose lists of messages may continue it: a session's or a caller's. None where a record is only written by its id.
alter table conversations add column scope text;
-- A fork of a fork belongs to the session of the first ancestor.
update conversations set session_id = id where parent_id is null;
update conversations set kind = 'branch', session_id = (
  with recursive up (id, parent_id) as (
    select c.id, c.parent_id from conversations c where c.id = conversations.id
    union all
    select p.id, p.parent_id from conversations p join up on p.id = up.parent_id
  )
  select up.id from up where up.parent_id is null
) where parent_id is not null;
create index conversations_session on conversations (session_id, updated_at, id);
create index conversations_scope on conversations (scope, head_prefix, updated_at, id) where scope is not null;

-- Sessions that clients named.
create table sessions (
  id text primary key,               -- ULID
  tenant text not null,
  caller text not null,              -- fingerprint of the caller; two callers never share a session
  client text not null,              -- which client named it
  client_id text not null,           -- the client's own id
  main_id text,                      -- the conversation the person sees
  title text,                        -- the answer of the client's own title call
  created_at text not null
) without rowid;
create unique index sessions_client on sessions (tenant, caller, client, client_id);
