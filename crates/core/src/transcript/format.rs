//! The formats by name, and which of them a text is written in.

use super::{
    Transcript, TranscriptError, claude_code, codex, goose, langchain, openai_finetune, sharegpt, strands,
};

/// What another tool writes its conversations in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Sessions of Claude Code, JSON lines.
    ClaudeCode,
    /// Rollouts of Codex, JSON lines.
    Codex,
    /// Messages of `LangChain`, as dictionaries or constructors.
    Langchain,
    /// Training examples for `OpenAI` models, JSON lines.
    OpenaiFinetune,
    /// `ShareGPT` conversations, a list or JSON lines.
    Sharegpt,
    /// Sessions of goose, JSON lines.
    Goose,
    /// Messages of a Strands session in one list.
    Strands,
}

type LooksLike = fn(&str) -> bool;
type Read = fn(&str) -> Result<Transcript, TranscriptError>;

impl Format {
    /// Every format there is, the ones with the plainest marks first.
    pub const ALL: [Format; 7] = [
        Format::ClaudeCode,
        Format::Codex,
        Format::Goose,
        Format::Langchain,
        Format::Strands,
        Format::Sharegpt,
        Format::OpenaiFinetune,
    ];

    fn row(self) -> (&'static str, LooksLike, Read) {
        match self {
            Format::ClaudeCode => ("claude-code", claude_code::looks_like, claude_code::read),
            Format::Codex => ("codex", codex::looks_like, codex::read),
            Format::Langchain => ("langchain", langchain::looks_like, langchain::read),
            Format::OpenaiFinetune => ("openai-finetune", openai_finetune::looks_like, openai_finetune::read),
            Format::Sharegpt => ("sharegpt", sharegpt::looks_like, sharegpt::read),
            Format::Goose => ("goose", goose::looks_like, goose::read),
            Format::Strands => ("strands", strands::looks_like, strands::read),
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The format of that name.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// The format a text is written in, by its shape.
pub fn detect(text: &str) -> Option<Format> {
    Format::ALL.into_iter().find(|format| (format.row().1)(text))
}

/// Reads a transcript of that format, or of the one it looks like.
pub fn read(format: Option<Format>, text: &str) -> Result<Transcript, TranscriptError> {
    let Some(format) = format.or_else(|| detect(text)) else {
        let known: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        let problem =
            format!("not a transcript of a known format; name it if it is one of {}", known.join(", "));
        return Err(TranscriptError { line: 0, byte: 0, problem });
    };
    (format.row().2)(text)
}
