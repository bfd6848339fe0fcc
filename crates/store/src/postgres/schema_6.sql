-- Schema version 6: a digest of every row that has no hash of its own, so that `verify` notices what a disk changed. Rows from
-- before have none until they are written again.

alter table conversations add column digest bytea;
alter table sessions add column digest bytea;
alter table evaluations add column digest bytea;
alter table runs add column digest bytea;
alter table steps add column digest bytea;
alter table spans add column digest bytea;
alter table events add column digest bytea;
alter table sent add column digest bytea;
alter table sent_parts add column digest bytea;
alter table aliases add column digest bytea;
alter table keys add column digest bytea;
alter table key_uses add column digest bytea;
