//! Regular expressions whose time is linear in the text, and whose cost is known before it is spent.
//!
//! A search runs on a lazily built automaton. A pattern that would need too many states makes that engine give up; a
//! slower one then takes over, and its cost, states times text, is asked for first.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use regex_automata::hybrid::{self, regex::Regex};
use regex_automata::nfa::thompson::{self, pikevm::PikeVM};
use regex_automata::util::{captures::Captures, syntax};
use regex_automata::{Anchored, Input};

/// Bytes of a pattern's source.
const MAX_SOURCE: usize = 1024;
/// Bytes of a compiled pattern.
const MAX_COMPILED: usize = 1 << 20;

/// A compiled regular expression, cheap to copy.
#[derive(Clone)]
pub struct Pattern(Arc<Compiled>);

struct Compiled {
    source: Box<str>,
    fast: Regex,
    slow: PikeVM,
    /// The same pattern made to match a whole text, compiled when it is first needed.
    whole: OnceLock<Option<Pattern>>,
    /// The scratch memory of both engines, lent to one search at a time.
    scratch: Mutex<Option<Scratch>>,
}

struct Scratch {
    fast: hybrid::regex::Cache,
    slow: thompson::pikevm::Cache,
}

/// Where a match and its groups are, in bytes. The first is the whole match.
pub(crate) type Groups = Vec<Option<(usize, usize)>>;

/// Why a pattern was not compiled.
#[derive(Debug)]
pub(crate) struct BadPattern {
    pub(crate) message: String,
    pub(crate) hint: Option<&'static str>,
}

impl Pattern {
    pub(crate) fn compile(source: &str) -> Result<Pattern, BadPattern> {
        let bad = |message: String, hint| BadPattern { message, hint };
        if source.len() > MAX_SOURCE {
            return Err(bad(format!("the pattern is longer than {MAX_SOURCE} bytes"), None));
        }
        let explain = |error: &dyn fmt::Display| {
            let text = error.to_string();
            let reason = text.lines().rev().find_map(|line| line.trim().strip_prefix("error: "));
            let hint = ["look-around", "backreferences"]
                .iter()
                .any(|word| text.contains(word))
                .then_some("patterns run in linear time: no look-around, no backreferences; capture groups and a second test do the same");
            bad(
                format!("the pattern does not compile: {}", reason.unwrap_or("it is too large or malformed")),
                hint,
            )
        };
        // Parsing first gives the better message.
        if let Err(error) = syntax::parse(source) {
            return Err(explain(&error));
        }
        Pattern::build(source, MAX_COMPILED)
            .ok_or_else(|| bad("the pattern compiles to more than 1 MiB".into(), None))
    }

    fn build(source: &str, limit: usize) -> Option<Pattern> {
        let limits = thompson::Config::new().nfa_size_limit(Some(limit));
        let lazy = hybrid::dfa::Config::new()
            .unicode_word_boundary(true)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(3))
            .minimum_bytes_per_state(Some(10));
        Some(Pattern(Arc::new(Compiled {
            source: source.into(),
            fast: Regex::builder().thompson(limits.clone()).dfa(lazy).build(source).ok()?,
            slow: PikeVM::builder().thompson(limits).build(source).ok()?,
            whole: OnceLock::new(),
            scratch: Mutex::new(None),
        })))
    }

    /// The text between the quotes of its literal.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Whether the pattern has groups besides the whole match.
    pub(crate) fn has_groups(&self) -> bool {
        self.group_count() > 1
    }

    fn group_count(&self) -> usize {
        self.0.slow.get_nfa().group_info().group_len(regex_automata::PatternID::ZERO)
    }

    /// Approximate bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.slow.get_nfa().memory_usage() * 3
    }

    /// The leftmost match at or after byte `from`, with its groups. `spend` is asked for the cost before the work.
    pub(crate) fn find<E>(
        &self,
        text: &str,
        from: usize,
        spend: &mut impl FnMut(u64) -> Result<(), E>,
    ) -> Result<Option<Groups>, E> {
        let states = self.0.slow.get_nfa().states().len() as u64;
        // Searching stops at the match, which is usually near; what lies beyond costs little with this engine.
        spend((text.len().saturating_sub(from) / 16) as u64 + 1)?;
        let mut scratch = self.scratch();
        let span =
            if let Ok(found) = self.0.fast.try_search(&mut scratch.fast, &Input::new(text).range(from..)) {
                found.map(|found| (found.start(), found.end()))
            } else {
                spend((text.len().saturating_sub(from) as u64).saturating_mul(states / 8 + 1))?;
                let found = self.0.slow.find(&mut scratch.slow, Input::new(text).range(from..));
                found.map(|found| (found.start(), found.end()))
            };
        let groups = match span {
            Some((start, end)) if self.has_groups() => {
                spend(((end - start) as u64 + 1).saturating_mul(states / 32 + 1))?;
                let mut captures = Captures::all(self.0.slow.get_nfa().group_info().clone());
                // The whole text is given, so that look-behind assertions like \b see what stands before the match.
                let input = Input::new(text).range(start..).anchored(Anchored::Yes);
                self.0.slow.captures(&mut scratch.slow, input, &mut captures);
                let groups = captures.iter().map(|group| group.map(|span| (span.start, span.end))).collect();
                Some(groups)
            }
            Some(span) => Some(vec![Some(span)]),
            None => None,
        };
        self.give_back(scratch);
        Ok(groups)
    }

    /// The match of the whole text, if it matches as a whole.
    pub(crate) fn matches<E>(
        &self,
        text: &str,
        spend: &mut impl FnMut(u64) -> Result<(), E>,
    ) -> Result<Option<Groups>, E> {
        // Alternatives are tried in order, so a shorter one could hide the whole; the wrapped pattern cannot.
        let whole = self.0.whole.get_or_init(|| {
            // In free-spacing mode a comment could swallow the bracket.
            let end = if self.source().contains("(?x") { "\n" } else { "" };
            Pattern::build(&format!("\\A(?:{}{end})\\z", self.source()), 2 * MAX_COMPILED)
        });
        whole.as_ref().map_or(Ok(None), |whole| whole.find(text, 0, spend))
    }

    fn scratch(&self) -> Scratch {
        let kept = self.0.scratch.try_lock().ok().and_then(|mut slot| slot.take());
        kept.unwrap_or_else(|| Scratch { fast: self.0.fast.create_cache(), slow: self.0.slow.create_cache() })
    }

    fn give_back(&self, scratch: Scratch) {
        if let Ok(mut slot) = self.0.scratch.try_lock() {
            *slot = Some(scratch);
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#\"{}\"", self.source())
    }
}
