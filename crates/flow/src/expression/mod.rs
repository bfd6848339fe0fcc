//! Expressions: what `when`, `exit_expression`, `condition_expression` and `over` are written in.
//!
//! Total: an expression that can be read has a value whatever the data. What is missing, does not fit or overflows is
//! null, and so is what takes more than 100,000 operations.

mod eval;
mod functions;
mod lex;
mod number;
mod parse;
mod value;

use std::fmt;

use serde_json::Value;

pub(crate) use parse::{ROOTS, root};

use crate::reference::{FlowName, Names};
pub use value::{as_text, is_true};

/// How far expressions may go.
pub(crate) struct ExpressionLimits {
    /// Longest text: longer ones belong into a step.
    pub characters: usize,
    /// Deepest nesting: keeps reading and evaluation off the end of the stack.
    pub nesting: usize,
    /// Most operations of one evaluation: a fraction of a second whatever the data.
    pub operations: u64,
}

pub(crate) const LIMITS: ExpressionLimits =
    ExpressionLimits { characters: 2048, nesting: 32, operations: 100_000 };

/// An expression that was read.
///
/// ```
/// use std::borrow::Cow;
/// use scrollback_flow::{Expression, FlowName, Names};
/// use serde_json::{Value, json};
///
/// struct Said(Value);
/// impl Names for Said {
///     fn value(&self, name: &FlowName) -> Option<Cow<'_, Value>> {
///         (*name == FlowName::Previous).then_some(Cow::Borrowed(&self.0))
///     }
/// }
///
/// let done = Expression::parse("contains(lower(output), 'done') or len(output) > 100")?;
/// assert_eq!(done.eval(&Said(json!("All DONE."))).value, json!(true));
/// assert_eq!(done.eval(&Said(json!(["no", "text"]))).value, json!(false));
/// # Ok::<(), scrollback_flow::ExpressionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    source: Box<str>,
    root: parse::Expr,
    mentions: Vec<Mention>,
}

/// A name in an expression or template, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The name.
    pub name: FlowName,
    /// Its first character, from 0.
    pub at: usize,
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// The value; null if the limit was reached.
    pub value: Value,
    /// Whether it took more operations than are allowed: event `expression.limit`.
    pub limit_reached: bool,
}

impl Evaluated {
    /// Whether the value counts as true.
    pub fn is_true(&self) -> bool {
        is_true(&self.value)
    }
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// Which kind it is.
    pub kind: ExpressionErrorKind,
    /// What is wrong, and what to do.
    pub message: String,
    /// The character it is at, from 0.
    pub at: usize,
    /// The word that was probably meant.
    pub suggestion: Option<String>,
}

/// The kinds of [`ExpressionError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpressionErrorKind {
    /// It does not follow the grammar, or is too long or too deep.
    Syntax,
    /// A name or function that there is not.
    UnknownName,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExpressionError {}

impl Expression {
    /// Reads an expression.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        let (root, mentions) = parse::parse(source)?;
        Ok(Expression { source: source.into(), root, mentions })
    }

    /// The expression `null`.
    pub(crate) fn null() -> Self {
        Expression { source: "null".into(), root: parse::Expr::Literal(Value::Null), mentions: Vec::new() }
    }

    /// Its value where names stand for this.
    pub fn eval(&self, names: &dyn Names) -> Evaluated {
        eval::eval(&self.root, names)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// The names in it, in order.
    pub fn mentions(&self) -> &[Mention] {
        &self.mentions
    }
}
