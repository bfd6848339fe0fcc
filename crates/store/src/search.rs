//! Search: what may be asked, and what is found.

use std::borrow::Cow;
use std::sync::Arc;

use scrollback_core::redact::Redactor;
use scrollback_core::{Role, Time};
use uuid::Uuid;

use crate::conversation::Status;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::session::{ConversationKind, SessionId};
use crate::words::{spelled, words};

/// Words to look for. Any text is a query: words that all must be there, `"phrases"`, `prefix*`, `-without`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub(crate) all: Vec<Term>,
    pub(crate) none: Vec<Term>,
}

/// Words in a row; the last one may be the beginning of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) words: Vec<String>,
    pub(crate) prefix: bool,
}

impl Query {
    /// Reads a query. Nothing in it is an error: quotes that are not closed are closed, and what is no word is passed over.
    ///
    /// ```
    /// use scrollback_store::Query;
    /// assert_eq!(Query::parse("Café \"at noon"), Query::parse("cafe \"AT NOON\""));
    /// assert!(Query::parse("-- \"\" *").is_empty());
    /// ```
    pub fn parse(text: &str) -> Self {
        let mut query = Query::default();
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else { return query };
            let without = first == '-';
            if without {
                rest = rest.get(1..).unwrap_or_default();
            }
            let phrase = rest.strip_prefix('"').map(|inner| inner.split_once('"').unwrap_or((inner, "")));
            let quoted = phrase.is_some();
            let (piece, after) = phrase.unwrap_or_else(|| {
                rest.split_at(rest.find([' ', '\t', '\n', '\r', '"']).unwrap_or(rest.len()))
            });
            rest = after;
            // A star at the end of a word or phrase, or right after its quotes, makes its last word a beginning.
            let after_quotes = rest.strip_prefix('*').filter(|_| quoted);
            rest = after_quotes.unwrap_or(rest);
            let starred = piece.ends_with('*') || after_quotes.is_some();
            let found: Vec<String> = words(piece).into_iter().map(|word| word.text).collect();
            if !found.is_empty() {
                let term = Term { words: found, prefix: starred };
                let terms = if without { &mut query.none } else { &mut query.all };
                // Said twice it asks for nothing more, and ranking takes time for every term.
                if !terms.contains(&term) {
                    terms.push(term);
                }
            }
        }
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only what was said with this recipient.
    pub recipient: Option<Recipient>,
    /// Only what this role said; summaries count as the system's.
    pub role: Option<Role>,
    /// Only results and calls of this tool.
    pub tool: Option<String>,
    /// Only conversations that stand so.
    pub status: Option<Status>,
    /// Only from this time on.
    pub since: Option<Time>,
    /// Only before this time.
    pub until: Option<Time>,
    /// Only this evaluation.
    pub evaluation: Option<Uuid>,
    /// Only this run.
    pub run: Option<String>,
    /// Only this conversation.
    pub conversation: Option<ConversationId>,
    /// What takes secrets out of texts before they are looked at, for callers who may not see them: such a text is found,
    /// ranked, cut and marked as they would see it, so that no search tells whether a secret begins in some way.
    pub redactor: Option<Arc<Redactor>>,
}

impl Filter {
    /// A text as the caller may see it.
    pub(crate) fn seen(&self, text: String) -> String {
        match &self.redactor {
            Some(redactor) => match redactor.text(&text).text {
                Cow::Borrowed(_) => text,
                Cow::Owned(redacted) => redacted,
            },
            None => text,
        }
    }
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The conversation.
    pub conversation: ConversationId,
    /// The session it belongs to.
    pub session: SessionId,
    /// What it is in its session.
    pub kind: ConversationKind,
    /// What people call it.
    pub title: Option<String>,
    /// Whom it is with.
    pub recipient: Option<Recipient>,
    /// The entry.
    pub position: u64,
    /// Who said it; a summary is the system's.
    pub role: Role,
    /// When.
    pub created_at: Time,
    /// The words around the first match, matches between `«` and `»`.
    pub snippet: String,
    /// The turn it is in, from 1; 0 before the first user entry.
    pub turn: u64,
}

/// One page of hits.
#[derive(Clone, Debug, PartialEq)]
pub struct Hits {
    /// Best first, then newest.
    pub hits: Vec<Hit>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// Where a page ends. Text for others to hold and give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub(crate) String);

impl Cursor {
    /// Reads a cursor that was given out. A cursor of another list is found out when it is used.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let fits = !text.is_empty()
            && text.len() <= 1_200
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-+".contains(&byte));
        fits.then(|| Cursor(text.into())).ok_or_else(Cursor::bad)
    }

    pub(crate) fn bad() -> StoreError {
        StoreError::new(ErrorKind::BadArgument, "this is not a cursor of this list")
    }

    /// The text to give back.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A word as databases see it, and whether a beginning is enough.
pub(crate) type Demanded = (String, bool);

/// How a database is asked: entries of one tenant that have all these words and none of those.
#[derive(Clone, Debug)]
pub(crate) struct WordQuery {
    pub(crate) tenant: Tenant,
    pub(crate) all: Vec<Demanded>,
    pub(crate) none: Vec<Demanded>,
    pub(crate) recipient: Option<String>,
    /// Only in these conversations.
    pub(crate) conversations: Option<Vec<String>>,
    /// Only in conversations of this project.
    pub(crate) project: Option<String>,
    pub(crate) status: Option<Status>,
    /// Whether all words must be there, or any of them.
    pub(crate) words: WordDemand,
    pub(crate) limit: usize,
}

/// How many of the words an entry must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WordDemand {
    #[default]
    All,
    Any,
}

impl WordQuery {
    /// Whether the words of an entry, with a space between them, are all that is wanted and nothing that is not.
    pub(crate) fn is_in(&self, words: &str) -> bool {
        let has = |(word, prefix): &Demanded| {
            words.split(' ').any(|own| own == word || *prefix && own.starts_with(word.as_str()))
        };
        let wanted = match self.words {
            WordDemand::All => self.all.iter().all(has),
            WordDemand::Any => self.all.iter().any(has),
        };
        wanted && !self.none.iter().any(has)
    }
}

/// An entry that has the words, or may have them because it waits for the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SearchCandidate {
    pub(crate) conversation: ConversationId,
    pub(crate) position: u64,
    /// Whether an index says so.
    pub(crate) indexed: bool,
}

impl Query {
    /// The words every hit must have, and those no hit has, as databases see them.
    pub(crate) fn demands(&self) -> (Vec<Demanded>, Vec<Demanded>) {
        let mut all = Vec::new();
        for term in &self.all {
            let last = term.words.len() - 1;
            for (place, word) in term.words.iter().enumerate() {
                all.push((spelled(word), term.prefix && place == last));
            }
        }
        // Of a phrase that must not be there, each word alone may.
        let alone = self.none.iter().filter(|term| term.words.len() == 1);
        let none =
            alone.flat_map(|term| term.words.iter().map(|word| (spelled(word), term.prefix))).collect();
        all.sort();
        all.dedup();
        (all, none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(words: &[&str], prefix: bool) -> Term {
        Term { words: words.iter().map(|word| (*word).into()).collect(), prefix }
    }

    #[test]
    fn every_text_is_a_query() {
        let query = Query::parse("Hello wor* \"at  NOON\" -never -\"not this\" x-y");
        assert_eq!(
            query.all,
            [
                term(&["hello"], false),
                term(&["wor"], true),
                term(&["at", "noon"], false),
                term(&["x", "y"], false)
            ]
        );
        assert_eq!(query.none, [term(&["never"], false), term(&["not", "this"], false)]);
        assert_eq!(Query::parse("\"open phrase").all, [term(&["open", "phrase"], false)]);
        assert_eq!(Query::parse("a\"b c\"d").all.len(), 3);
        for silent in ["", " ", "*", "-", "\"", "\"\"", "- - -", "()&|!:", "--"] {
            assert!(Query::parse(silent).is_empty(), "{silent}");
        }
    }

    #[test]
    fn operators_of_databases_are_words() {
        let query = Query::parse("a OR b AND NOT NEAR(c, 2) col:d ^e");
        let (all, none) = query.demands();
        let words: Vec<&str> = all.iter().map(|(word, _)| word.as_str()).collect();
        assert_eq!(words, ["2", "a", "and", "b", "c", "col", "d", "e", "near", "not", "or"]);
        assert!(none.is_empty());
    }
}
