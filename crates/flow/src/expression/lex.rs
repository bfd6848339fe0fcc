//! Expressions into tokens.

use super::{ExpressionError, ExpressionErrorKind};

/// A token and the character it begins at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExprToken {
    pub(super) what: What,
    pub(super) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// A name, a word such as `and`, or a function's name.
    Word(String),
    /// A text between quotes.
    Text(String),
    /// A number, as written.
    Number(String),
    /// An operator or bracket.
    Sign(&'static str),
}

/// Signs, longer ones before their beginnings.
const SIGNS: [&str; 18] =
    ["==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", ".", "="];

/// What people write for our operators in other languages.
const FOREIGN: [(&str, &str); 5] = [("&&", "and"), ("||", "or"), ("===", "=="), ("!", "not"), ("=", "==")];

pub(super) fn error(at: usize, message: impl Into<String>) -> ExpressionError {
    ExpressionError { kind: ExpressionErrorKind::Syntax, message: message.into(), at, suggestion: None }
}

pub(super) fn tokens(source: &str) -> Result<Vec<ExprToken>, ExpressionError> {
    let chars: Vec<char> = source.chars().collect();
    let mut found: Vec<ExprToken> = Vec::new();
    let mut at = 0;
    while let Some(&first) = chars.get(at) {
        if first.is_whitespace() {
            at += 1;
            continue;
        }
        let rest = chars.get(at..).unwrap_or_default();
        let (what, length) = match first {
            '\'' | '"' => text(rest, first, at)?,
            '0'..='9' => number(rest, at)?,
            c if is_word_start(c) => {
                // `steps.my-step.output`: the name of a step may have hyphens, and nothing is subtracted from a step.
                let hyphens = names_a_step(&found);
                let length = rest.iter().take_while(|c| is_word(**c) || (hyphens && **c == '-')).count();
                (What::Word(rest.iter().take(length).collect()), length)
            }
            _ => sign(rest, at)?,
        };
        found.push(ExprToken { what, at });
        at += length;
    }
    Ok(found)
}

/// Whether the tokens so far end in `steps.`
fn names_a_step(found: &[ExprToken]) -> bool {
    let mut back = found.iter().rev().map(|token| &token.what);
    let dot = back.next() == Some(&What::Sign("."));
    let steps = matches!(back.next(), Some(What::Word(word)) if word == "steps");
    dot && steps && back.next() != Some(&What::Sign("."))
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn sign(rest: &[char], at: usize) -> Result<(What, usize), ExpressionError> {
    let begins = |sign: &str| sign.chars().enumerate().all(|(place, c)| rest.get(place) == Some(&c));
    if !begins("!=") || begins("!==") {
        let equal = begins("==") && !begins("===");
        if let Some((foreign, ours)) = FOREIGN.iter().find(|(foreign, _)| !equal && begins(foreign)) {
            let mut error = error(at, format!("`{foreign}` is not an operator here; write `{ours}`"));
            error.suggestion = Some((*ours).into());
            return Err(error);
        }
    }
    let unknown = || {
        let c = rest.first().copied().unwrap_or_default();
        error(at, format!("{c:?} means nothing in an expression"))
    };
    let found = SIGNS.into_iter().find(|sign| begins(sign));
    found.map(|sign| (What::Sign(sign), sign.len())).ok_or_else(unknown)
}

/// A text between quotes, in which a backslash escapes as in JSON, and quotes of both kinds.
fn text(rest: &[char], quote: char, at: usize) -> Result<(What, usize), ExpressionError> {
    let mut text = String::new();
    let mut place = 1;
    while let Some(&c) = rest.get(place) {
        place += 1;
        match c {
            c if c == quote => return Ok((What::Text(text), place)),
            '\\' => {
                let escaped = rest.get(place).copied();
                place += 1;
                match escaped {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(c @ ('\\' | '\'' | '"' | '/')) => text.push(c),
                    // Patterns are full of these: `\d` stays what it is.
                    Some(c) => text.extend(['\\', c]),
                    None => break,
                }
            }
            c => text.push(c),
        }
    }
    Err(error(at, format!("this text has no end; close it with {quote}")))
}

fn number(rest: &[char], at: usize) -> Result<(What, usize), ExpressionError> {
    let digits = |from: usize| rest.iter().skip(from).take_while(|c| c.is_ascii_digit()).count();
    let mut length = digits(0);
    if rest.get(length) == Some(&'.') && digits(length + 1) > 0 {
        length += 1 + digits(length + 1);
    }
    if matches!(rest.get(length), Some('e' | 'E')) {
        let sign = usize::from(matches!(rest.get(length + 1), Some('+' | '-')));
        let more = digits(length + 1 + sign);
        if more > 0 {
            length += 1 + sign + more;
        }
    }
    if rest.get(length).is_some_and(|c| is_word(*c)) {
        return Err(error(at, "a number and a name stand together; put an operator between them"));
    }
    Ok((What::Number(rest.iter().take(length).collect()), length))
}
