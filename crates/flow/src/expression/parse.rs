//! Tokens into a tree. Chains of operators lie flat in it, so its depth is what the writer nested, and that is limited.

use scrollback_core::nearest::nearest_key;
use serde_json::Value;

use super::functions::ExprFunction;
use super::lex::{ExprToken, What, error, tokens};
use super::{ExpressionError, ExpressionErrorKind, LIMITS, Mention, number};
use crate::reference::FlowName;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Literal(Value),
    Name(FlowName),
    List(Vec<Expr>),
    /// A value, and the way to a part of it.
    Path(Box<Expr>, Vec<PathStep>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    /// `or`
    Any(Vec<Expr>),
    /// `and`
    All(Vec<Expr>),
    Compare(Box<Expr>, Comparison, Box<Expr>),
    /// A value, and what is done with it from left to right.
    Chain(Box<Expr>, Vec<(Arithmetic, Expr)>),
    Call(ExprFunction, Vec<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathStep {
    Member(Box<str>),
    Index(Expr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Roots as they are written.
pub(crate) const ROOTS: [&str; 8] =
    ["previous", "output", "input", "loop", "steps", "item", "index", "history"];
const WORDS: [&str; 7] = ["true", "false", "null", "and", "or", "not", "in"];

/// Reads an expression, and lists the names in it.
pub(super) fn parse(source: &str) -> Result<(Expr, Vec<Mention>), ExpressionError> {
    let length = source.chars().count();
    if length > LIMITS.characters {
        let most = LIMITS.characters;
        return Err(error(0, format!("an expression has at most {most} characters, and this one {length}")));
    }
    let tokens = tokens(source)?;
    let mut parser = ExprParser { tokens, next: 0, depth: 0, end: length, mentions: Vec::new() };
    if parser.peek().is_none() {
        return Err(error(0, "an expression is missing"));
    }
    let root = parser.or()?;
    match parser.peek() {
        None => Ok((root, parser.mentions)),
        Some(What::Sign("(")) => Err(error(
            parser.at(),
            "only functions are called, and by name: lower(output), not output.lower()",
        )),
        Some(what) => Err(error(parser.at(), format!("{} was not expected here", shown(what)))),
    }
}

struct ExprParser {
    tokens: Vec<ExprToken>,
    next: usize,
    depth: usize,
    /// Where the text ends.
    end: usize,
    mentions: Vec<Mention>,
}

type ExprResult = Result<Expr, ExpressionError>;

impl ExprParser {
    fn peek(&self) -> Option<&What> {
        self.tokens.get(self.next).map(|token| &token.what)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |token| token.at)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(What::Sign(next)) if *next == sign);
        self.next += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(What::Word(next)) if next == word);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), ExpressionError> {
        if self.take_sign(sign) {
            return Ok(());
        }
        let found = self.peek().map_or_else(|| "the end".into(), shown);
        Err(error(self.at(), format!("`{sign}` was expected, not {found}")))
    }

    /// One level deeper, as far as that is allowed.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> ExprResult) -> ExprResult {
        if self.depth >= LIMITS.nesting {
            return Err(error(self.at(), format!("nested deeper than {} levels", LIMITS.nesting)));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn or(&mut self) -> ExprResult {
        let mut parts = vec![self.and()?];
        while self.take_word("or") {
            parts.push(self.and()?);
        }
        Ok(alone(parts, Expr::Any))
    }

    fn and(&mut self) -> ExprResult {
        let mut parts = vec![self.not()?];
        while self.take_word("and") {
            parts.push(self.not()?);
        }
        Ok(alone(parts, Expr::All))
    }

    fn not(&mut self) -> ExprResult {
        if self.take_word("not") {
            return self.nested(|parser| Ok(Expr::Not(Box::new(parser.not()?))));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> ExprResult {
        let left = self.sum()?;
        let Some(comparison) = self.take_comparison() else { return Ok(left) };
        let right = self.sum()?;
        let at = self.at();
        if self.take_comparison().is_some() {
            return Err(error(at, "comparisons do not chain; write `a < b and b < c`"));
        }
        Ok(Expr::Compare(Box::new(left), comparison, Box::new(right)))
    }

    fn take_comparison(&mut self) -> Option<Comparison> {
        let signs = [
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            ("<", Comparison::Less),
            ("<=", Comparison::LessOrEqual),
            (">", Comparison::Greater),
            (">=", Comparison::GreaterOrEqual),
        ];
        if self.take_word("in") {
            return Some(Comparison::In);
        }
        let second = self.tokens.get(self.next + 1).map(|token| &token.what);
        if matches!(second, Some(What::Word(word)) if word == "in") && self.take_word("not") {
            self.next += 1;
            return Some(Comparison::NotIn);
        }
        signs.into_iter().find(|(sign, _)| self.take_sign(sign)).map(|(_, comparison)| comparison)
    }

    fn sum(&mut self) -> ExprResult {
        let signs = [("+", Arithmetic::Add), ("-", Arithmetic::Subtract)];
        self.chain(&signs, Self::product)
    }

    fn product(&mut self) -> ExprResult {
        let signs = [("*", Arithmetic::Multiply), ("/", Arithmetic::Divide), ("%", Arithmetic::Remainder)];
        self.chain(&signs, Self::unary)
    }

    fn chain(&mut self, signs: &[(&str, Arithmetic)], part: fn(&mut Self) -> ExprResult) -> ExprResult {
        let first = part(self)?;
        let mut rest = Vec::new();
        while let Some((_, sign)) = signs.iter().find(|(sign, _)| self.take_sign(sign)) {
            rest.push((*sign, part(self)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) })
    }

    fn unary(&mut self) -> ExprResult {
        if self.take_sign("-") {
            return self.nested(|parser| Ok(Expr::Negate(Box::new(parser.unary()?))));
        }
        self.path()
    }

    fn path(&mut self) -> ExprResult {
        let start = self.primary()?;
        let mut steps = Vec::new();
        loop {
            if self.take_sign(".") {
                steps.push(PathStep::Member(self.member()?.into()));
            } else if self.take_sign("[") {
                let index = self.nested(Self::or)?;
                self.expect("]")?;
                steps.push(PathStep::Index(index));
            } else {
                break;
            }
        }
        Ok(if steps.is_empty() { start } else { Expr::Path(Box::new(start), steps) })
    }

    /// The name after a dot.
    fn member(&mut self) -> Result<String, ExpressionError> {
        let at = self.at();
        match self.peek() {
            Some(What::Word(word)) => {
                let word = word.clone();
                self.next += 1;
                Ok(word)
            }
            Some(What::Number(_)) => Err(error(at, "an element is written in brackets: items[0]")),
            _ => Err(error(at, "a name was expected after the dot")),
        }
    }

    fn primary(&mut self) -> ExprResult {
        let at = self.at();
        let Some(what) = self.peek().cloned() else {
            return Err(error(at, "a value was expected, not the end"));
        };
        self.next += 1;
        match what {
            What::Text(text) => Ok(Expr::Literal(Value::String(text))),
            What::Number(text) => Ok(Expr::Literal(number::read(&text).unwrap_or(Value::Null))),
            What::Sign("(") => {
                let inner = self.nested(Self::or)?;
                self.expect(")")?;
                Ok(inner)
            }
            What::Sign("[") => self.nested(|parser| Ok(Expr::List(parser.items("]")?))),
            What::Word(word) => self.word(&word, at),
            What::Sign(sign) => Err(error(at, format!("a value was expected, not `{sign}`"))),
        }
    }

    /// Values between commas, up to the closing bracket.
    fn items(&mut self, close: &'static str) -> Result<Vec<Expr>, ExpressionError> {
        let mut items = Vec::new();
        while !self.take_sign(close) {
            items.push(self.or()?);
            if !self.take_sign(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }

    fn word(&mut self, word: &str, at: usize) -> ExprResult {
        match word {
            "true" => return Ok(Expr::Literal(Value::Bool(true))),
            "false" => return Ok(Expr::Literal(Value::Bool(false))),
            "null" => return Ok(Expr::Literal(Value::Null)),
            "and" | "or" | "in" => return Err(error(at, format!("a value was expected, not `{word}`"))),
            "not" => return Err(error(at, "`not` binds looser than this; put it in parentheses: (not x)")),
            _ => {}
        }
        if matches!(self.peek(), Some(What::Sign("("))) {
            return self.call(word, at);
        }
        let name = match word {
            "loop" => self.of_loop(at)?,
            "steps" => self.of_step(at)?,
            word => root(word).ok_or_else(|| unknown_root(word, at))?,
        };
        self.mentions.push(Mention { name: name.clone(), at });
        Ok(Expr::Name(name))
    }

    fn call(&mut self, word: &str, at: usize) -> ExprResult {
        let Some(function) = ExprFunction::named(word) else {
            let near = nearest_key(word, ExprFunction::ALL.iter().map(|function| function.name()));
            let known: Vec<&str> = ExprFunction::ALL.iter().map(|function| function.name()).collect();
            return Err(unknown(at, &format!("there is no function `{word}`"), near, &known));
        };
        let arguments = self.nested(|parser| {
            parser.next += 1;
            Ok(Expr::List(parser.items(")")?))
        })?;
        let Expr::List(arguments) = arguments else { return Ok(arguments) };
        let wanted = function.arguments();
        if arguments.len() != wanted.len() {
            let usage = format!("{}({})", function.name(), wanted.join(", "));
            return Err(error(
                at,
                format!("{usage} takes {}, not {}", counted(wanted.len()), arguments.len()),
            ));
        }
        function.check(&arguments).map_err(|problem| error(at, problem))?;
        Ok(Expr::Call(function, arguments))
    }

    /// `loop.input` or `loop.iteration`.
    fn of_loop(&mut self, at: usize) -> Result<FlowName, ExpressionError> {
        match self.constant_member()?.as_deref() {
            Some("input") => Ok(FlowName::LoopInput),
            Some("iteration") => Ok(FlowName::LoopIteration),
            other => Err(no_member(at, "loop", other, &["input", "iteration"])),
        }
    }

    /// `steps.NAME.output` or `steps.NAME.status`.
    fn of_step(&mut self, at: usize) -> Result<FlowName, ExpressionError> {
        let Some(step) = self.constant_member()? else {
            return Err(error(at, "a step is named: steps.NAME.output"));
        };
        match self.constant_member()?.as_deref() {
            Some("output") => Ok(FlowName::StepOutput(step.into())),
            Some("status") => Ok(FlowName::StepStatus(step.into())),
            other => Err(no_member(at, &format!("steps.{step}"), other, &["output", "status"])),
        }
    }

    /// `.name` or `['name']`, if that comes next.
    fn constant_member(&mut self) -> Result<Option<String>, ExpressionError> {
        if self.take_sign(".") {
            return self.member().map(Some);
        }
        if !self.take_sign("[") {
            return Ok(None);
        }
        let text = match self.peek() {
            Some(What::Text(text)) => text.clone(),
            _ => return Err(error(self.at(), "a name in quotes was expected")),
        };
        self.next += 1;
        self.expect("]")?;
        Ok(Some(text))
    }
}

/// One part is itself; several are what `join` makes of them.
fn alone(mut parts: Vec<Expr>, join: fn(Vec<Expr>) -> Expr) -> Expr {
    match (parts.pop(), parts.is_empty()) {
        (Some(only), true) => only,
        (Some(last), false) => {
            parts.push(last);
            join(parts)
        }
        (None, _) => Expr::Literal(Value::Null),
    }
}

/// What a word stands for, if it stands for something by itself.
pub(crate) fn root(word: &str) -> Option<FlowName> {
    match word {
        "previous" | "output" => Some(FlowName::Previous),
        "input" => Some(FlowName::Input),
        "item" => Some(FlowName::Item),
        "index" => Some(FlowName::Index),
        "history" => Some(FlowName::History),
        _ => None,
    }
}

fn unknown_root(word: &str, at: usize) -> ExpressionError {
    if let Some(function) = ExprFunction::named(word) {
        let usage = format!("{}({})", function.name(), function.arguments().join(", "));
        return unknown(at, &format!("`{word}` is a function; call it: {usage}"), None, &[]);
    }
    let near = nearest_key(word, ROOTS.into_iter().chain(WORDS));
    unknown(at, &format!("there is no `{word}` here; a text stands in quotes"), near, &ROOTS)
}

fn no_member(at: usize, of: &str, member: Option<&str>, known: &[&str]) -> ExpressionError {
    let message = match member {
        Some(member) => format!("`{of}` has no `{member}`"),
        None => format!("`{of}` is not a value by itself"),
    };
    unknown(at, &message, member.and_then(|member| nearest_key(member, known.iter().copied())), known)
}

fn unknown(at: usize, message: &str, near: Option<&str>, known: &[&str]) -> ExpressionError {
    let hint = match near {
        Some(near) => format!("; did you mean `{near}`?"),
        None if known.is_empty() => String::new(),
        None => format!(" (known: {})", known.join(", ")),
    };
    ExpressionError {
        kind: ExpressionErrorKind::UnknownName,
        message: format!("{message}{hint}"),
        at,
        suggestion: near.map(String::from),
    }
}

fn counted(number: usize) -> &'static str {
    match number {
        1 => "one argument",
        _ => "two arguments",
    }
}

fn shown(what: &What) -> String {
    match what {
        What::Word(word) => format!("`{word}`"),
        What::Text(_) => "a text".into(),
        What::Number(text) => format!("`{text}`"),
        What::Sign(sign) => format!("`{sign}`"),
    }
}
