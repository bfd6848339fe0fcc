-- Schema version 5, as version 7 in SQLite: handles and recall.

-- Row-level security holds for migrations too: this one is the operator's.
select set_config('scrollback.tenant', '*', true);

alter table conversations add column tail text not null default '';
update conversations set tail = lower(substr(id, 17));
create index conversations_tail on conversations (tenant, tail);
alter table conversations add column project text;
create index conversations_project on conversations (tenant, project, updated_at, id) where project is not null;
create index sessions_named on sessions (tenant, client_id, created_at);
