//! The table of rules.

use super::super::{Gate, Rule, Severity};
use super::models;
use Severity::{Allowed, Cost, Quality, Refused, Silent};

/// Rules no body can show: what an account may read, and what a repair has to do.
pub(in super::super) const UNSEEN: &[&str] = &["AN-37", "AN-39r"];

const BOUND: &str = "Fable 5.1 and later, Opus 5.5 and later";

/// The rules, in order.
pub(in super::super) const RULES: &[Rule] = &[
    Rule::new(
        "AN-1",
        Refused,
        "the first message is the user's, unless a summary stands first",
        "put a user message in front",
    ),
    Rule::new("AN-2", Silent, "consecutive messages of one role are merged", ""),
    Rule::new(
        "AN-3",
        Refused,
        "every call is answered in the message after it",
        "gave the call its result, an interrupted one where there was none",
    ),
    Rule::new("AN-4", Refused, "in that message, the results come first", "moved the results to the front"),
    Rule::new("AN-5", Refused, "every result answers a call of the message before it", "left the result out"),
    Rule::new(
        "AN-6",
        Refused,
        "the ids of the calls in one message are unique",
        "gave the second call, and its result, an id of its own",
    ),
    Rule::new("AN-7", Refused, "a call has one result", "left the second result out").unverified(),
    Rule::new(
        "AN-8",
        Refused,
        "ids have letters, digits, `_` and `-` only",
        "renamed the id on both sides, with a hash to keep it unique",
    ),
    Rule::new(
        "AN-9",
        Refused,
        "the result of a server tool follows its call in the same content",
        "left the result out",
    ),
    Rule::new("AN-10", Refused, "no text block is blank", "left the blank text out"),
    Rule::new(
        "AN-11",
        Refused,
        "no message is empty, except a last one of the assistant and a system message with settings",
        "left the empty message out",
    ),
    Rule::new("AN-12", Refused, "the list ends with a user message", "put a user message at the end")
        .only(Gate { models: "Claude 4.6 and later", holds: models::refuses_prefill }),
    Rule::new(
        "AN-13",
        Refused,
        "the beginning of an answer does not end in white space",
        "cut the trailing white space off",
    )
    .only(Gate { models: "Claude 4.5 and earlier", holds: models::takes_prefill }),
    Rule::new(
        "AN-14",
        Refused,
        "a model takes system messages in the list, or refuses them",
        "turned the system message into text of the user",
    )
    .only(Gate {
        models: "Claude before Opus 4.8, Sonnet 5 and Haiku 5.5",
        holds: models::refuses_system_messages,
    }),
    Rule::new(
        "AN-15",
        Refused,
        "a system message follows a user message, comes last or before an answer, and holds text only",
        "turned the system message into text of the user",
    ),
    Rule::new(
        "AN-16",
        Allowed,
        "a system message with `clear_at` stays in the list unchanged; it stops being shown by itself",
        "",
    ),
    Rule::new("AN-17", Allowed, "a result may be an error, and may be empty", ""),
    Rule::new("AN-18", Quality, "a paused turn goes back as it is, without a user message after it", ""),
    Rule::new(
        "AN-19",
        Refused,
        "advice in the list needs the advisor among the tools",
        "left the advice out",
    ),
    Rule::new(
        "AN-20",
        Refused,
        "a request has at most 32 MB and 100 images (600 for models with a large window), none too large",
        "",
    ),
    Rule::new("AN-21", Refused, "the request fits the window of the model", ""),
    Rule::new(
        "AN-30",
        Refused,
        "thinking goes back as it came, in the same order",
        "left the changed thinking out",
    ),
    Rule::new("AN-31", Refused, "thinking carries the signature it came with", "left the thinking out"),
    Rule::new(
        "AN-32",
        Refused,
        "with thinking switched on by hand, a turn that waits for results begins with thinking",
        "switched thinking off for this request",
    ),
    Rule::new("AN-33", Refused, "thinking without text has a signature", "left the empty thinking out"),
    Rule::new(
        "AN-34",
        Refused,
        "everything before a thinking block is what it was when the block was signed",
        "left out all thinking from the edit on",
    )
    .only(Gate { models: BOUND, holds: models::binds_prefix }),
    Rule::new(
        "AN-35",
        Refused,
        "thinking that is kept has all the thinking before it",
        "left out all thinking from the first missing block on",
    )
    .only(Gate { models: BOUND, holds: models::binds_prefix }),
    Rule::new("AN-36", Silent, "thinking a model may not read is dropped when another model wrote it", ""),
    Rule::new("AN-37", Silent, "thinking of another organisation or account is dropped", ""),
    Rule::new("AN-38", Allowed, "with `drop_block`, the answer names the thinking that was dropped", ""),
    Rule::new("AN-39", Silent, "thinking of earlier turns is not shown to older models", "").only(Gate {
        models: "Opus before 4.5, Sonnet before 4.6, Haiku up to 4.5",
        holds: models::forgets_thinking,
    }),
    Rule::new(
        "AN-39r",
        Quality,
        "after an edit, all later thinking is left out, or dropped by the provider",
        "left out all thinking from the edit on",
    ),
    Rule::new("AN-40", Allowed, "context edits happen at the provider; the full list is sent every time", ""),
    Rule::new("AN-41", Allowed, "a signed summary comes first, in place of the messages it summarises", ""),
    Rule::new(
        "AN-42",
        Refused,
        "there is one signed summary, it comes first, and no summary is empty",
        "left the misplaced or empty summary out",
    ),
    Rule::new(
        "AN-43",
        Allowed,
        "turns kept after a summary keep their thinking if they are sent unchanged",
        "",
    ),
    Rule::new(
        "AN-44",
        Refused,
        "a continued thread names the message it continues from, and keeps its system prompt and tools",
        "left the thread out",
    ),
    Rule::new("AN-45", Allowed, "fallback blocks keep their place", ""),
    Rule::new(
        "AN-46",
        Refused,
        "tools are added and removed in system messages only",
        "left the tool change out",
    ),
    Rule::new(
        "AN-50",
        Refused,
        "a request has at most four cache marks",
        "removed the cache marks beyond four",
    ),
    Rule::new(
        "AN-51",
        Refused,
        "the lifetimes of cache marks do not grow from tools to system to messages",
        "lowered the lifetime",
    ),
    Rule::new(
        "AN-52",
        Refused,
        "no cache mark stands on thinking, an empty text or a tool that is loaded later",
        "removed the cache mark",
    ),
    Rule::new("AN-53", Cost, "a cache mark is at most 20 blocks after the one before", ""),
    Rule::new("AN-54", Cost, "a prefix shorter than the model's minimum is not kept", ""),
    Rule::new(
        "AN-55",
        Cost,
        "changed tools, system prompt, tool choice or thinking make what was kept useless",
        "",
    ),
    Rule::new(
        "AN-56",
        Cost,
        "a request without an answer fills the cache, if nothing in it asks for an answer",
        "",
    ),
    Rule::new("AN-57", Allowed, "diagnostics tell why the cache was missed", ""),
];
