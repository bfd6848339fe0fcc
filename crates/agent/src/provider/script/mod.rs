//! Scripts: what an offline provider answers, attempt by attempt, and what it expects to be asked.
//!
//! ```yaml
//! - reply: "Which date?"
//! - calls: [{name: weather, arguments: {city: Paris}}]
//! - error: {kind: rate_limit, retry_after: 2}
//! - reply: "I was about to say"
//!   fail_after: 12
//! - expect: {contains: ["Which date?"], roles: [system, user, assistant, user]}
//!   reply: "Booked."
//! ```

mod expect;
mod read;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::error::ErrorKind;
use crate::document::{DocumentProblem, TextPosition, code};
pub use expect::Expect;

/// One answer of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedReply {
    /// What the request must look like.
    pub expect: Option<Expect>,
    /// What is answered.
    pub says: Says,
    /// Tokens to report; counted if none: input and output.
    pub usage: Option<(u64, u64)>,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq)]
pub enum Says {
    /// A reply, with calls or without.
    Reply {
        /// Its text.
        text: Option<String>,
        /// Its calls.
        calls: Vec<ScriptedCall>,
        /// After how many characters of the text it breaks off.
        fail_after: Option<usize>,
    },
    /// An error.
    Error {
        /// Of which kind.
        kind: ErrorKind,
        /// In which words.
        message: String,
        /// How long to be left alone.
        retry_after: Option<Duration>,
    },
}

/// A call in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedCall {
    /// Its id; counted if none.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// What it is called with, as text.
    pub arguments: String,
}

/// A script, and how far it has been read out.
#[derive(Debug)]
pub struct Script {
    answers: Vec<ScriptedReply>,
    repeats: bool,
    place: Mutex<ScriptPosition>,
}

#[derive(Debug, Default)]
struct ScriptPosition {
    next: usize,
    calls: u64,
}

impl Script {
    /// Reads a script from the text of its file; every mistake in it otherwise.
    pub fn parse(text: &str) -> Result<Self, Vec<DocumentProblem>> {
        let (answers, repeats) = read::script(text)?;
        Ok(Script { answers, repeats, place: Mutex::default() })
    }

    /// The script in a file. All users of one file in a process share one place in it.
    pub fn load(file: &Path) -> Result<Arc<Self>, Vec<DocumentProblem>> {
        static LOADED: OnceLock<Mutex<HashMap<PathBuf, Arc<Script>>>> = OnceLock::new();
        let unreadable = |error: std::io::Error| {
            let message = format!("{} cannot be read: {error}", file.display());
            vec![DocumentProblem::new(code::UNKNOWN_VALUE, "", TextPosition::default(), message)]
        };
        let path = file.canonicalize().map_err(unreadable)?;
        let mut loaded = LOADED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(script) = loaded.get(&path) {
            return Ok(Arc::clone(script));
        }
        let script = Arc::new(Script::parse(&std::fs::read_to_string(&path).map_err(unreadable)?)?);
        loaded.insert(path, Arc::clone(&script));
        Ok(script)
    }

    /// The next answer, its number from 1, and ids for its calls; none past the end.
    pub(super) fn next(&self) -> Option<(usize, ScriptedReply)> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.next >= self.answers.len() && self.repeats {
            place.next = 0;
        }
        let mut answer = self.answers.get(place.next)?.clone();
        place.next += 1;
        if let Says::Reply { calls, .. } = &mut answer.says {
            for call in calls {
                place.calls += 1;
                call.id.get_or_insert_with(|| format!("call_{}", place.calls));
            }
        }
        Some((place.next, answer))
    }
}
