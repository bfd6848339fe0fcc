-- Schema version 1. Times are text as in RFC 3339, except in the largest table; hashes and UUIDs are blobs, JSON is text in its own spelling.

-- What is known about the file itself: schema version, when it was made, its id.
create table meta (key text primary key, value text not null) without rowid;

-- One row per record. `key` is conversation:{recipient} for the current conversation of a recipient.
create table conversations (
  number integer primary key,        -- stands for the id where it would be repeated often
  id text not null unique,           -- ULID
  tenant text not null,
  key text,
  recipient text,
  parent_id text references conversations (id),
  fork_position integer,             -- own entries begin here, what lies below is the parent's
  title text,
  status text,                       -- unset reads idle
  status_at text,
  created_at text not null,
  updated_at text not null,
  head integer not null,             -- the next position
  head_link blob not null,           -- the chain's value at the last entry
  head_prefix blob not null,         -- the same of the chain over what was said
  last_role text,                    -- who spoke last, user or assistant
  last_said_at text,
  turns integer not null,
  uncovered_turns integer not null,  -- turns that no summary stands for
  settings text
);
create unique index conversations_key on conversations (tenant, key) where key is not null;
create index conversations_newest on conversations (tenant, updated_at, id);
create index conversations_recipient on conversations (tenant, recipient) where recipient is not null;
create index conversations_parent on conversations (parent_id) where parent_id is not null;

-- Everything that was said and decided, in the order of the record. A place is the number of the conversation times 2^32
-- plus the position, so that a record lies together and its key is short. What is generated takes no room.
create table entries (
  place integer primary key,
  kind integer not null,             -- 0 message, 1 decision, 2 tombstone
  role integer,                      -- 0 system, 1 user, 2 assistant, 3 tool; none for decisions
  evaluation_id blob,
  sequence integer,
  created_at integer not null,       -- milliseconds since 1970
  body text not null,                -- see body.rs
  body_hash blob not null,
  link blob not null,
  prefix_hash blob,                  -- none for decisions and the lead
  conversation integer as (place >> 32) virtual,
  position integer as (place & 4294967295) virtual,
  prefix_start blob as (substr(prefix_hash, 1, 5)) virtual
);
-- Evaluations first: their ids begin with the time, so that entries of many conversations meet at the end of the index.
create unique index entries_evaluation on entries (evaluation_id, sequence, conversation) where evaluation_id is not null;
-- The role is in the key although all rows have the same: only so is the index preferred to the primary key.
create index entries_user on entries (conversation, role) where role = 1;
create index entries_decision on entries (conversation, role) where role is null;
-- The first bytes of a hash find it as well as all of them.
create index entries_prefix on entries (prefix_start) where prefix_hash is not null;

-- Large texts and files, compressed, once in each tenant.
create table blobs (
  tenant text not null,
  hash blob not null,
  size integer not null,
  bytes blob not null,
  refs integer not null,
  primary key (tenant, hash)
);

-- Which tool calls were made, and which entry answered.
create table calls (
  conversation_id text not null,
  call_id text not null,
  position integer not null,
  result_position integer,
  primary key (conversation_id, call_id, position)
) without rowid;
create index calls_pending on calls (conversation_id, result_position, position) where result_position is null;

-- Copies of the summary decisions, for quick reading.
create table summaries (
  conversation_id text not null,
  position integer not null,
  covers_from integer not null,
  covers_to integer not null,
  text text not null,
  "by" text not null,
  created_at text not null,
  primary key (conversation_id, position)
) without rowid;

create table evaluations (
  id blob primary key,
  conversation_id text not null,
  first_position integer,
  last_position integer,
  count integer not null,
  status text not null,              -- running, paused, done, failed
  prompt_identity text,
  lease_holder text,
  lease_until text,
  started_at text not null,
  ended_at text
) without rowid;
create index evaluations_conversation on evaluations (conversation_id, started_at);

create table runs (
  id text primary key,
  tenant text not null,
  kind text not null,                -- flow, subagent
  name text not null,
  hash text not null,
  text text not null,                -- the whole file, so that resuming needs none
  settings text,
  status text not null,              -- running, paused, interrupted, done, failed
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
  status text not null,              -- running, paused, skipped, done, failed
  attempt integer not null,
  input text,
  output text,
  evaluation_id blob,
  usage text,
  started_at text,
  ended_at text,
  error text,
  primary key (run_id, key)
) without rowid;

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
) without rowid;

create table events (
  run_id text not null,
  sequence integer not null,
  at text not null,
  key text,
  kind text not null,
  data text,
  primary key (run_id, sequence)
) without rowid;

-- What every model call really saw, and what came back; both as names of blobs.
create table sent (
  conversation_id text not null,
  id text not null,
  run_id text,
  step text,
  evaluation_id blob,
  upto integer not null,
  managers text not null,
  wire text not null,
  model text not null,
  epoch integer,
  prefix_hash blob,
  request blob,
  response blob,
  status text not null,
  attempt integer not null,
  usage text,
  started_at text not null,
  ended_at text,
  primary key (conversation_id, id)
);
create index sent_run on sent (run_id, started_at) where run_id is not null;

-- Foreign ids: import identity, response ids, what clients of the proxy call a conversation.
create table aliases (
  tenant text not null,
  source text not null,
  source_id text not null,
  conversation_id text not null,
  position integer,
  primary key (tenant, source, source_id)
) without rowid;

-- API keys of the server; the keys themselves are not kept.
create table keys (
  name text primary key,
  tenant text not null,
  scope text not null,
  key_hash blob not null,
  created_at text not null,
  revoked_at text
) without rowid;

-- Words of entries, spelled by words.rs. A row's number is the place of the entry.
create virtual table entries_fts using fts5 (
  words, content = '', contentless_delete = 1, detail = none, tokenize = "ascii tokenchars '_'"
);

-- What the planner should expect, so that it prefers an index to reading a whole conversation before there is anything to
-- analyse: a million entries in a thousand conversations, a third of them a user's, one in a hundred a decision.
analyze sqlite_schema;
insert into sqlite_stat1 (tbl, idx, stat) values
  ('entries', 'entries_evaluation', '1000000 5 1 1'),
  ('entries', 'entries_user', '300000 300 300'),
  ('entries', 'entries_decision', '10000 10 10'),
  ('entries', 'entries_prefix', '1000000 2'),
  ('calls', 'calls', '300000 300 1 1'),
  ('calls', 'calls_pending', '1000 1 1 1');
analyze sqlite_schema;
