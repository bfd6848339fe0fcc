-- Schema version 8: a digest of every row that has no hash of its own, so that `verify` notices what a disk changed. Rows from
-- before have none until they are written again.

alter table conversations add column digest blob;
alter table sessions add column digest blob;
alter table evaluations add column digest blob;
alter table runs add column digest blob;
alter table steps add column digest blob;
alter table spans add column digest blob;
alter table events add column digest blob;
alter table sent add column digest blob;
alter table sent_parts add column digest blob;
alter table aliases add column digest blob;
alter table keys add column digest blob;
alter table key_uses add column digest blob;
