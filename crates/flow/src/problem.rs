//! What is wrong with a flow, or doubtful about it.

use std::fmt;

use scrollback_agent::document::{self, TextPosition};
use serde::Serialize;

/// One mistake, or one doubt, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowProblem {
    /// Which kind it is.
    pub code: Code,
    /// What is wrong, and what to do.
    pub message: String,
    /// Where, as names and numbers: `steps[1].loop.body`.
    pub path: String,
    /// Where in the text.
    pub at: TextPosition,
    /// The word that was probably meant.
    pub suggestion: Option<String>,
}

/// Why a text is no flow: at least one error, and the warnings there are besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// What must be changed, in the order of the text.
    pub errors: Vec<FlowProblem>,
    /// What should be looked at.
    pub warnings: Vec<FlowProblem>,
}

/// The kinds of problems: errors first, then warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The text is no YAML document that a flow can be.
    YamlSyntax,
    /// A key appears twice in one map.
    DuplicateKey,
    /// There is no such key here.
    UnknownKey,
    /// A key that is needed is not there.
    MissingKey,
    /// A value of another kind was expected.
    WrongType,
    /// A value is too small, too large, too long or too short.
    OutOfRange,
    /// There is no such kind of step.
    UnknownKind,
    /// A word that is not one of those expected.
    UnknownValue,
    /// Two steps have one name.
    DuplicateName,
    /// There is no such agent.
    UnknownAgent,
    /// There is no such step, or not here.
    UnknownStep,
    /// An expression cannot be read.
    ExpressionSyntax,
    /// A template cannot be read.
    TemplateSyntax,
    /// A name in an expression or template means nothing here.
    UnknownName,
    /// A JSON Schema that is not valid.
    BadSchema,
    /// The key means something in conversational loops only.
    NeedsConversation,
    /// Two keys exclude each other.
    ConflictingKeys,
    /// A cost is limited, and a model's price is not known.
    NoPrice,
    /// A key or token is written in the flow.
    SecretInFlow,
    /// A step names no agent and gets the configured default.
    DefaultAgent,
    /// `use_history` is true where there is no conversation.
    NoConversation,
    /// A history template that no agent will be sent.
    TemplateUnused,
    /// The last step of a loop makes no turn.
    LastNotAgent,
    /// The last step of a loop may be skipped.
    LastMaySkip,
    /// A field that has no effect.
    UnusedField,
    /// A step was chosen for both roles.
    TwoRoles,
}

impl Code {
    /// Every code, in the order above.
    pub const ALL: [Code; 26] = [
        Code::YamlSyntax,
        Code::DuplicateKey,
        Code::UnknownKey,
        Code::MissingKey,
        Code::WrongType,
        Code::OutOfRange,
        Code::UnknownKind,
        Code::UnknownValue,
        Code::DuplicateName,
        Code::UnknownAgent,
        Code::UnknownStep,
        Code::ExpressionSyntax,
        Code::TemplateSyntax,
        Code::UnknownName,
        Code::BadSchema,
        Code::NeedsConversation,
        Code::ConflictingKeys,
        Code::NoPrice,
        Code::SecretInFlow,
        Code::DefaultAgent,
        Code::NoConversation,
        Code::TemplateUnused,
        Code::LastNotAgent,
        Code::LastMaySkip,
        Code::UnusedField,
        Code::TwoRoles,
    ];

    /// The word programs act on.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::YamlSyntax => "yaml_syntax",
            Code::DuplicateKey => "duplicate_key",
            Code::UnknownKey => "unknown_key",
            Code::MissingKey => "missing_key",
            Code::WrongType => "wrong_type",
            Code::OutOfRange => "out_of_range",
            Code::UnknownKind => "unknown_kind",
            Code::UnknownValue => "unknown_value",
            Code::DuplicateName => "duplicate_name",
            Code::UnknownAgent => "unknown_agent",
            Code::UnknownStep => "unknown_step",
            Code::ExpressionSyntax => "expression_syntax",
            Code::TemplateSyntax => "template_syntax",
            Code::UnknownName => "unknown_name",
            Code::BadSchema => "bad_schema",
            Code::NeedsConversation => "needs_conversation",
            Code::ConflictingKeys => "conflicting_keys",
            Code::NoPrice => "no_price",
            Code::SecretInFlow => "secret_in_flow",
            Code::DefaultAgent => "default_agent",
            Code::NoConversation => "no_conversation",
            Code::TemplateUnused => "template_unused",
            Code::LastNotAgent => "last_not_agent",
            Code::LastMaySkip => "last_may_skip",
            Code::UnusedField => "unused_field",
            Code::TwoRoles => "two_roles",
        }
    }

    /// Whether a flow with it can be run all the same.
    pub const fn is_warning(self) -> bool {
        matches!(
            self,
            Code::DefaultAgent
                | Code::NoConversation
                | Code::TemplateUnused
                | Code::LastNotAgent
                | Code::LastMaySkip
                | Code::UnusedField
                | Code::TwoRoles
        )
    }
}

impl From<document::DocumentProblem> for FlowProblem {
    fn from(problem: document::DocumentProblem) -> Self {
        let known = Code::ALL.into_iter().find(|code| code.as_str() == problem.code);
        FlowProblem {
            code: known.unwrap_or(Code::UnknownValue),
            message: problem.message,
            path: problem.path,
            at: problem.at,
            suggestion: problem.suggestion,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for FlowProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.at.line, self.at.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} [{}]", self.message, self.code)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.errors.iter().enumerate() {
            let line = if number == 0 { "" } else { "\n" };
            write!(f, "{line}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
