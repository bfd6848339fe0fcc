-- Schema 4: what waits for the index.

-- Entries whose words are not in entries_fts yet. The words follow from the entry, so they are not written twice.
create table waiting (
  place integer primary key          -- of the entry
);
insert into waiting (place) select place from waiting_words;
drop table waiting_words;
