//! Searching: the database finds entries that have the words; what is a hit, how good and how it is shown is decided here,
//! so that every database gives the same answer.

use std::collections::HashMap;

use scrollback_core::{Role, Slot, Time};

use super::lineage::Lineage;
use super::read;
use crate::conversation::Conversation;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Tenant};
use crate::rows::{EntryRow, MESSAGE, Rows};
use crate::run::Run;
use crate::search::{Cursor, Filter, Hit, Hits, Query, Term, WordDemand, WordQuery};
use crate::table::Scan;
use crate::words::{TextWord, words};

/// Most entries that are looked at for one search. Beyond, only the newest conversations are ranked.
const MAX_CANDIDATES: usize = 10_000;
/// Length of a snippet in characters.
const SNIPPET: usize = 160;
/// An entry of this many words is neither short nor long.
const USUAL_LENGTH: f64 = 60.0;

/// An entry that matches, before it is shown.
struct WordMatch {
    score: f64,
    created_at: Time,
    conversation: ConversationId,
    position: u64,
    role: Role,
}

impl WordMatch {
    /// Better first, then newer, then by id, so that the order is total.
    fn order(
        &self,
    ) -> (std::cmp::Reverse<u64>, std::cmp::Reverse<i64>, std::cmp::Reverse<&str>, std::cmp::Reverse<u64>)
    {
        use std::cmp::Reverse;
        // Scores are positive, and positive numbers sort like their bits.
        let score = self.score.to_bits();
        (
            Reverse(score),
            Reverse(self.created_at.0),
            Reverse(self.conversation.as_str()),
            Reverse(self.position),
        )
    }

    fn cursor(&self) -> Cursor {
        Cursor(format!(
            "{:x}.{}.{}.{}",
            self.score.to_bits(),
            self.created_at.0,
            self.conversation,
            self.position
        ))
    }
}

/// One page of what a query finds.
pub(crate) async fn search<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    query: &Query,
    filter: &Filter,
    limit: usize,
    after: Option<&Cursor>,
) -> Result<Hits, StoreError> {
    let after = after.map(read_cursor).transpose()?;
    if query.is_empty() || limit == 0 {
        return Ok(Hits { hits: Vec::new(), next: None });
    }
    let mut matches = matches(rows, tenant, query, filter).await?;
    matches.sort_by(|a, b| a.order().cmp(&b.order()));
    if let Some((score, at, id, position)) = after {
        use std::cmp::Reverse;
        let end = (Reverse(score), Reverse(at), Reverse(id.as_str()), Reverse(position));
        matches.retain(|found| found.order() > end);
    }
    let more = matches.len() > limit;
    matches.truncate(limit);
    let next = matches.last().filter(|_| more).map(WordMatch::cursor);
    let mut hits = Vec::with_capacity(matches.len());
    for found in matches {
        hits.extend(show(rows, tenant, query, filter, found).await?);
    }
    Ok(Hits { hits, next })
}

fn read_cursor(cursor: &Cursor) -> Result<(u64, i64, String, u64), StoreError> {
    let parts: Vec<&str> = cursor.as_str().split('.').collect();
    let [score, at, id, position] = parts.as_slice() else { return Err(Cursor::bad()) };
    let read = || {
        let id = ConversationId::parse(id)?;
        Some((u64::from_str_radix(score, 16).ok()?, at.parse().ok()?, id.to_string(), position.parse().ok()?))
    };
    read().ok_or_else(Cursor::bad)
}

async fn matches<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    query: &Query,
    filter: &Filter,
) -> Result<Vec<WordMatch>, StoreError> {
    let mut conversation = filter.conversation.clone();
    if let Some(id) = &filter.run {
        let run: Option<Run> = rows.get(vec![id.as_str().into()]).await?;
        let Some(of_run) = run.filter(|run| run.tenant == *tenant).and_then(|run| run.conversation) else {
            return Ok(Vec::new());
        };
        conversation = Some(of_run);
    }
    let (all, none) = query.demands();
    let wanted = WordQuery {
        tenant: tenant.clone(),
        all,
        none,
        recipient: filter.recipient.as_ref().map(|recipient| recipient.as_str().to_string()),
        conversations: conversation.map(|id| vec![id.to_string()]),
        project: None,
        words: WordDemand::All,
        status: filter.status,
        limit: MAX_CANDIDATES,
    };
    let mut tools = ToolsByConversation::default();
    let mut found = Vec::new();
    for candidate in rows.find(&wanted).await? {
        let (row, slot) = match read::at(rows, tenant, &candidate.conversation, candidate.position).await {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            // Nothing says that it would be found.
            Err(error) if error.kind() == ErrorKind::Damaged && !candidate.indexed => continue,
            Err(error) => return Err(error),
        };
        if !passes(&row, filter) {
            continue;
        }
        let Some(text) = read::searchable(&slot).map(|text| filter.seen(text)) else { continue };
        let Some(score) = score(query, &words(&text)) else { continue };
        if let Some(tool) = &filter.tool
            && !tools.used(rows, tenant, &row, &slot, tool).await?
        {
            continue;
        }
        let role = match &slot {
            Slot::Message(entry) => entry.role,
            _ => Role::System,
        };
        let (conversation, position) = (candidate.conversation, candidate.position);
        // Texts are read again for the page that is shown: holding all of them would take as much memory as the record has.
        found.push(WordMatch { score, created_at: slot.created_at(), conversation, position, role });
    }
    Ok(found)
}

/// The demands on the entry's own columns.
fn passes(row: &EntryRow, filter: &Filter) -> bool {
    let role = if row.kind == MESSAGE { row.role.as_deref() } else { Some("system") };
    let at = Time::parse(&row.created_at).unwrap_or_default();
    filter.role.is_none_or(|wanted| role == Some(wanted.as_str()))
        && filter.since.is_none_or(|since| at >= since)
        && filter.until.is_none_or(|until| at < until)
        && filter.evaluation.is_none_or(|id| row.evaluation.as_deref() == Some(id.as_bytes().as_slice()))
}

/// Which tools the entries of conversations are about; records are read once per search, and only when asked for.
#[derive(Default)]
struct ToolsByConversation {
    called: HashMap<ConversationId, HashMap<String, String>>,
}

impl ToolsByConversation {
    /// Whether an entry calls a tool of that name or answers one.
    async fn used<R: Rows>(
        &mut self,
        rows: &mut R,
        tenant: &Tenant,
        row: &EntryRow,
        slot: &Slot,
        tool: &str,
    ) -> Result<bool, StoreError> {
        let Slot::Message(entry) = slot else { return Ok(false) };
        if entry.tool_name().as_deref() == Some(tool) || entry.tool_calls().any(|call| call.name == *tool) {
            return Ok(true);
        }
        let Some(id) = entry.tool_call_id() else { return Ok(false) };
        if !self.called.contains_key(&row.conversation) {
            let conversation = super::lineage::conversation(rows, tenant, &row.conversation).await?;
            let lineage = Lineage::of(rows, &conversation).await?;
            let record = read::record(rows, tenant, &lineage, conversation.head).await?;
            let mut names = HashMap::new();
            for slot in record.slots() {
                let Slot::Message(entry) = slot else { continue };
                for call in entry.tool_calls() {
                    if let Some(id) = &call.call_id {
                        names.insert(id.as_str().into_owned(), call.name.as_str().into_owned());
                    }
                }
            }
            self.called.insert(row.conversation.clone(), names);
        }
        let names = self.called.get(&row.conversation);
        Ok(names.and_then(|names| names.get(&id)).is_some_and(|name| name == tool))
    }
}

/// Where a term stands among words: the number of the word it begins with.
pub(super) fn places<'w>(term: &'w Term, text: &'w [TextWord]) -> impl Iterator<Item = usize> + 'w {
    let fits = move |window: &[TextWord]| {
        window.iter().zip(&term.words).enumerate().all(|(at, (word, wanted))| {
            let last = at + 1 == term.words.len();
            if term.prefix && last { word.text.starts_with(wanted.as_str()) } else { word.text == *wanted }
        })
    };
    text.windows(term.words.len()).enumerate().filter(move |(_, window)| fits(window)).map(|(at, _)| at)
}

/// How well a text matches; none if it does not. Several mentions count more, in a long text less; like BM25 without the
/// rarity of words, which depends on everything else in the store.
pub(super) fn score(query: &Query, text: &[TextWord]) -> Option<f64> {
    if query.none.iter().any(|term| places(term, text).next().is_some()) {
        return None;
    }
    let length = 0.25 + 0.75 * text.len() as f64 / USUAL_LENGTH;
    let mut score = 0.0;
    for term in &query.all {
        let times = places(term, text).count() as f64;
        if times == 0.0 {
            return None;
        }
        score += times * 2.2 / (times + 1.2 * length);
    }
    Some(score)
}

async fn show<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    query: &Query,
    filter: &Filter,
    found: WordMatch,
) -> Result<Option<Hit>, StoreError> {
    let slot = read::at(rows, tenant, &found.conversation, found.position).await?;
    let Some(text) = slot.and_then(|(_, slot)| read::searchable(&slot)) else { return Ok(None) };
    let text = filter.seen(text);
    let conversation: Option<Conversation> = rows.get(vec![found.conversation.as_str().into()]).await?;
    let conversation =
        conversation.ok_or_else(|| StoreError::damaged("the conversation of a hit is missing"))?;
    let lineage = Lineage::of(rows, &conversation).await?;
    let below = found.position + 1;
    let turn = lineage.count(rows, |scan: Scan| scan.is("role", "user").below("position", below)).await?;
    Ok(Some(Hit {
        snippet: snippet(query, &text, SNIPPET),
        conversation: found.conversation,
        session: conversation.session,
        kind: conversation.kind,
        title: conversation.title,
        recipient: conversation.recipient,
        position: found.position,
        role: found.role,
        created_at: found.created_at,
        turn,
    }))
}

/// The place of a text where most terms of a query stand closest together, on one line of so many characters, matches marked.
pub(super) fn snippet(query: &Query, text: &str, most: usize) -> String {
    let all = words(text);
    let mut found: Vec<(usize, usize, usize)> = Vec::new();
    for (number, term) in query.all.iter().enumerate() {
        for at in places(term, &all) {
            let last = all.get(at + term.words.len() - 1);
            found.extend(all.get(at).zip(last).map(|(first, last)| (first.start, last.end, number)));
        }
    }
    found.sort_unstable();
    let (first, last) = densest(&found, most);
    let matched = text.get(first..last).map_or(0, |matched| matched.chars().count());
    let before = text.get(..first).unwrap_or_default().char_indices().rev();
    let start = before.take(most.saturating_sub(matched) / 2).last().map_or(first, |(at, _)| at);
    let marks = found.iter().map(|(start, end, _)| (*start, *end));
    let mut shown = String::from(if start > 0 { "…" } else { "" });
    let mut marks = marks.peekable();
    let mut open_until = None;
    for (length, (at, letter)) in text.char_indices().skip_while(|(at, _)| *at < start).enumerate() {
        if open_until.is_some_and(|end| at >= end) {
            shown.push('»');
            open_until = None;
        }
        if length >= most && open_until.is_none() {
            shown.push('…');
            return shown;
        }
        while marks.next_if(|mark| mark.0 < at).is_some() {}
        if open_until.is_none()
            && let Some((_, end)) = marks.next_if(|mark| mark.0 == at)
        {
            shown.push('«');
            open_until = Some(end);
        }
        shown.push(if letter.is_whitespace() || letter.is_control() { ' ' } else { letter });
    }
    if open_until.is_some() {
        shown.push('»');
    }
    shown
}

/// From where to where most terms stand within so many bytes, as close together as they do; of equal places the first. Matches
/// are a beginning, an end and the number of a term each, in the order in which they begin.
fn densest(found: &[(usize, usize, usize)], most: usize) -> (usize, usize) {
    let mut best = (0, 0);
    let mut best_rank = None;
    for (at, (start, ..)) in found.iter().enumerate() {
        let (mut terms, mut last) = (Vec::new(), *start);
        for (_, end, term) in found.get(at..).unwrap_or_default() {
            if !terms.is_empty() && end - start > most {
                break;
            }
            if !terms.contains(term) {
                terms.push(*term);
                last = last.max(*end);
            }
        }
        let rank = Some((terms.len(), std::cmp::Reverse(last - start)));
        if rank > best_rank {
            (best, best_rank) = ((*start, last), rank);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snippets_show_matches_in_their_surroundings() {
        let snippet = |query: &str, text: &str| snippet(&Query::parse(query), text, SNIPPET);
        assert_eq!(
            snippet("\"red pen*\" blue", "A Red pencil\nand a blue one"),
            "A «Red pencil» and a «blue» one"
        );
        let long = format!("{} red pens {}", "word ".repeat(100), "more ".repeat(100));
        let shown = snippet("\"red pen*\" blue", &long);
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("«red pens»"), "{shown}");
        assert!(shown.chars().count() <= SNIPPET + 4);
        assert_eq!(snippet("absent", "A text"), "A text");
    }

    #[test]
    fn snippets_show_the_place_with_most_words() {
        let filler = "word ".repeat(100);
        let text = format!("a port {filler} é staging is down, its port is 48123 {filler} port");
        let shown = snippet(&Query::parse("staging port"), &text, SNIPPET);
        assert!(shown.contains("«staging» is down, its «port» is 48123"), "{shown}");
        assert!(shown.chars().count() <= SNIPPET + 8);
    }

    #[test]
    fn phrases_beginnings_and_exclusions_decide() {
        let matches = |query: &str, text: &str| score(&Query::parse(query), &words(text)).is_some();
        assert!(matches("\"red pen\"", "the red pen") && !matches("\"red pen\"", "the pen is red"));
        assert!(matches("pen*", "pencil") && !matches("pen", "pencil"));
        assert!(matches("pen -\"red pen\"", "red and pen") && !matches("pen -\"red pen\"", "a red pen"));
        assert!(matches("東京", "私は東京にいる") && !matches("東京", "京東"));
    }

    #[test]
    fn more_mentions_and_shorter_texts_rank_higher() {
        let score = |text: &str| score(&Query::parse("pen"), &words(text)).unwrap_or_default();
        assert!(score("pen pen") > score("pen and"));
        assert!(score("pen") > score(&format!("pen {}", "filler ".repeat(80))));
    }
}
