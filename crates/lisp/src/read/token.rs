//! The words of the language: brackets, literals and symbols.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;

use super::trouble;
use crate::error::Fault;
use crate::value::{Date, Duration, Instant, Pattern, Value, number};

/// Bytes that all patterns of a program may compile to: compiling them takes time that nothing else bounds.
const MAX_PATTERNS: usize = 16 << 20;
/// Digits of an integer literal.
const MAX_DIGITS: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bracket {
    Round,
    Square,
    Curly,
    HashRound,
    HashCurly,
}

pub(super) enum LispToken<'s> {
    Open(Bracket),
    Close(char),
    Quote,
    VarQuote,
    Discard,
    Literal(Value),
    Keyword(&'s str),
    Symbol(&'s str),
}

/// The tokens of a source, one after the other.
pub(super) struct TokenReader<'s> {
    source: &'s str,
    at: usize,
    /// Bytes of the patterns compiled so far.
    patterns: usize,
}

/// Whether a keyword of this text can be written with a colon.
pub(crate) fn is_keyword(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_word)
}

/// What symbols and keywords are made of.
fn is_word(c: char) -> bool {
    if c.is_ascii() {
        is_ascii_word(c as u8)
    } else {
        c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c)
    }
}

/// What a byte is, for reading without looking at characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Space,
    Other,
    /// A part of a character beyond ASCII.
    Wide,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Wide; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = if is_ascii_word(byte as u8) {
            Class::Word
        } else if matches!(byte as u8, b' ' | b',' | b'\t'..=b'\r') {
            Class::Space
        } else {
            Class::Other
        };
        byte += 1;
    }
    classes
};

const fn is_ascii_word(byte: u8) -> bool {
    // * + ! - _ ' ? < > = . / & % $ |
    let special = matches!(byte, b'!' | b'$'..=b'\'' | b'*' | b'+' | b'-'..=b'/' | b'<'..=b'?' | b'_' | b'|');
    byte.is_ascii_alphanumeric() || special
}

/// Where what starts at a byte and is of a class ends; `wider` tells it of a character beyond ASCII.
#[inline]
fn end_of(text: &str, start: usize, class: Class, wider: fn(char) -> bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        let found = CLASSES[usize::from(byte)];
        if found == class {
            at += 1;
        } else if found == Class::Wide
            && let Some(c) = text.get(at..).and_then(|rest| rest.chars().next())
            && wider(c)
        {
            at += c.len_utf8();
        } else {
            break;
        }
    }
    at
}

/// What separates forms beyond ASCII: what people paste without seeing it.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}')
}

impl<'s> TokenReader<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        let mut tokens = TokenReader { source, at: 0, patterns: 0 };
        if source.trim_start_matches('\u{feff}').starts_with("#!") {
            tokens.skip_line();
        }
        tokens
    }

    /// Where the next token would start.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn skip_line(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    fn fail<T>(&self, at: usize, message: &str) -> Result<T, Fault> {
        Err(trouble(self.source, at, message))
    }

    /// The next token and where it starts.
    pub(super) fn next(&mut self) -> Result<Option<(LispToken<'s>, usize)>, Fault> {
        let first = loop {
            self.at = end_of(self.source, self.at, Class::Space, is_space);
            match self.source.as_bytes().get(self.at) {
                None => return Ok(None),
                Some(b';') => self.skip_line(),
                Some(first) => break *first,
            }
        };
        let start = self.at;
        let token = match first {
            b'(' => self.bracket(LispToken::Open(Bracket::Round)),
            b'[' => self.bracket(LispToken::Open(Bracket::Square)),
            b'{' => self.bracket(LispToken::Open(Bracket::Curly)),
            b')' | b']' | b'}' => self.bracket(LispToken::Close(char::from(first))),
            b'\'' => self.bracket(LispToken::Quote),
            b'"' => LispToken::Literal(Value::str(&*self.string()?)),
            b':' => self.keyword()?,
            _ if CLASSES[usize::from(first)] == Class::Word => self.word()?,
            _ => self.rare()?,
        };
        Ok(Some((token, start)))
    }

    /// A token that begins with none of the usual characters.
    fn rare(&mut self) -> Result<LispToken<'s>, Fault> {
        let start = self.at;
        Ok(match self.rest().chars().next().unwrap_or_default() {
            '\u{201c}' | '\u{201d}' => LispToken::Literal(Value::str(&*self.string()?)),
            '\\' => LispToken::Literal(self.character()?),
            '#' => self.dispatch()?,
            c @ ('`' | '~' | '@' | '^') => return Err(self.absent(c)),
            c if c.is_control() => return self.fail(start, "a control character outside a string"),
            c if is_word(c) => self.word()?,
            c => return self.fail(start, &format!("{c} has no meaning here")),
        })
    }

    fn bracket(&mut self, token: LispToken<'s>) -> LispToken<'s> {
        self.at += 1;
        token
    }

    fn absent(&self, c: char) -> Fault {
        let mut error = trouble(self.source, self.at, &format!("{c} is not part of this language"));
        error.hint = Some(
            match c {
                '@' => "there are no atoms or refs: use reduce, loop or def",
                '^' => "there is no metadata: leave it out",
                _ => "there are no macros: write a function",
            }
            .into(),
        );
        error
    }

    /// The longest run of word characters from here.
    fn run(&mut self) -> &'s str {
        let start = self.at;
        self.at = end_of(self.source, start, Class::Word, is_word);
        self.source.get(start..self.at).unwrap_or_default()
    }

    fn word(&mut self) -> Result<LispToken<'s>, Fault> {
        let start = self.at;
        let text = self.run();
        if let [b'0'..=b'9', ..] | [b'+' | b'-', b'0'..=b'9', ..] = text.as_bytes() {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            return self.number(text, digits, start).map(LispToken::Literal);
        }
        Ok(match text {
            "nil" => LispToken::Literal(Value::Nil),
            "true" => LispToken::Literal(Value::Bool(true)),
            "false" => LispToken::Literal(Value::Bool(false)),
            _ => LispToken::Symbol(text),
        })
    }

    fn number(&self, text: &str, digits: &str, start: usize) -> Result<Value, Fault> {
        let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if all_digits(digits) {
            if digits.len() > 1 && digits.starts_with('0') {
                return self
                    .fail(start, &format!("{text} starts with a zero: octal numbers are not supported"));
            }
            if digits.len() > MAX_DIGITS {
                return self.fail(start, &format!("a number of more than {MAX_DIGITS} digits"));
            }
            if let Some(value) = number::parse(text) {
                return Ok(value);
            }
        }
        let (mantissa, exponent) =
            digits.split_once(['e', 'E']).map_or((digits, None), |(m, e)| (m, Some(e)));
        let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, ""), |(w, f)| (w, f));
        let well_formed = all_digits(whole)
            && (fraction.is_empty() || all_digits(fraction))
            && exponent.is_none_or(|text| all_digits(text.strip_prefix(['+', '-']).unwrap_or(text)));
        if well_formed && let Ok(x) = text.parse() {
            return Ok(Value::Float(x));
        }
        let message = match digits {
            _ if digits.contains('/') => format!("{text} is a ratio: write a division, as in (/ 1 2)"),
            _ if digits.starts_with("0x") || digits.starts_with("0X") => {
                format!("{text} is hexadecimal: write the number in decimal")
            }
            _ if digits.ends_with(['N', 'M']) => {
                format!("{text} has a suffix: integers are unlimited without one")
            }
            _ => format!("{text} is not a number"),
        };
        self.fail(start, &message)
    }

    fn keyword(&mut self) -> Result<LispToken<'s>, Fault> {
        let start = self.at;
        self.at += 1;
        if self.rest().starts_with(':') {
            return self.fail(start, ":: is not supported: write the namespace out, as in :user/name");
        }
        let text = self.run();
        if text.is_empty() {
            return self.fail(start, "a colon needs a name after it");
        }
        Ok(LispToken::Keyword(text))
    }

    /// A string from its opening quote on. Curly quotes outside strings delimit them, too.
    fn string(&mut self) -> Result<Cow<'s, str>, Fault> {
        let start = self.at;
        let rest = self.rest();
        if let Some(body) = rest.strip_prefix('"')
            && let Some(length) = body.bytes().position(|byte| matches!(byte, b'"' | b'\\'))
            && body.as_bytes().get(length) == Some(&b'"')
        {
            // Nothing is escaped: the string is what is written.
            self.at += length + 2;
            return Ok(body.get(..length).unwrap_or_default().into());
        }
        let mut chars = self.rest().char_indices();
        let straight = matches!(chars.next(), Some((_, '"')));
        let mut out = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if straight => {
                    self.at += at + 1;
                    return Ok(out.into());
                }
                '\u{201c}' | '\u{201d}' if !straight => {
                    self.at += at + c.len_utf8();
                    return Ok(out.into());
                }
                '\\' => {
                    let Some((_, letter)) = chars.next() else { break };
                    match letter {
                        '\\' | '"' => out.push(letter),
                        'n' => out.push('\n'),
                        't' => out.push('\t'),
                        'r' => out.push('\r'),
                        'b' => out.push('\u{8}'),
                        'f' => out.push('\u{c}'),
                        'u' => match unicode_escape(chars.as_str()) {
                            Some((c, used)) => {
                                out.push(c);
                                chars.nth(used - 1);
                            }
                            None => out.push_str("\\u"),
                        },
                        other => out.extend(['\\', other]),
                    }
                }
                c => out.push(c),
            }
        }
        self.fail(start, "the string is never closed")
    }

    /// `\a`, `\newline`, `\u0041`: a string of one grapheme.
    fn character(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        self.at += 1;
        let Some(first) = self.rest().graphemes(true).next() else {
            return self.fail(start, "a backslash needs a character after it");
        };
        self.at += first.len();
        let more = if first.chars().all(is_word) { self.run() } else { "" };
        if more.is_empty() {
            return Ok(Value::str(first));
        }
        let name = format!("{first}{more}");
        let text = match name.as_str() {
            "space" => " ",
            "newline" => "\n",
            "tab" => "\t",
            "return" => "\r",
            "backspace" => "\u{8}",
            "formfeed" => "\u{c}",
            _ => match name.strip_prefix('u').filter(|hex| hex.len() == 4).and_then(unicode_escape) {
                Some((c, _)) => return Ok(Value::str(c.to_string())),
                None => return self.fail(start, &format!("\\{name} is not a character")),
            },
        };
        Ok(Value::str(text))
    }

    /// Everything that starts with `#`.
    fn dispatch(&mut self) -> Result<LispToken<'s>, Fault> {
        let start = self.at;
        let rest = self.rest();
        let starts = [
            ("#(", LispToken::Open(Bracket::HashRound)),
            ("#{", LispToken::Open(Bracket::HashCurly)),
            ("#_", LispToken::Discard),
            ("#'", LispToken::VarQuote),
            ("##Inf", LispToken::Literal(Value::Float(f64::INFINITY))),
            ("##-Inf", LispToken::Literal(Value::Float(f64::NEG_INFINITY))),
            ("##NaN", LispToken::Literal(Value::Float(f64::NAN))),
        ];
        for (text, token) in starts {
            if rest.starts_with(text) {
                self.at += text.len();
                return Ok(token);
            }
        }
        if rest.starts_with("#\"") {
            return self.regex().map(LispToken::Literal);
        }
        self.at += 1;
        let tag = self.run();
        let read: fn(&str) -> Option<Value> = match tag {
            "date" => |text| Date::parse(text).map(Value::Date),
            "inst" => |text| {
                Instant::parse(text).or_else(|| Date::parse(text).map(Instant::start_of)).map(Value::DateTime)
            },
            "duration" => |text| Duration::parse(text).map(Value::Duration),
            "keyword" => |text| Some(Value::keyword(text)),
            _ => return self.fail(start, &format!("#{tag} is not supported")),
        };
        self.at = end_of(self.source, self.at, Class::Space, is_space);
        if !self.rest().starts_with('"') {
            return self.fail(start, &format!("#{tag} needs a string after it"));
        }
        let text = self.string()?;
        match read(&text) {
            Some(value) => Ok(LispToken::Literal(value)),
            None => self.fail(start, &format!("#{tag} cannot read this text")),
        }
    }

    fn regex(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        let body = self.rest().get(2..).unwrap_or_default();
        let mut escaped = false;
        for (at, c) in body.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    self.at += at + 3;
                    return match Pattern::compile(body.get(..at).unwrap_or_default()) {
                        Ok(pattern) => {
                            self.patterns = self.patterns.saturating_add(pattern.bytes());
                            if self.patterns > MAX_PATTERNS {
                                return self
                                    .fail(start, "the patterns of this program are too large together");
                            }
                            Ok(Value::Regex(pattern))
                        }
                        Err(bad) => {
                            let mut error = trouble(self.source, start, &bad.message);
                            error.hint = bad.hint.map(Into::into);
                            Err(error)
                        }
                    };
                }
                _ => {}
            }
        }
        self.fail(start, "the regular expression is never closed")
    }
}

/// The character after `\u`, with how many characters its digits take; a pair of surrogates is one character.
fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let hex = |text: &str| {
        let digits = text.get(..4)?;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then(|| u32::from_str_radix(digits, 16).ok())
            .flatten()
    };
    let first = hex(text)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 4));
    }
    let pair = text.get(4..).and_then(|rest| rest.strip_prefix("\\u")).and_then(hex);
    match pair {
        Some(second) if first < 0xDC00 && (0xDC00..0xE000).contains(&second) => {
            char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)).map(|c| (c, 10))
        }
        _ => Some(('\u{FFFD}', 4)),
    }
}
