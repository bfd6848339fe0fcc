//! The line that a cut leaves: what was left out, so that the model knows that there was more.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use super::View;
use super::edit::signature;
use crate::entry::{Entry, Role};
use crate::ranges::Ranges;
use crate::recall::{Handle, files_named, one_line};
use crate::tokens::{Counter, entry_tokens};

/// Tools and files that are named; more are counted.
const NAMED: usize = 6;
/// Characters of a name.
const NAME: usize = 60;
/// Most tokens of the line where a manager cuts.
const MOST_TOKENS: usize = 256;
/// The part of a budget that the line may take, as a divisor.
const SHARE: usize = 10;
/// What stands before the names of files.
const FILES: &str = "; files: ";

/// What was left out, to be put in words.
struct LeftOut {
    turns: usize,
    messages: usize,
    tools: BTreeSet<String>,
    files: BTreeSet<String>,
    /// First and last position.
    range: (u64, u64),
}

/// How much a line says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Names {
    None,
    Tools,
    All,
}

impl LeftOut {
    fn of(view: &View<'_>, groups: impl Iterator<Item = u32>) -> Option<Self> {
        let mut left = LeftOut {
            turns: 0,
            messages: 0,
            tools: BTreeSet::new(),
            files: BTreeSet::new(),
            range: (u64::MAX, 0),
        };
        for group in groups.filter_map(|index| view.group(index)) {
            left.turns += usize::from(group.role == Role::User);
            left.messages += group.len();
            for position in group.positions().map(u64::from) {
                left.range = (left.range.0.min(position), left.range.1.max(position));
            }
            let Some(opening) = view.record().entry(group.first.into()) else { continue };
            for call in opening.tool_calls() {
                left.tools.insert(call.name.as_str().into_owned());
                left.files.extend(files_named(&call.arguments.as_str()));
            }
        }
        (left.messages > 0).then_some(left)
    }

    fn line(&self, view: &View<'_>, names: Names) -> String {
        let count =
            |number: usize, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
        let (turns, messages) = (count(self.turns, "turn"), count(self.messages, "message"));
        let mut line = format!("[left out: {turns}, {messages}");
        for (what, found, from) in
            [("; tools: ", &self.tools, Names::Tools), (FILES, &self.files, Names::All)]
        {
            if found.is_empty() || names < from {
                continue;
            }
            let more = found.len().saturating_sub(NAMED);
            let shown: Vec<String> = found.iter().take(NAMED).map(|name| one_line(name, NAME)).collect();
            let _ = write!(line, "{what}{}", shown.join(", "));
            if more > 0 {
                let _ = write!(line, " and {more} more");
            }
        }
        if let Some(tail) = view.recall() {
            let _ = write!(
                line,
                "; search, or read {}",
                Handle::between(tail.clone(), self.range.0, self.range.1)
            );
        }
        line.push(']');
        line
    }
}

/// What is shown of no group among these. None where nothing is left out, or no line is wanted.
pub(crate) fn line(view: &View<'_>, groups: impl Iterator<Item = u32>) -> Option<String> {
    let left = view.wants_notice().then(|| LeftOut::of(view, groups)).flatten()?;
    Some(left.line(view, Names::All))
}

/// The same where room was left for it: with fewer names if it would take more.
pub(crate) fn bounded_line(view: &View<'_>, groups: impl Iterator<Item = u32>) -> Option<String> {
    let left = view.wants_notice().then(|| LeftOut::of(view, groups)).flatten()?;
    let lines = [Names::All, Names::Tools, Names::None].map(|names| left.line(view, names));
    let fits =
        |line: &String| entry_tokens(crate::tokens::Tokenizer::O200kBase, &entry(line)) <= MOST_TOKENS / 2;
    lines.into_iter().find(fits)
}

/// The entry that shows a line.
pub(crate) fn entry(line: &str) -> Arc<Entry> {
    Arc::new(Entry::text(Role::User, line))
}

/// Whether a line names files.
pub(crate) fn names_files(line: &str) -> bool {
    line.contains(FILES)
}

/// A line without the names of files.
pub(crate) fn without_files(line: &str) -> String {
    let Some((before, after)) = line.split_once(FILES) else { return line.into() };
    let rest = after.rsplit_once("; search, or read ");
    rest.map_or_else(|| format!("{before}]"), |(_, rest)| format!("{before}; search, or read {rest}"))
}

impl View<'_> {
    /// Whether a cut leaves a line.
    pub(crate) fn wants_notice(&self) -> bool {
        self.notice_wish.unwrap_or(self.recall.is_some())
    }

    /// What was said about that, and what is said from now on.
    pub(crate) fn wish_notice(&mut self, wish: Option<bool>) -> Option<bool> {
        if wish != self.notice_wish {
            self.lineage = self.lineage.map(|lineage| signature(&(lineage, "notice", wish)));
        }
        std::mem::replace(&mut self.notice_wish, wish)
    }

    /// Tokens to leave for the line in a budget; a budget that is too small for one has none.
    pub(crate) fn notice_room(&mut self, budget: usize, counter: Counter) -> usize {
        let room = counter.factor.apply(MOST_TOKENS);
        if !self.wants_notice() {
            return 0;
        }
        if room > budget / SHARE {
            self.wish_notice(Some(false));
            return 0;
        }
        room
    }

    /// Tokens of the line that the view shows.
    pub(crate) fn notice_tokens(&self, counter: Counter) -> usize {
        let tokens = |notice: &Arc<Entry>| counter.factor.apply(entry_tokens(counter.tokenizer, notice));
        self.notice.as_ref().map_or(0, tokens)
    }

    /// The line that the view shows.
    pub(crate) fn notice_text(&self) -> Option<String> {
        self.notice.as_ref().and_then(|notice| notice.content())
    }

    /// Says what every cut so far has left out.
    pub(super) fn say_what_is_left_out(&mut self) {
        let gone = self.drops.iter().filter(|drop| drop.reason.is_cut());
        let gone = gone.fold(Ranges::default(), |all, drop| all.union(&drop.groups));
        self.notice = bounded_line(self, gone.iter()).map(|line| entry(&line));
    }
}
