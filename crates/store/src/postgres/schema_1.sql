-- Schema version 1, as in SQLite. Partitions spread the big tables by conversation; row-level security keeps a query that
-- forgot its tenant from seeing anybody else's rows.

create table meta (key text primary key, value text not null);

create table conversations (
  id text primary key,
  tenant text not null,
  key text,
  recipient text,
  parent_id text references conversations (id),
  fork_position bigint,
  title text,
  status text,
  status_at text,
  created_at text not null,
  updated_at text not null,
  head bigint not null,
  head_link bytea not null,
  head_prefix bytea not null,
  last_role text,
  last_said_at text,
  turns bigint not null,
  uncovered_turns bigint not null,
  settings text
);
create unique index conversations_key on conversations (tenant, key) where key is not null;
create index conversations_newest on conversations (tenant, updated_at, id);
create index conversations_recipient on conversations (tenant, recipient, updated_at, id) where recipient is not null;
create index conversations_parent on conversations (parent_id) where parent_id is not null;

create table entries (
  conversation_id text not null,
  position bigint not null,
  kind text not null,
  role text,
  evaluation_id bytea,
  sequence bigint,
  created_at text not null,
  body text not null,
  body_hash bytea not null,
  link bytea not null,
  prefix_hash bytea,
  words tsvector,
  primary key (conversation_id, position)
) partition by hash (conversation_id);
create unique index entries_evaluation on entries (conversation_id, evaluation_id, sequence);
create index entries_user on entries (conversation_id, role, position) where role = 'user';
create index entries_decision on entries (conversation_id, role, position) where role is null;
create index entries_prefix on entries (prefix_hash) where prefix_hash is not null;
create index entries_words on entries using gin (words);

create table blobs (
  tenant text not null,
  hash bytea not null,
  size bigint not null,
  bytes bytea not null,
  refs bigint not null,
  primary key (tenant, hash)
);

create table calls (
  conversation_id text not null,
  call_id text not null,
  position bigint not null,
  result_position bigint,
  primary key (conversation_id, call_id, position)
) partition by hash (conversation_id);
create index calls_pending on calls (conversation_id, result_position, position) where result_position is null;

create table summaries (
  conversation_id text not null,
  position bigint not null,
  covers_from bigint not null,
  covers_to bigint not null,
  text text not null,
  "by" text not null,
  created_at text not null,
  primary key (conversation_id, position)
);

create table evaluations (
  id bytea primary key,
  conversation_id text not null,
  first_position bigint,
  last_position bigint,
  count bigint not null,
  status text not null,
  prompt_identity text,
  lease_holder text,
  lease_until text,
  started_at text not null,
  ended_at text
);
create index evaluations_conversation on evaluations (conversation_id, started_at);

create table runs (
  id text primary key,
  tenant text not null,
  kind text not null,
  name text not null,
  hash text not null,
  text text not null,
  settings text,
  status text not null,
  conversation_id text,
  input text,
  output text,
  error text,
  usage text,
  lease_holder text,
  lease_until text,
  started_at text not null,
  ended_at text
);
create index runs_newest on runs (tenant, started_at, id);

create table steps (
  run_id text not null,
  key text not null,
  kind text not null,
  status text not null,
  attempt bigint not null,
  input text,
  output text,
  evaluation_id bytea,
  usage text,
  started_at text,
  ended_at text,
  error text,
  primary key (run_id, key)
);

create table spans (
  run_id text not null,
  id text not null,
  parent_id text,
  name text not null,
  key text,
  status text,
  started_at text not null,
  ended_at text,
  attributes text,
  primary key (run_id, id)
);

create table events (
  run_id text not null,
  sequence bigint not null,
  at text not null,
  key text,
  kind text not null,
  data text,
  primary key (run_id, sequence)
);

create table sent (
  conversation_id text not null,
  id text not null,
  run_id text,
  step text,
  evaluation_id bytea,
  upto bigint not null,
  managers text not null,
  wire text not null,
  model text not null,
  epoch bigint,
  prefix_hash bytea,
  request bytea,
  response bytea,
  status text not null,
  attempt bigint not null,
  usage text,
  started_at text not null,
  ended_at text,
  primary key (conversation_id, id)
) partition by hash (conversation_id);
create index sent_run on sent (run_id, started_at) where run_id is not null;

create table aliases (
  tenant text not null,
  source text not null,
  source_id text not null,
  conversation_id text not null,
  position bigint,
  primary key (tenant, source, source_id)
);

create table keys (
  name text primary key,
  tenant text not null,
  scope text not null,
  key_hash bytea not null,
  created_at text not null,
  revoked_at text
);

-- Sixteen parts each: enough to spread vacuums and locks, few enough to plan over.
do $$
begin
  for part in 0..15 loop
    execute format('create table entries_%s partition of entries for values with (modulus 16, remainder %s)', part, part);
    execute format('create table calls_%s partition of calls for values with (modulus 16, remainder %s)', part, part);
    execute format('create table sent_%s partition of sent for values with (modulus 16, remainder %s)', part, part);
  end loop;
end $$;

-- Whose rows a transaction may touch is said once, at its beginning; `*` is the operator.
do $$
declare
  own text := $q$current_setting('scrollback.tenant', true) in (tenant, '*')$q$;
  of_conversation text := $q$current_setting('scrollback.tenant', true) = '*' or exists
    (select 1 from conversations c where c.id = conversation_id)$q$;
  of_run text := $q$current_setting('scrollback.tenant', true) = '*' or exists
    (select 1 from runs r where r.id = run_id)$q$;
  name text;
begin
  foreach name in array array['conversations', 'blobs', 'runs', 'aliases', 'keys'] loop
    execute format('create policy tenant on %I using (%s) with check (%s)', name, own, own);
  end loop;
  foreach name in array array['entries', 'calls', 'summaries', 'evaluations', 'sent'] loop
    execute format('create policy tenant on %I using (%s) with check (%s)', name, of_conversation, of_conversation);
  end loop;
  foreach name in array array['steps', 'spans', 'events'] loop
    execute format('create policy tenant on %I using (%s) with check (%s)', name, of_run, of_run);
  end loop;
  foreach name in array array['conversations', 'blobs', 'runs', 'aliases', 'keys', 'entries', 'calls', 'summaries',
                              'evaluations', 'sent', 'steps', 'spans', 'events'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
  end loop;
end $$;
