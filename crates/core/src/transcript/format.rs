//! Which tool a transcript is of, and the one way to read any of them.

use super::{
    Transcript, TranscriptError, atif, bfcl, cassette, claude_code, codex, goose, inspect, langchain,
    openai_finetune, openhands, sharegpt, strands, swe_agent, tau_bench, traces,
};

/// A transcript format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Claude Code sessions: JSON lines, a tree.
    ClaudeCode,
    /// Codex rollouts: JSON lines.
    Codex,
    /// `LangChain` messages as dictionaries or constructors.
    Langchain,
    /// Messages of a Strands session.
    Strands,
    /// Training examples for `OpenAI` fine-tuning: JSON lines.
    OpenaiFinetune,
    /// `ShareGPT` conversations.
    Sharegpt,
    /// goose sessions: JSON lines.
    Goose,
    /// Runs of tau-bench.
    TauBench,
    /// Trajectories of SWE-agent.
    SweAgent,
    /// Events of `OpenHands`.
    Openhands,
    /// Logs of Inspect.
    Inspect,
    /// Multi-turn scripts of BFCL.
    Bfcl,
    /// Recorded HTTP.
    Cassette,
    /// Trajectories in ATIF.
    Atif,
    /// Spans of model calls: `OpenInference`, `OpenTelemetry`.
    Traces,
}

impl Format {
    /// Every format there is.
    pub const ALL: [Format; 15] = [
        Format::ClaudeCode,
        Format::Codex,
        Format::Goose,
        Format::Langchain,
        Format::Strands,
        Format::Sharegpt,
        Format::OpenaiFinetune,
        Format::TauBench,
        Format::SweAgent,
        Format::Openhands,
        Format::Inspect,
        Format::Bfcl,
        Format::Cassette,
        Format::Atif,
        Format::Traces,
    ];

    /// Its name on the command line and in every output.
    pub fn name(self) -> &'static str {
        match self {
            Format::ClaudeCode => "claude-code",
            Format::Codex => "codex",
            Format::Langchain => "langchain",
            Format::Strands => "strands",
            Format::OpenaiFinetune => "openai-finetune",
            Format::Sharegpt => "sharegpt",
            Format::Goose => "goose",
            Format::TauBench => "tau-bench",
            Format::SweAgent => "swe-agent",
            Format::Openhands => "openhands",
            Format::Inspect => "inspect",
            Format::Bfcl => "bfcl",
            Format::Cassette => "cassette",
            Format::Atif => "atif",
            Format::Traces => "traces",
        }
    }

    /// The format of that name.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    fn looks_like(self, text: &str) -> bool {
        match self {
            Format::ClaudeCode => claude_code::looks_like(text),
            Format::Codex => codex::looks_like(text),
            Format::Langchain => langchain::looks_like(text),
            Format::Strands => strands::looks_like(text),
            Format::OpenaiFinetune => openai_finetune::looks_like(text),
            Format::Sharegpt => sharegpt::looks_like(text),
            Format::Goose => goose::looks_like(text),
            Format::TauBench => tau_bench::looks_like(text),
            Format::SweAgent => swe_agent::looks_like(text),
            Format::Openhands => openhands::looks_like(text),
            Format::Inspect => inspect::looks_like(text),
            Format::Bfcl => bfcl::looks_like(text),
            Format::Cassette => cassette::looks_like(text),
            Format::Atif => atif::looks_like(text),
            Format::Traces => traces::looks_like(text),
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The format a text is written in, by its shape; none for a request body or a bare list of messages of any wire.
pub fn detect(text: &str) -> Option<Format> {
    Format::ALL.into_iter().find(|format| format.looks_like(text))
}

/// Reads a transcript of that format, or of the one it looks like.
///
/// ```
/// use scrollback_core::transcript;
/// let text = r#"[{"task_id": 3, "trial": 0, "reward": 1.0, "traj": [{"role": "user", "content": "hello"}]}]"#;
/// let transcript = transcript::read(None, text)?;
/// assert_eq!(transcript.conversations[0].id.as_deref(), Some("3/0"));
/// assert_eq!(transcript.conversations[0].entries[0].origin.raw.as_ref(), r#"{"role": "user", "content": "hello"}"#);
/// # Ok::<(), transcript::TranscriptError>(())
/// ```
pub fn read(format: Option<Format>, text: &str) -> Result<Transcript, TranscriptError> {
    let Some(format) = format.or_else(|| detect(text)) else {
        let known: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        let problem =
            format!("not a transcript of a known format; name it if it is one of {}", known.join(", "));
        return Err(TranscriptError { line: 0, byte: 0, problem });
    };
    match format {
        Format::ClaudeCode => claude_code::read(text),
        Format::Codex => codex::read(text),
        Format::Langchain => langchain::read(text),
        Format::Strands => strands::read(text),
        Format::OpenaiFinetune => openai_finetune::read(text),
        Format::Sharegpt => sharegpt::read(text),
        Format::Goose => goose::read(text),
        Format::TauBench => tau_bench::read(text),
        Format::SweAgent => swe_agent::read(text),
        Format::Openhands => openhands::read(text),
        Format::Inspect => inspect::read(text),
        Format::Bfcl => bfcl::read(text),
        Format::Cassette => cassette::read(text),
        Format::Atif => atif::read(text),
        Format::Traces => traces::read(text),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const FIXTURES: [(Format, &str); 12] = [
        (Format::TauBench, include_str!("../../../../corpus/transcript/tau-bench/runs.json")),
        (Format::SweAgent, include_str!("../../../../corpus/transcript/swe-agent/two_agents.traj")),
        (Format::Openhands, include_str!("../../../../corpus/transcript/openhands/output.jsonl")),
        (Format::Openhands, include_str!("../../../../corpus/transcript/openhands/events.json")),
        (Format::Inspect, include_str!("../../../../corpus/transcript/inspect/log.json")),
        (Format::Bfcl, include_str!("../../../../corpus/transcript/bfcl/script.jsonl")),
        (Format::Bfcl, include_str!("../../../../corpus/transcript/bfcl/answer.jsonl")),
        (Format::Cassette, include_str!("../../../../corpus/transcript/cassette/chat.yaml")),
        (Format::Cassette, include_str!("../../../../corpus/transcript/cassette/other_wires.yaml")),
        (Format::Atif, include_str!("../../../../corpus/transcript/atif/trajectory.json")),
        (Format::Traces, include_str!("../../../../corpus/transcript/traces/openinference.json")),
        (Format::Traces, include_str!("../../../../corpus/transcript/traces/genai.json")),
    ];

    #[test]
    fn every_fixture_is_of_exactly_one_format() {
        for (format, text) in FIXTURES {
            let matching: Vec<_> = Format::ALL.into_iter().filter(|format| format.looks_like(text)).collect();
            assert_eq!(matching, [format]);
            assert_eq!(detect(text), Some(format));
        }
    }

    #[test]
    fn names_are_unique_and_found_again() {
        for format in Format::ALL {
            assert_eq!(Format::named(format.name()), Some(format));
        }
        assert_eq!(Format::named("tau"), None);
    }

    #[test]
    fn requests_and_bare_lists_of_every_wire_are_no_transcripts() {
        for text in [
            "[]",
            r#"[{"role":"user","content":"hi"}]"#,
            r#"[{"role":"user","content":"\"action\" \"traj\" \"samples\""}]"#,
            r#"{"messages":[{"role":"user","content":"hi"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[]}"#,
            r#"{"system":"s","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#,
            r#"{"model":"m","input":"hi","instructions":"s"}"#,
            r#"{"input":[{"type":"message","role":"user","content":"hi"}]}"#,
            r#"[{"type":"local_shell_call","call_id":"c","action":{"type":"exec"}}]"#,
            r#"[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]"#,
            r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#,
            r#"[{"role":"user","parts":[{"text":"hi"}]}]"#,
            r#"{"system":[{"text":"s"}],"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#,
            r#"{"scrollback":1,"entries":[]}"#,
            "hello",
            "",
        ] {
            assert_eq!(detect(text), None, "{text}");
            assert!(read(None, text).unwrap_err().problem.contains("cassette"), "{text}");
        }
    }

    #[test]
    fn no_beginning_of_a_fixture_and_no_other_format_makes_a_reader_panic() {
        for (_, text) in FIXTURES {
            for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)).step_by(7) {
                let start = text.get(..cut).unwrap();
                let _ = detect(start);
                for format in Format::ALL {
                    let _ = read(Some(format), start);
                }
            }
        }
    }
}
