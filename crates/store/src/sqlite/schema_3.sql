-- Schema version 3: words are put into the index many entries at a time, which costs a fifth of one at a time.

-- Words that are not in `entries_fts` yet, as they will be there. Whoever searches looks here too.
create table waiting_words (
  place integer primary key,         -- of the entry
  words text not null
);
