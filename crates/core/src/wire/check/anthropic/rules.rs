//! The table of rules.

use super::super::{Evidence, Gate, Rule, Severity};
use super::models;
use crate::model::ModelName;
use Severity::{Allowed, Cost, Quality, Refused, Silent};

/// Rules no body can show: what an account may read, and what a repair has to do.
pub(in super::super) const UNSEEN: &[&str] = &["AN-37", "AN-39r"];

const fn rule(id: &'static str, severity: Severity, says: &'static str, mend: &'static str) -> Rule {
    Rule { id, severity, evidence: Evidence::Seen, gate: None, says, mend }
}

/// The rule for some models only.
const fn only(models: &'static str, holds: fn(&ModelName) -> bool, rule: Rule) -> Rule {
    Rule { gate: Some(Gate { models, holds }), ..rule }
}

/// The rule known only from hearsay.
const fn hearsay(rule: Rule) -> Rule {
    Rule { evidence: Evidence::Unverified, ..rule }
}

const BOUND: &str = "Fable 5.1 and later, Opus 5.5 and later";

/// The rules, in order.
pub(in super::super) const RULES: &[Rule] = &[
    rule(
        "AN-1",
        Refused,
        "the first message is the user's, unless a summary stands first",
        "put a user message in front",
    ),
    rule("AN-2", Silent, "consecutive messages of one role are merged", ""),
    rule(
        "AN-3",
        Refused,
        "every call is answered in the message after it",
        "closed the call with a result that says it was interrupted",
    ),
    rule("AN-4", Refused, "in that message, the results come first", "moved the results to the front"),
    rule("AN-5", Refused, "every result answers a call of the message before it", "left the result out"),
    rule(
        "AN-6",
        Refused,
        "the ids of the calls in one message are unique",
        "gave the second call, and its result, an id of its own",
    ),
    hearsay(rule("AN-7", Refused, "a call has one result", "left the second result out")),
    rule(
        "AN-8",
        Refused,
        "ids have letters, digits, `_` and `-` only",
        "renamed the id on both sides, with a hash to keep it unique",
    ),
    rule(
        "AN-9",
        Refused,
        "the result of a server tool follows its call in the same content",
        "left the result out",
    ),
    rule("AN-10", Refused, "no text block is blank", "left the blank text out"),
    rule(
        "AN-11",
        Refused,
        "no message is empty, except a last one of the assistant",
        "left the empty message out",
    ),
    only(
        "Claude 4.6 and later",
        models::refuses_prefill,
        rule("AN-12", Refused, "the list ends with a user message", "put a user message at the end"),
    ),
    only(
        "Claude 4.5 and earlier",
        models::takes_prefill,
        rule(
            "AN-13",
            Refused,
            "the beginning of an answer does not end in white space",
            "cut the trailing white space off",
        ),
    ),
    only(
        "Claude before Opus 4.8, Sonnet 5 and Haiku 5.5",
        models::refuses_system_messages,
        rule(
            "AN-14",
            Refused,
            "a model takes system messages in the list, or refuses them",
            "turned the system message into text of the user",
        ),
    ),
    rule(
        "AN-15",
        Refused,
        "a system message follows a user message, comes last or before an answer, and holds text only",
        "turned the system message into text of the user",
    ),
    rule(
        "AN-16",
        Allowed,
        "a system message with `clear_at` stays in the list unchanged; it stops being shown by itself",
        "",
    ),
    rule("AN-17", Allowed, "a result may be an error, and may be empty", ""),
    rule("AN-18", Quality, "a paused turn goes back as it is, without a user message after it", ""),
    rule("AN-19", Refused, "advice in the list needs the advisor among the tools", "left the advice out"),
    rule(
        "AN-20",
        Refused,
        "a request has at most 32 MB and 100 images (600 for models with a large window), none too large",
        "",
    ),
    rule("AN-21", Refused, "the request fits the window of the model", ""),
    rule(
        "AN-30",
        Refused,
        "thinking goes back as it came, in the same order",
        "left the changed thinking out",
    ),
    rule("AN-31", Refused, "thinking carries the signature it came with", "left the thinking out"),
    rule(
        "AN-32",
        Refused,
        "with thinking switched on by hand, a turn that waits for results begins with thinking",
        "switched thinking off for this request",
    ),
    rule("AN-33", Refused, "thinking without text has a signature", "left the empty thinking out"),
    only(
        BOUND,
        models::binds_prefix,
        rule(
            "AN-34",
            Refused,
            "everything before a thinking block is what it was when the block was signed",
            "left out all thinking from the edit on",
        ),
    ),
    only(
        BOUND,
        models::binds_prefix,
        rule(
            "AN-35",
            Refused,
            "thinking that is kept has all the thinking before it",
            "left out all thinking from the first missing block on",
        ),
    ),
    rule("AN-36", Silent, "thinking a model may not read is dropped when another model wrote it", ""),
    rule("AN-37", Silent, "thinking of another organisation or account is dropped", ""),
    rule("AN-38", Allowed, "with `drop_block`, the answer names the thinking that was dropped", ""),
    only(
        "Opus before 4.5, Sonnet before 4.6, Haiku up to 4.5",
        models::forgets_thinking,
        rule("AN-39", Silent, "thinking of earlier turns is not shown to older models", ""),
    ),
    rule(
        "AN-39r",
        Quality,
        "after an edit, all later thinking is left out, or dropped by the provider",
        "left out all thinking from the edit on",
    ),
    rule("AN-40", Allowed, "context edits happen at the provider; the full list is sent every time", ""),
    rule("AN-41", Allowed, "a signed summary comes first, in place of the messages it summarises", ""),
    rule(
        "AN-42",
        Refused,
        "there is one signed summary, it comes first, and no summary is empty",
        "left the misplaced or empty summary out",
    ),
    rule("AN-43", Allowed, "turns kept after a summary keep their thinking if they are sent unchanged", ""),
    rule(
        "AN-44",
        Refused,
        "a continued thread names the message it goes on from, and keeps its system prompt and tools",
        "",
    ),
    rule("AN-45", Allowed, "fallback blocks keep their place", ""),
    rule("AN-46", Refused, "tools are added and removed in system messages only", "left the tool change out"),
    rule("AN-50", Refused, "a request has at most four cache marks", "removed the cache marks beyond four"),
    rule(
        "AN-51",
        Refused,
        "the lifetimes of cache marks do not grow from tools to system to messages",
        "lowered the lifetime",
    ),
    rule(
        "AN-52",
        Refused,
        "no cache mark stands on thinking, an empty text or a tool that is loaded later",
        "removed the cache mark",
    ),
    rule("AN-53", Cost, "a cache mark is at most 20 blocks after the one before", ""),
    rule("AN-54", Cost, "a prefix shorter than the model's minimum is not kept", ""),
    rule(
        "AN-55",
        Cost,
        "changed tools, system prompt, tool choice or thinking make what was kept useless",
        "",
    ),
    rule(
        "AN-56",
        Cost,
        "a request without an answer fills the cache, if nothing in it asks for an answer",
        "",
    ),
    rule("AN-57", Allowed, "diagnostics tell why the cache was missed", ""),
];
