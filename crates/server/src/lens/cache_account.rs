//! What the provider's cache gave back to each call, what was lost where the prompt no longer began as before, how far it was
//! read, and why no further.
//!
//! Pure: rows of calls, their requests and the record between them in, an account out.

use scrollback_agent::exchange::Prices;
use scrollback_core::model::ModelName;
use scrollback_core::replay::{BrokenPart, CacheRule, PrefixBreak, prefix_break};
use scrollback_core::wire::{Wire, list_key, system_key, tools_key};
use scrollback_core::{Decision, Slot, json};
use scrollback_store::Sent;

use super::text::lasting;
use crate::usage::Spent;

/// Fewer tokens than this are not worth a line: providers cache in steps.
const WORTH_TELLING: u64 = 512;
/// Fields of a request that the provider's cache does not look at.
const BESIDE_THE_PROMPT: [&str; 10] = [
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "metadata",
    "previous_response_id",
    "prompt_cache_key",
    "stream",
    "stream_options",
    "user",
    "store",
];

/// How one call fared with the cache.
#[derive(Clone, Debug)]
pub(crate) struct CallAccount<'c> {
    pub(crate) call: &'c Sent,
    /// What it used; none while it is under way, or where nothing was said.
    pub(crate) spent: Option<Spent>,
    /// The call whose prompt the cache was expected to hold, by its place in the list.
    pub(crate) before: Option<usize>,
    /// Tokens the cache was expected to give back.
    pub(crate) expected: u64,
    /// Of these, the tokens that were read anew.
    pub(crate) lost: u64,
    /// What reading them anew cost more than reading them from the cache; none where a price is not known.
    pub(crate) extra_usd: Option<f64>,
    /// How long the cache had not been used, in milliseconds.
    pub(crate) idle_ms: i64,
    /// Whether it is the first call of its model in the conversation, although there were others before it.
    pub(crate) other_model: bool,
}

impl CallAccount<'_> {
    /// Whether the prompt was billed anew from some place on.
    pub(crate) fn is_break(&self) -> bool {
        self.lost > 0
    }

    /// Input tokens that were neither read from nor written to a cache.
    pub(crate) fn uncached(&self) -> u64 {
        self.spent
            .map_or(0, |spent| spent.input.saturating_sub(spent.cache_read).saturating_sub(spent.cache_write))
    }
}

/// Goes through the calls of one conversation, the oldest first.
pub(crate) fn account<'c>(calls: &'c [Sent], prices: impl Fn(&ModelName) -> Prices) -> Vec<CallAccount<'c>> {
    let mut all: Vec<CallAccount<'c>> = Vec::with_capacity(calls.len());
    for call in calls {
        let spent = Spent::of(call);
        let model = ModelName::parse(&call.model).ok();
        // Caches are kept by model, so what another model was sent in between does not matter.
        let before = all.iter().rposition(|other| other.call.model == call.model && answered(other));
        let rule = CacheRule::of(model.as_ref());
        let earlier = before.and_then(|at| all.get(at));
        let expected = earlier.map_or(0, |earlier| expected(earlier, &rule));
        let read = spent.map_or(0, |spent| spent.cache_read);
        let lost = expected.saturating_sub(read);
        let lost = if spent.is_some() && lost > WORTH_TELLING.max(expected / 50) { lost } else { 0 };
        let idle = earlier.map_or(0, |earlier| {
            call.started_at.0 - earlier.call.ended_at.unwrap_or(earlier.call.started_at).0
        });
        let price = model.as_ref().map_or_else(Prices::default, &prices);
        all.push(CallAccount {
            call,
            spent,
            before,
            expected,
            lost,
            extra_usd: spent.and_then(|spent| extra(lost, &spent, &price)),
            idle_ms: idle.max(0),
            other_model: before.is_none() && all.iter().any(answered),
        });
    }
    all
}

fn answered(account: &CallAccount<'_>) -> bool {
    account.spent.is_some_and(|spent| spent.input > 0)
}

/// Tokens of a call's prompt that its provider keeps for the next one.
fn expected(earlier: &CallAccount<'_>, rule: &CacheRule) -> u64 {
    let Some(spent) = earlier.spent else { return 0 };
    // Behind marks the provider says what it keeps; elsewhere it keeps everything, in steps.
    let kept = if rule.marks > 0 { spent.cache_read + spent.cache_write } else { spent.input };
    rule.held(kept, None)
}

/// What tokens cost more than they would have from the cache.
fn extra(lost: u64, spent: &Spent, price: &Prices) -> Option<f64> {
    let input = price.input?;
    let read = price.cache_read.unwrap_or(input);
    let written = lost.min(spent.cache_write);
    let paid = written as f64 * write_price(spent, price)? + (lost - written) as f64 * input;
    Some(((paid - lost as f64 * read) / 1e6).max(0.0))
}

/// What a call paid for a million tokens that it wrote to the cache: those that are kept for an hour cost more than others.
pub(crate) fn write_price(spent: &Spent, price: &Prices) -> Option<f64> {
    let usual = price.cache_write.or(price.input)?;
    if spent.cache_write == 0 {
        return Some(usual);
    }
    let long = spent.cache_write_1h.min(spent.cache_write) as f64 / spent.cache_write as f64;
    Some(usual * (1.0 - long) + price.cache_write_1h()? * long)
}

/// A part of a request, in the order in which providers read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptPart {
    /// The tools.
    Tools,
    /// The instructions.
    Instructions,
    /// A message, by its index in the list.
    Message(usize),
}

/// About where in a request the part ended that its provider read from the cache: the part, and the byte of the body. Providers
/// report tokens, not bytes, so the tokens are taken to lie evenly over the prompt. None if nothing was read.
pub(crate) fn read_until(wire: Wire, body: &str, read: u64, input: u64) -> Option<(PromptPart, usize)> {
    let request = json::check(body).ok()?;
    let span = |raw: json::Raw<'_>| {
        let (start, end) = raw.span_in(body);
        (start as usize, end as usize)
    };
    let tools = request.get(tools_key(wire)).map(|raw| (PromptPart::Tools, span(raw)));
    let system = system_key(wire).and_then(|key| request.get(key));
    let system = system.map(|raw| (PromptPart::Instructions, span(raw)));
    let messages = request.get(list_key(wire)).into_iter().flat_map(json::Raw::elements);
    let messages = messages.enumerate().map(|(number, raw)| (PromptPart::Message(number), span(raw)));
    let parts: Vec<(PromptPart, (usize, usize))> = tools.into_iter().chain(system).chain(messages).collect();
    let bytes: usize = parts.iter().map(|(_, (start, end))| end - start).sum();
    if read == 0 || input == 0 {
        return None;
    }
    let mut left = (bytes as u128 * u128::from(read.min(input)) / u128::from(input)) as usize;
    for (part, (start, end)) in &parts {
        if left <= end - start {
            return Some((*part, start + left));
        }
        left -= end - start;
    }
    parts.last().map(|(part, (_, end))| (*part, *end))
}

/// Who or what is behind a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Culprit {
    /// The client sent something else.
    Client,
    /// A manager of ours left something out or put something in.
    Manager,
    /// Time: the cache is kept only for so long.
    Time,
    /// The provider did not have what it should have had.
    Provider,
    /// It cannot be told.
    Unknown,
}

impl Culprit {
    /// The word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Culprit::Client => "client",
            Culprit::Manager => "our cut",
            Culprit::Time => "time to live",
            Culprit::Provider => "provider",
            Culprit::Unknown => "not known",
        }
    }
}

/// Why the prompt no longer began as before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) culprit: Culprit,
    /// What happened, in a sentence.
    pub(crate) what: String,
    /// The first byte that differed, where both requests are kept.
    pub(crate) place: Option<PrefixBreak>,
    /// Position of the decision or entry behind it, where there is one.
    pub(crate) position: Option<u64>,
}

/// What is known about a break: both calls with their requests, and the record that was written between them.
pub(crate) struct Evidence<'e> {
    pub(crate) before: &'e Sent,
    pub(crate) call: &'e Sent,
    /// The record from the earlier call to the later one, with positions.
    pub(crate) between: &'e [(u64, Slot)],
    pub(crate) idle_ms: i64,
    /// How long the provider keeps what the earlier call wrote, in milliseconds.
    pub(crate) lifetime_ms: i64,
}

/// Why a prompt no longer began as the one before.
pub(crate) fn cause(evidence: &Evidence<'_>) -> Cause {
    let Evidence { before, call, idle_ms, lifetime_ms, .. } = evidence;
    let text = |call: &Sent| Some(String::from_utf8_lossy(call.request.as_deref()?).into_owned());
    let (wire, old, new) = (Wire::named(&call.wire), text(before), text(call));
    let ours = decided(evidence.between);
    if let (Some(wire), Some(old), Some(new), true) = (wire, old, new, before.wire == call.wire) {
        if let Some(place) = prefix_break(wire, &old, &new) {
            return by_bytes(place, ours, evidence.between);
        }
        if let Some(changed) = settings(wire, &old, &new) {
            let what = format!("the client changed {changed}; the prompt itself begins as before");
            return Cause { culprit: Culprit::Client, what, place: None, position: None };
        }
        if idle_ms > lifetime_ms {
            return expired(*idle_ms, *lifetime_ms);
        }
        let what = "every byte of the call before is still at the start of this one, and it was in time: \
                    the provider did not keep it";
        return Cause { culprit: Culprit::Provider, what: what.into(), place: None, position: None };
    }
    if let Some(ours) = ours {
        return ours;
    }
    if idle_ms > lifetime_ms {
        return expired(*idle_ms, *lifetime_ms);
    }
    let what = "the requests are not kept, and the record says nothing of a change: the client sent something else, \
                or the provider did not keep it";
    Cause { culprit: Culprit::Unknown, what: what.into(), place: None, position: None }
}

fn expired(idle_ms: i64, lifetime_ms: i64) -> Cause {
    let what = format!(
        "the cache had not been used for {}; the provider keeps it for {}",
        lasting(idle_ms),
        lasting(lifetime_ms)
    );
    Cause { culprit: Culprit::Time, what, place: None, position: None }
}

/// The cause by the first byte that differs: ours if something was decided since the call before, else the client's.
fn by_bytes(place: PrefixBreak, ours: Option<Cause>, between: &[(u64, Slot)]) -> Cause {
    let echo = between.iter().find_map(|(_, slot)| match slot {
        Slot::Decision(decision, _) => match decision.as_ref() {
            Decision::Echo { position, .. } => Some(*position),
            _ => None,
        },
        _ => None,
    });
    match &place.part {
        BrokenPart::Tools { added, removed, changed } => {
            let listed = |word: &str, names: &[String]| match names {
                [] => None,
                [one, two, three, four, _, ..] => {
                    Some(format!("{word} {one}, {two}, {three}, {four} and {} more", names.len() - 4))
                }
                few => Some(format!("{word} {}", few.join(", "))),
            };
            let parts =
                [listed("added", added), listed("removed", removed), listed("changed or moved", changed)];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let what = format!("the tool list changed: {}", parts.join("; "));
            Cause { culprit: Culprit::Client, what, place: Some(place), position: None }
        }
        BrokenPart::Instructions => {
            let what = "the client changed the system prompt".into();
            let theirs = Cause { culprit: Culprit::Client, what, place: None, position: None };
            Cause { place: Some(place), ..ours.unwrap_or(theirs) }
        }
        BrokenPart::Message(number) => {
            let what = if place.after.is_empty() {
                format!("the client left out message {number} and what followed it")
            } else {
                format!("the client edited message {number}")
            };
            let theirs = Cause { culprit: Culprit::Client, what, place: None, position: echo };
            Cause { place: Some(place), ..ours.unwrap_or(theirs) }
        }
    }
}

/// What a decision since the call before did to the prompt.
fn decided(between: &[(u64, Slot)]) -> Option<Cause> {
    between.iter().rev().find_map(|(at, slot)| {
        let Slot::Decision(decision, _) = slot else { return None };
        let (culprit, what) = match decision.as_ref() {
            Decision::Cut { before, by, .. } => {
                (Culprit::Manager, format!("{by} left out everything before #{before}"))
            }
            Decision::Plan { by, tail, .. } => {
                (Culprit::Manager, format!("{by} planned anew what stands before #{tail}"))
            }
            Decision::Clear { positions, .. } => {
                (Culprit::Manager, format!("{} old tool results were cleared", positions.len()))
            }
            Decision::Truncate { positions, .. } => {
                (Culprit::Manager, format!("{} tool results were shortened", positions.len()))
            }
            Decision::Summary { covers, by, .. } => {
                let entries: u64 = covers.iter().map(|(first, last)| last - first + 1).sum();
                let what = format!("a summary by {by} took the place of {entries} entries");
                (if by == "claude-code" { Culprit::Client } else { Culprit::Manager }, what)
            }
            Decision::ProviderEdit { edit, positions } => {
                (Culprit::Provider, format!("the provider cleared {} results ({edit})", positions.len()))
            }
            Decision::Lead { .. } => (Culprit::Client, "the client changed the system prompt".into()),
            _ => return None,
        };
        Some(Cause { culprit, what, place: None, position: Some(*at) })
    })
}

/// Names of fields beside the prompt that differ and that caches look at.
fn settings(wire: Wire, old: &str, new: &str) -> Option<String> {
    let (old, new) = (json::check(old).ok()?, json::check(new).ok()?);
    let mut names: Vec<String> = Vec::new();
    for (name, value) in new.members().chain(old.members()) {
        let prompt =
            name == list_key(wire) || name == tools_key(wire) || Some(name.as_ref()) == system_key(wire);
        let other = |raw: json::Raw<'_>| raw.get(&name).map(|raw| raw.text().to_string());
        let differs = other(old) != other(new);
        let _ = value;
        if differs && !prompt && !BESIDE_THE_PROMPT.contains(&name.as_ref()) {
            names.push(name.into_owned());
        }
    }
    names.sort();
    names.dedup();
    (!names.is_empty()).then(|| names.join(", "))
}

/// About where the cache ended: the entry in which the tokens that were read from it run out. Counts of entries are estimates
/// and what stands before them is not in a transcript, so the call before gives the measure.
pub(crate) fn about_where(read: u64, input_before: u64, tokens: &[(u64, u64)]) -> Option<u64> {
    let said: u64 = tokens.iter().map(|(_, tokens)| tokens).sum();
    let mut at = input_before.saturating_sub(said);
    for (position, tokens) in tokens {
        at += tokens;
        if at > read {
            return Some(*position);
        }
    }
    None
}

/// How long what a call wrote is kept: as its request or its reply says, else as its provider usually does.
pub(crate) fn lifetime(call: &Sent, reply: Option<&Slot>) -> i64 {
    const HOUR: i64 = 3_600_000;
    let marked = call.request.as_deref().is_some_and(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        text.contains("\"ttl\":\"1h\"") || text.contains("\"ttl\": \"1h\"")
    });
    let said = match reply {
        Some(Slot::Message(entry)) => entry
            .meta
            .as_ref()
            .and_then(|meta| meta.usage.as_ref())
            .is_some_and(|usage| usage.cache_write.get("1h").is_some_and(|tokens| *tokens > 0)),
        _ => false,
    };
    if marked || said { HOUR } else { CacheRule::of(ModelName::parse(&call.model).ok().as_ref()).lifetime_ms }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use std::sync::Arc;

    use super::*;
    use scrollback_core::{SummaryPlace, Time};
    use scrollback_store::{CallStatus, ConversationId};
    use serde_json::json;

    fn call(number: i64, model: &str, minute: i64, read: u64, written: u64, body: Option<&str>) -> Sent {
        let spent = Spent {
            input: read + written + 3,
            output: 10,
            cache_read: read,
            cache_write: written,
            cost_usd: Some(0.1),
            ..Spent::default()
        };
        Sent {
            id: format!("c{number}"),
            conversation: ConversationId::new(Time(1)),
            run: None,
            step: None,
            evaluation: None,
            upto: number as u64,
            managers: "[]".into(),
            wire: "anthropic".into(),
            model: model.into(),
            epoch: None,
            prefix_hash: None,
            request: body.map(|body| body.as_bytes().to_vec()),
            response: None,
            status: CallStatus::Done,
            attempt: 1,
            usage: serde_json::to_string(&spent).ok(),
            started_at: Time(minute * 60_000),
            ended_at: Some(Time(minute * 60_000 + 1_000)),
            tokens: None,
            factor: None,
            holder: None,
        }
    }

    const SONNET: &str = "anthropic:claude-sonnet-4-5";

    #[test]
    fn a_break_has_its_tokens_and_its_price() {
        let calls = [
            call(1, SONNET, 0, 0, 20_000, None),
            call(2, SONNET, 1, 20_000, 1_000, None),
            call(3, "anthropic:claude-haiku-4-5", 2, 0, 30_000, None),
            call(4, SONNET, 3, 5_000, 17_000, None),
        ];
        let told = account(&calls, Prices::of);
        assert_eq!(told.iter().map(|one| one.lost).collect::<Vec<_>>(), [0, 0, 0, 16_000]);
        assert!(told[2].other_model && !told[0].other_model);
        // 16,000 tokens at 3.75 in place of 0.30 dollars per million.
        assert!((told[3].extra_usd.unwrap() - 16_000.0 * (3.75 - 0.3) / 1e6).abs() < 1e-9);
        assert_eq!((told[3].before, told[3].expected), (Some(1), 21_000));
    }

    fn body(tools: &str, system: &str, messages: &[&str]) -> String {
        let messages: Vec<_> =
            messages.iter().map(|text| json!({ "role": "user", "content": text })).collect();
        json!({ "tools": [{ "name": tools }], "system": system, "messages": messages, "thinking": null })
            .to_string()
    }

    fn why(old: &str, new: &str, between: &[(u64, Slot)], idle_ms: i64) -> Cause {
        let (before, after) = (call(1, SONNET, 0, 0, 9, Some(old)), call(2, SONNET, 1, 0, 9, Some(new)));
        cause(&Evidence { before: &before, call: &after, between, idle_ms, lifetime_ms: 300_000 })
    }

    #[test]
    fn what_was_read_from_the_cache_ends_in_a_part_of_the_request() {
        let text = body("a", "brief", &["one", "two"]);
        let until = |read| read_until(Wire::Anthropic, &text, read, 100);
        assert_eq!(until(0), None);
        assert_eq!(until(1).map(|(part, _)| part), Some(PromptPart::Tools));
        let (part, byte) = until(100).unwrap();
        assert_eq!((part, text.get(byte..)), (PromptPart::Message(1), Some(r#"],"thinking":null}"#)));
        assert_eq!(until(500), until(100), "no more is read than was sent");
    }

    #[test]
    fn writing_for_an_hour_makes_a_break_dearer() {
        let price = Prices::of(&ModelName::parse(SONNET).unwrap());
        let spent = Spent { cache_write: 10_000, cache_write_1h: 10_000, ..Spent::default() };
        // 6 dollars a million in place of 0.30.
        assert!((extra(10_000, &spent, &price).unwrap() - 10_000.0 * (6.0 - 0.3) / 1e6).abs() < 1e-9);
        let usual = Spent { cache_write_1h: 0, ..spent };
        assert!((extra(10_000, &usual, &price).unwrap() - 10_000.0 * (3.75 - 0.3) / 1e6).abs() < 1e-9);
    }

    #[test]
    fn each_cause_is_told_from_the_bytes() {
        let old = body("a", "brief", &["one", "two"]);
        let told = why(&old, &body("b", "brief", &["one", "two", "three"]), &[], 0);
        assert_eq!(
            (told.culprit, told.what.as_str()),
            (Culprit::Client, "the tool list changed: added b; removed a")
        );
        let told = why(&old, &body("a", "terse", &["one", "two"]), &[], 0);
        assert_eq!(
            (told.culprit, told.what.as_str()),
            (Culprit::Client, "the client changed the system prompt")
        );
        let new = body("a", "brief", &["one", "2", "three"]);
        let told = why(&old, &new, &[], 0);
        let place = told.place.unwrap();
        assert_eq!((told.what.as_str(), &new[place.byte..=place.byte]), ("the client edited message 1", "2"));
        let grown = body("a", "brief", &["one", "two", "three"]);
        assert_eq!(why(&old, &grown, &[], 400_000).culprit, Culprit::Time);
        assert_eq!(why(&old, &grown, &[], 1_000).culprit, Culprit::Provider);
        let thinking = grown.replace("\"thinking\":null", "\"thinking\":{\"type\":\"enabled\"}");
        assert!(why(&old, &thinking, &[], 400_000).what.contains("thinking"));
    }

    #[test]
    fn what_was_decided_since_the_call_before_is_ours() {
        let cut = Decision::Cut {
            before: 7,
            held: None,
            by: "fit".into(),
            scope: None,
            kept: Vec::new(),
            owed: Vec::new(),
            notice: None,
            factor: None,
        };
        let between = [(8, Slot::Decision(Arc::new(cut), Time(0)))];
        let told = why(&body("a", "s", &["one", "two"]), &body("a", "s", &["two"]), &between, 0);
        assert_eq!((told.culprit, told.position), (Culprit::Manager, Some(8)));
        assert!(told.what.contains("fit left out everything before #7") && told.place.is_some());
        // Tools are never ours.
        assert_eq!(
            why(&body("a", "s", &["1"]), &body("b", "s", &["1"]), &between, 0).culprit,
            Culprit::Client
        );
    }

    #[test]
    fn without_bytes_the_record_and_the_clock_say_what_they_can() {
        let (before, after) = (call(1, SONNET, 0, 0, 9, None), call(2, SONNET, 1, 0, 9, None));
        let told = |between: &[(u64, Slot)], idle_ms| {
            cause(&Evidence { before: &before, call: &after, between, idle_ms, lifetime_ms: 300_000 })
        };
        let summary = Decision::Summary {
            covers: vec![(0, 9)],
            text: "s".into(),
            place: SummaryPlace::default(),
            by: "claude-code".into(),
            usage: None,
            replaces: None,
            scope: None,
        };
        let between = [(10, Slot::Decision(Arc::new(summary), Time(0)))];
        assert_eq!(told(&between, 900_000).culprit, Culprit::Client);
        assert_eq!(told(&[], 900_000).culprit, Culprit::Time);
        assert_eq!(told(&[], 1_000).culprit, Culprit::Unknown);
        assert_eq!(about_where(500, 1_000, &[(0, 100), (1, 300), (2, 200)]), Some(1));
        assert_eq!(about_where(5_000, 1_000, &[(0, 100)]), None);
    }
}
