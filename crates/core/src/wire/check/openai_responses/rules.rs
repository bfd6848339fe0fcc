//! The table of the rules.

use super::super::Severity::{Allowed, Quality, Refused};
use super::super::{Gate, Rule};
use crate::model::{ModelLine, ModelName};

/// The rules, in order.
pub(in super::super) const RULES: &[Rule] = &[
    Rule::new(
        "OR-1",
        Refused,
        "every call, also one the server holds, has its output before the model goes on",
        "gave the call its output, an interrupted one where there was none",
    ),
    Rule::new("OR-2", Refused, "every output has its call in the context", "left the output out"),
    Rule::new("OR-3", Allowed, "call and output pair by call_id; messages may stand between them", ""),
    Rule::new(
        "OR-4",
        Refused,
        "a reasoning item is followed by the item it produced",
        "left the reasoning item out",
    ),
    Rule::new(
        "OR-5",
        Refused,
        "an item made after reasoning is not sent with its id but without that reasoning",
        "dropped the id of the item",
    )
    .only(REASONING),
    Rule::new("OR-5r", Allowed, "an item without an id is linked to no reasoning and needs none", "")
        .unverified(),
    Rule::new("OR-6", Refused, "a reasoning item has a summary, if only an empty one", "added `summary: []`"),
    Rule::new(
        "OR-7",
        Refused,
        "no id appears twice, neither in the input nor in what the server holds",
        "left the second of the items out",
    ),
    Rule::new(
        "OR-8",
        Refused,
        "with `store: false` items are sent themselves, not by their id alone",
        "left the item out",
    ),
    Rule::new(
        "OR-9",
        Refused,
        "encrypted_content goes back whole and unchanged, to the organization it came from",
        "left the item out, and dropped the ids of the items made after it",
    ),
    Rule::new("OR-10", Quality, "encrypted_content is taken from the finished item", ""),
    Rule::new(
        "OR-11",
        Refused,
        "a call_id has at most 64 characters",
        "mapped the id to a shorter one with a hash suffix, on the call and its output",
    ),
    Rule::new(
        "OR-12",
        Refused,
        "previous_response_id and conversation exclude each other, and neither hands instructions on",
        "left the conversation out",
    ),
    Rule::new(
        "OR-13",
        Refused,
        "previous_response_id does not name the response of a compaction",
        "left previous_response_id out",
    ),
    Rule::new("OR-14", Quality, "a compaction item is kept as it came, with its encrypted_content", ""),
    Rule::new("OR-15", Refused, "a compaction_trigger is the last item", "left the compaction_trigger out"),
    Rule::new("OR-16", Quality, "an assistant message keeps its phase", "").only(PHASES),
    Rule::new("OR-17", Quality, "the tool loop that is under way keeps its reasoning", ""),
    Rule::new(
        "OR-18",
        Refused,
        "an id of one's own cannot be mistaken for one of the provider's",
        "dropped the id of the item",
    ),
    Rule::new("OR-19", Refused, "the input fits into the window, or is cut from the front if asked", ""),
    Rule::new(
        "OR-20",
        Refused,
        "metadata has at most 16 pairs of 64 and 512 characters, a safety_identifier at most 128",
        "kept what fits",
    ),
    Rule::new(
        "OR-21",
        Refused,
        "at most 20 items are put into a conversation at once",
        "kept the first 20 items",
    ),
    Rule::new(
        "OR-22",
        Refused,
        "encrypted reasoning is not asked of a response that is kept",
        "no longer asked for encrypted reasoning",
    ),
];

/// Models that reason.
const REASONING: Gate = Gate { models: "o1, o3, o4, gpt-5 and later", holds: reasons };

/// Models that tell comments from answers.
const PHASES: Gate = Gate { models: "gpt-5.3-codex and later", holds: has_phases };

fn reasons(model: &ModelName) -> bool {
    model.generation().is_some_and(|generation| match generation.line {
        ModelLine::OpenAiReasoning => true,
        ModelLine::Gpt => generation.version >= (5, 0),
        _ => false,
    })
}

/// Whether a model begins every answer to a user with reasoning, however little it is asked to think: later ones
/// do not.
pub(super) fn always_reasons(model: &ModelName) -> bool {
    model.generation().is_some_and(|generation| match generation.line {
        ModelLine::OpenAiReasoning => true,
        ModelLine::Gpt => generation.version == (5, 0) && generation.variant != "chat",
        _ => false,
    })
}

fn has_phases(model: &ModelName) -> bool {
    model.generation().is_some_and(|generation| {
        generation.line == ModelLine::Gpt
            && (generation.version > (5, 3) || generation.version == (5, 3) && generation.variant == "codex")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn gates_open_for_the_models_they_name() {
        let cases = [
            // name, reasons, always, phases
            ("openai:gpt-4o", false, false, false),
            ("openai:gpt-4.1-mini", false, false, false),
            ("openai:o1", true, true, false),
            ("openai:o4-mini-2025-04-16", true, true, false),
            ("openai:gpt-5", true, true, false),
            ("openai:gpt-5-2025-08-07", true, true, false),
            ("openai:gpt-5-chat-latest", true, false, false),
            ("openai:gpt-5.1", true, false, false),
            ("openai:gpt-5.2-codex", true, false, false),
            ("openai:gpt-5.3-codex", true, false, true),
            ("openai:gpt-5.4", true, false, true),
            ("openai:gpt-6", true, false, true),
            ("anthropic:claude-opus-5", false, false, false),
        ];
        for (name, reasoning, always, phases) in cases {
            let model = ModelName::parse(name).unwrap();
            assert_eq!(
                (reasons(&model), always_reasons(&model), has_phases(&model)),
                (reasoning, always, phases),
                "{name}"
            );
        }
    }
}
