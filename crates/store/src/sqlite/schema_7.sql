-- Schema 7: handles and recall.

-- The last ten characters of the id in lower case, by which handles name a conversation.
alter table conversations add column tail text not null default '';
update conversations set tail = lower(substr(id, 17));
create index conversations_tail on conversations (tenant, tail);
-- The working directory or repository its client reported.
alter table conversations add column project text;
create index conversations_project on conversations (tenant, project, updated_at, id) where project is not null;
-- A client's own id alone, as a tool of that client knows it.
create index sessions_named on sessions (tenant, client_id, created_at);
