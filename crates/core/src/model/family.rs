//! Families and versions of models, read from their names, for rules that hold only for some.

use super::{ModelName, Provider};

/// What the name of a model tells about its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation<'a> {
    /// Whose model it is.
    pub(crate) line: ModelLine,
    /// The word beside the line's own: `opus`, `sonnet`, `codex`, `flash`; empty if none.
    pub(crate) variant: &'a str,
    /// Major and minor version.
    pub(crate) version: (u32, u32),
}

/// A line of models that share rules, wherever they are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelLine {
    Claude,
    Gpt,
    /// `o1`, `o3`, `o4`.
    OpenAiReasoning,
    Gemini,
    Llama,
    Mistral,
    Qwen,
}

impl ModelName {
    /// The generation, where the name says it: `bedrock:us.anthropic.claude-opus-4-6-v1:0` is Claude Opus 4.6.
    pub(crate) fn generation(&self) -> Option<Generation<'_>> {
        let name = self.model();
        let name = name.rsplit('/').next().unwrap_or(name);
        let line = if name.contains("claude") {
            ModelLine::Claude
        } else if name.contains("gpt-") {
            ModelLine::Gpt
        } else if name.contains("gemini-") {
            ModelLine::Gemini
        } else if name.contains("llama") {
            ModelLine::Llama
        } else if name.contains("mistral") || name.contains("mixtral") || name.contains("ministral") {
            ModelLine::Mistral
        } else if name.contains("qwen") {
            ModelLine::Qwen
        } else if matches!(self.provider(), Provider::OpenAi | Provider::OpenAiCompatible)
            && name.starts_with(['o'])
            && name.chars().nth(1).is_some_and(|c| c.is_ascii_digit())
        {
            ModelLine::OpenAiReasoning
        } else {
            return None;
        };
        let (mut version, mut variant) = (None, "");
        for word in name.split(['-', ':', '@']) {
            let digits = word.strip_prefix(['o', 'v']).unwrap_or(word);
            let mut numbers = digits.split('.').map(str::parse::<u32>);
            match (numbers.next(), numbers.next(), version) {
                // A date such as 20250929 is no version, nor are the month and day of 2025-09-29.
                (Some(Ok(100..)), ..) => break,
                (Some(Ok(major)), minor, None) if !word.starts_with('v') => {
                    version = Some((major, minor.and_then(Result::ok)));
                }
                (Some(Ok(minor)), None, Some((major, None))) if !word.starts_with('v') => {
                    version = Some((major, Some(minor)));
                }
                _ if KNOWN_VARIANTS.contains(&word) && variant.is_empty() => variant = word,
                _ => {}
            }
        }
        let version = version.map_or((0, 0), |(major, minor)| (major, minor.unwrap_or(0)));
        Some(Generation { line, variant, version })
    }
}

impl ModelName {
    /// Whether its provider signs reasoning over everything that came before it: from Fable 5.1 and Opus 5.5 on.
    pub(crate) fn binds_reasoning(&self) -> bool {
        self.generation().is_some_and(|generation| {
            generation.line == ModelLine::Claude
                && match generation.variant {
                    "fable" => generation.version >= (5, 1),
                    "opus" => generation.version >= (5, 5),
                    _ => generation.version > (5, 5),
                }
        })
    }
}

/// Words in model names that tell siblings apart.
const KNOWN_VARIANTS: [&str; 13] = [
    "opus", "sonnet", "haiku", "fable", "mythos", "codex", "mini", "nano", "pro", "flash", "lite", "chat",
    "instant",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_tell_line_variant_and_version() {
        let cases = [
            ("anthropic:claude-opus-4-6", ModelLine::Claude, "opus", (4, 6)),
            ("anthropic:claude-sonnet-4-5-20250929", ModelLine::Claude, "sonnet", (4, 5)),
            ("anthropic:claude-3-5-sonnet-20241022", ModelLine::Claude, "sonnet", (3, 5)),
            ("anthropic:claude-sonnet-4-20250514", ModelLine::Claude, "sonnet", (4, 0)),
            ("anthropic:claude-opus-5", ModelLine::Claude, "opus", (5, 0)),
            ("anthropic:claude-fable-5-1", ModelLine::Claude, "fable", (5, 1)),
            ("anthropic:claude-opus-4-8@20260528", ModelLine::Claude, "opus", (4, 8)),
            ("bedrock:us.anthropic.claude-haiku-4-5-20251001-v1:0", ModelLine::Claude, "haiku", (4, 5)),
            ("openai:gpt-5.3-codex", ModelLine::Gpt, "codex", (5, 3)),
            ("openai:gpt-5-mini", ModelLine::Gpt, "mini", (5, 0)),
            ("openai:gpt-5-2025-08-07", ModelLine::Gpt, "", (5, 0)),
            ("openai:o4-mini-2025-04-16", ModelLine::OpenAiReasoning, "mini", (4, 0)),
            ("openai:o3-mini", ModelLine::OpenAiReasoning, "mini", (3, 0)),
            ("gemini:gemini-3-pro-preview", ModelLine::Gemini, "pro", (3, 0)),
            ("gemini:gemini-2.5-flash", ModelLine::Gemini, "flash", (2, 5)),
            ("bedrock:meta.llama3-1-70b-instruct-v1:0", ModelLine::Llama, "", (1, 0)),
            ("bedrock:mistral.mistral-large-2402-v1:0", ModelLine::Mistral, "", (0, 0)),
        ];
        for (name, line, variant, version) in cases {
            let model = ModelName::parse(name).unwrap();
            assert_eq!(model.generation(), Some(Generation { line, variant, version }), "{name}");
        }
        assert_eq!(ModelName::parse("offline:echo").unwrap().generation(), None);
    }
}
