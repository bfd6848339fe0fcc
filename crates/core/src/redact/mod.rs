//! Redaction: secrets in a text become `[redacted:KIND]`.
//!
//! It serves what leaves for people's eyes: traces, previews, logs, error messages. Redact whole texts and
//! cut them afterwards, so that no part of a secret survives a cut. The record, and
//! what a model is sent, are never redacted.
//!
//! One pass over the text finds the keywords of all rules; only where one stands does its rule look closer.
//! Every rule reads a byte a bounded number of times, so time is linear whatever the text.
//!
//! ```
//! use scrollback_core::redact::{Options, Redactor};
//!
//! let redactor = Redactor::new(&Options::default())?;
//! let shown = redactor.text("connect to redis://:s3same@cache:6379");
//! assert_eq!(shown.text, "connect to redis://:[redacted:url_password]@cache:6379");
//! # Ok::<(), scrollback_core::redact::BadPattern>(())
//! ```

mod assignment;
mod entry;
mod header;
mod key_block;
mod kind;
mod label;
mod member;
mod personal;
mod rules;
mod scan;
mod token;
mod url;
mod value;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;

pub use self::kind::SecretKind;
use self::label::Labels;
use self::rules::Rule;

/// What to redact besides the kinds that always are. The default adds nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Redact e-mail addresses.
    pub email: bool,
    /// Redact telephone numbers.
    pub phone: bool,
    /// Redact payment card numbers.
    pub card: bool,
    /// Regular expressions whose matches are redacted as `custom`.
    pub patterns: Vec<String>,
    /// The exact values of known keys; those under four bytes are ignored, they would hide ordinary words.
    pub configured: Vec<String>,
}

impl fmt::Debug for Options {
    /// Says how many keys are known, never which.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { email, phone, card, patterns, configured } = self;
        f.debug_struct("Options")
            .field("email", email)
            .field("phone", phone)
            .field("card", card)
            .field("patterns", patterns)
            .field("configured", &configured.len())
            .finish()
    }
}

/// A shorter configured value would hide ordinary words.
const SHORTEST_CONFIGURED: usize = 4;

/// The compiled rules. Build it once, share it between threads.
pub struct Redactor {
    keywords: AhoCorasick,
    /// For each keyword, its spelling and the place of its rule in `rules`.
    owners: Vec<(&'static str, usize)>,
    rules: Vec<&'static Rule>,
    configured: Option<AhoCorasick>,
    patterns: Vec<Regex>,
}

/// A text without its secrets, and where they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted<'t> {
    /// Borrowed when there was nothing to redact.
    pub text: Cow<'t, str>,
    /// The redacted ranges of the input, in order, none overlapping another.
    pub spans: Vec<RedactedSpan>,
}

/// One redacted range, in bytes of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedactedSpan {
    /// What was there.
    pub kind: SecretKind,
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Redactor {
    /// Compiles the rules; fails only on a pattern that is no regular expression.
    pub fn new(options: &Options) -> Result<Redactor, BadPattern> {
        let rules: Vec<_> = rules::enabled(options).collect();
        let owners: Vec<_> = rules
            .iter()
            .enumerate()
            .flat_map(|(place, rule)| rule.keywords.iter().map(move |keyword| (*keyword, place)))
            .collect();
        let keywords = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(owners.iter().map(|(keyword, _)| keyword))
            .map_err(|error| BadPattern(format!("the redaction rules do not compile: {error}")))?;
        let compile = |(place, pattern): (usize, &String)| {
            Regex::new(pattern).map_err(|error| BadPattern::refused(place + 1, &error))
        };
        let patterns = options.patterns.iter().enumerate().map(compile).collect::<Result<_, _>>()?;
        Ok(Redactor { keywords, owners, rules, configured: compile_values(&options.configured)?, patterns })
    }

    /// The text with every secret replaced by the label of its kind.
    ///
    /// The same text always gives the same result, and a result redacts to itself: labels are left alone, and
    /// nothing that touches a label is taken for a secret. Overlapping hits become one, named by the first
    /// [`SecretKind`] among them.
    pub fn text<'t>(&self, text: &'t str) -> Redacted<'t> {
        let labels = Labels::of(text);
        let mut hits = Vec::new();
        self.find_by_rule(text, &labels, &mut hits);
        self.find_configured(text, &labels, &mut hits);
        self.find_patterns(text, &labels, &mut hits);
        let spans = merge(hits);
        Redacted { text: replace(text, &spans), spans }
    }

    fn find_by_rule(&self, text: &str, labels: &Labels, hits: &mut Vec<RedactedSpan>) {
        // Where each rule may look again: behind its last hit.
        let mut next = Vec::new();
        for keyword in self.keywords.find_overlapping_iter(text) {
            let Some(&(spelling, place)) = self.owners.get(keyword.pattern().as_usize()) else { continue };
            next.resize(self.rules.len(), 0);
            let (Some(rule), Some(next)) = (self.rules.get(place), next.get_mut(place)) else { continue };
            if keyword.start() < *next {
                continue;
            }
            let Some(found) = rule.find.at(text, spelling, keyword.range()) else { continue };
            // A key block is recognised from its first line on: a label inside it changes nothing.
            if rule.kind != SecretKind::PrivateKey && labels.touch(&found.read) {
                continue;
            }
            *next = found.secret.end;
            hits.push(RedactedSpan::new(rule.kind, found.secret));
        }
    }

    fn find_configured(&self, text: &str, labels: &Labels, hits: &mut Vec<RedactedSpan>) {
        let Some(configured) = &self.configured else { return };
        let outside = |range: &Range<usize>| !labels.overlap(range);
        let found = configured.find_overlapping_iter(text).map(|value| value.range()).filter(outside);
        hits.extend(found.map(|range| RedactedSpan::new(SecretKind::Configured, range)));
    }

    fn find_patterns(&self, text: &str, labels: &Labels, hits: &mut Vec<RedactedSpan>) {
        for pattern in &self.patterns {
            for gap in labels.gaps(text.len()) {
                let found = pattern.find_iter(text.get(gap.clone()).unwrap_or_default());
                let found = found.map(|found| gap.start + found.start()..gap.start + found.end());
                let found = found.filter(|range| !range.is_empty() && !labels.touch(range));
                hits.extend(found.map(|range| RedactedSpan::new(SecretKind::Custom, range)));
            }
        }
    }
}

impl fmt::Debug for Redactor {
    /// Says how much there is, never which values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("rules", &self.rules.len())
            .field("patterns", &self.patterns.len())
            .finish_non_exhaustive()
    }
}

impl Redacted<'_> {
    /// How many hits of each kind there were, by name.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for span in &self.spans {
            *counts.entry(span.kind.name()).or_default() += 1;
        }
        counts
    }
}

impl RedactedSpan {
    fn new(kind: SecretKind, range: Range<usize>) -> RedactedSpan {
        RedactedSpan { kind, start: range.start, end: range.end }
    }
}

/// A matcher for the values, as they are and as JSON writes them.
fn compile_values(values: &[String]) -> Result<Option<AhoCorasick>, BadPattern> {
    let known = values.iter().filter(|value| value.len() >= SHORTEST_CONFIGURED);
    let spellings: Vec<String> =
        known.flat_map(|value| [value.clone(), value.replace('\\', r"\\").replace('"', "\\\"")]).collect();
    if spellings.is_empty() {
        return Ok(None);
    }
    let built = AhoCorasick::new(&spellings);
    built.map(Some).map_err(|error| BadPattern(format!("too many configured values to look for: {error}")))
}

/// Joins hits that overlap; the widest extent wins, under the kind of highest precedence.
fn merge(mut hits: Vec<RedactedSpan>) -> Vec<RedactedSpan> {
    hits.sort_unstable_by_key(|hit| (hit.start, hit.end, hit.kind));
    let mut spans: Vec<RedactedSpan> = Vec::with_capacity(hits.len());
    for hit in hits {
        match spans.last_mut() {
            Some(last) if hit.start < last.end => {
                last.end = last.end.max(hit.end);
                last.kind = last.kind.min(hit.kind);
            }
            _ => spans.push(hit),
        }
    }
    spans
}

fn replace<'t>(text: &'t str, spans: &[RedactedSpan]) -> Cow<'t, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut shown = 0;
    for span in spans {
        out.push_str(text.get(shown..span.start).unwrap_or_default());
        label::write(&mut out, span.kind);
        shown = span.end;
    }
    out.push_str(text.get(shown..).unwrap_or_default());
    Cow::Owned(out)
}

/// Why the rules could not be compiled: one line that names a pattern by its place and quotes no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern(String);

impl BadPattern {
    /// The explanation of a syntax error is many lines, the last of which says what is wrong.
    fn refused(number: usize, error: &regex::Error) -> BadPattern {
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        BadPattern(format!("redaction pattern {number} is refused: {reason}"))
    }
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadPattern {}

#[cfg(test)]
mod tests;
