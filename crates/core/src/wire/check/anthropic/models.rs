//! Which Claude models a rule holds for.

use crate::model::{ModelLine, ModelName};

/// Kind and version of a Claude model, where its name tells the version.
fn claude(model: &ModelName) -> Option<(&str, (u32, u32))> {
    let generation = model.generation()?;
    (generation.line == ModelLine::Claude && generation.version != (0, 0))
        .then_some((generation.variant, generation.version))
}

fn is_claude(model: &ModelName, holds: impl Fn(&str, (u32, u32)) -> bool) -> bool {
    claude(model).is_some_and(|(variant, version)| holds(variant, version))
}

/// The 4.6 generation and everything after it answers, but does not finish a sentence begun for it.
pub(super) fn refuses_prefill(model: &ModelName) -> bool {
    is_claude(model, |_, version| version >= (4, 6))
}

/// Models that let the caller begin the answer.
pub(super) fn takes_prefill(model: &ModelName) -> bool {
    is_claude(model, |_, version| version < (4, 6))
}

/// Models from before system messages could stand among the others.
pub(in crate::wire) fn refuses_system_messages(model: &ModelName) -> bool {
    is_claude(model, |variant, version| match variant {
        "fable" | "mythos" => false,
        "sonnet" => version < (5, 0),
        "haiku" => version < (5, 5),
        _ => version < (4, 8),
    })
}

/// Models whose signed thinking is bound to everything before it. Mythos records the binding and does not check it.
pub(super) fn binds_prefix(model: &ModelName) -> bool {
    is_claude(model, |variant, version| match variant {
        "fable" => version >= (5, 1),
        "opus" => version >= (5, 5),
        _ => false,
    })
}

/// Models that are shown the thinking of the last turn only.
pub(super) fn forgets_thinking(model: &ModelName) -> bool {
    is_claude(model, |variant, version| match variant {
        "opus" => version < (4, 5),
        "sonnet" => version < (4, 6),
        "haiku" => version <= (4, 5),
        _ => false,
    })
}

/// Whether `reader` is shown thinking that `writer` signed. Binding to a model begins with the models that bind the
/// prefix; blocks of Haiku 5.5 are portable, and Fable reads Opus, but not the other way round.
pub(super) fn reads_thinking(reader: &ModelName, writer: &ModelName) -> bool {
    let (Some(to), Some(from)) = (claude(reader), claude(writer)) else { return true };
    if to == from || from == ("haiku", (5, 5)) {
        return true;
    }
    if to.0 == "fable" && to.1 >= (5, 1) {
        return match from {
            ("opus", (5, 0)) => true,
            ("opus", (5, 5)) => reader.provider() == crate::model::Provider::Anthropic,
            _ => false,
        };
    }
    !binds_prefix(reader) && !binds_prefix(writer)
}

/// The shortest prefix a model keeps in its cache, in tokens; the smaller number where sources disagree.
pub(super) fn least_cached_prefix(model: &ModelName) -> Option<usize> {
    let (variant, version) = claude(model)?;
    Some(match (variant, version) {
        ("sonnet", (5, 0) | (4, 5 | 6)) | ("opus", (4, 8)) => 1024,
        (_, (5, _)) => 512,
        ("opus", (4, 7)) => 2048,
        ("opus", (4, 5 | 6)) | ("haiku", (4, 5)) => 4096,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn model(name: &str) -> ModelName {
        ModelName::parse(name).unwrap()
    }

    #[test]
    fn gates_follow_generation_not_provider() {
        assert!(refuses_prefill(&model("anthropic:claude-opus-4-6")));
        assert!(refuses_prefill(&model("bedrock:us.anthropic.claude-opus-4-6-v1:0")));
        assert!(takes_prefill(&model("anthropic:claude-haiku-4-5")));
        assert!(refuses_system_messages(&model("anthropic:claude-opus-4-7")));
        assert!(refuses_system_messages(&model("anthropic:claude-sonnet-4-6")));
        for name in [
            "claude-opus-4-8@20260528",
            "claude-opus-5",
            "claude-sonnet-5",
            "claude-fable-5",
            "claude-haiku-5-5",
        ] {
            assert!(!refuses_system_messages(&model(&format!("anthropic:{name}"))), "{name}");
        }
        assert!(binds_prefix(&model("anthropic:claude-fable-5-2")));
        assert!(!binds_prefix(&model("anthropic:claude-fable-5")));
        assert!(!binds_prefix(&model("anthropic:claude-mythos-5-1")));
        assert!(!binds_prefix(&model("offline:echo")));
    }

    #[test]
    fn fable_reads_opus_and_opus_does_not_read_fable() {
        let (fable, opus) = (model("anthropic:claude-fable-5-1"), model("anthropic:claude-opus-5-5"));
        assert!(reads_thinking(&fable, &opus));
        assert!(!reads_thinking(&opus, &fable));
        assert!(!reads_thinking(&model("bedrock:anthropic.claude-fable-5-1"), &opus));
        assert!(reads_thinking(&opus, &model("anthropic:claude-haiku-5-5")));
        assert!(reads_thinking(&model("anthropic:claude-opus-4-5"), &model("anthropic:claude-sonnet-4-5")));
    }
}
