//! The value after a name: where it begins and ends, and whether it convinces as a secret.

use std::ops::Range;

use memchr::memchr;

use super::header::is_placeholder;
use super::scan::{byte, distinct, run, run_within};

/// What a name promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Chosen by a person: short, any characters.
    Password,
    /// Made by a machine: longer, and without order.
    Key,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// `name: "value"`
    Quoted,
    /// `name=value`
    Tight,
    /// `name: value` and `name = value`, the forms that prose, types and code share.
    Loose,
}

/// A value as it stands in a text.
pub(super) struct ValueText {
    pub(super) secret: Range<usize>,
    /// The end of what was read to find it.
    pub(super) read_to: usize,
}

/// Columns of aligned settings are not wider.
const MOST_BLANKS: usize = 40;

/// A type between a name and its value is not longer: `token: pydantic.SecretStr = …`.
const LONGEST_TYPE: usize = 40;

/// What is longer and quoted is a document.
const LONGEST_QUOTED: usize = 4096;

/// How much of a value decides whether it is a secret.
///
/// A value that convinces is then taken whole; one that does not must not be read to its end, for names may
/// repeat inside it.
const DECIDING: usize = 64;

impl ValueText {
    /// The secret assigned to a name that ends here.
    pub(super) fn after(text: &str, name_end: usize, sort: Sort) -> Option<ValueText> {
        let mut at = name_end;
        if let Some(quote) = Quote::at(text, at) {
            at = run_within(text, quote.inside, 1, |byte| byte == b']');
        }
        let gap = blanks(text, at);
        let (mark, colon) = match text.as_bytes().get(gap..)? {
            [b':', b':', ..] | [b'=', b'=' | b'~', ..] => return None,
            [b':', b'=', ..] | [b'=', b'>', ..] => (2, false),
            [b'=', ..] => (1, false),
            [b':', ..] => (1, true),
            _ => return None,
        };
        let start = blanks(text, gap + mark);
        let quote =
            Quote::at(text, start).or_else(|| if colon { quote_after_type(text, start) } else { None });
        if let Some(quote) = quote {
            return ValueText::quoted(text, quote, sort);
        }
        let tight = !colon && gap == at && start == gap + mark;
        ValueText::unquoted(text, start, if tight { ValueForm::Tight } else { ValueForm::Loose }, sort)
    }

    fn quoted(text: &str, quote: Quote, sort: Sort) -> Option<ValueText> {
        let close = quote.close(text)?;
        let secret = quote.inside..close - quote.escapes;
        let value = text.get(secret.clone())?;
        let blank = value.contains(|char: char| char.is_whitespace() || char.is_control());
        (!blank && convinces(value, ValueForm::Quoted, sort))
            .then_some(ValueText { secret, read_to: close + 1 })
    }

    fn unquoted(text: &str, start: usize, form: ValueForm, sort: Sort) -> Option<ValueText> {
        let in_value = |byte: u8| {
            !byte.is_ascii_whitespace()
                && !matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b',' | b';' | b'&' | b'|')
        };
        let in_name = |byte: u8| {
            in_value(byte) && !matches!(byte, b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b'=')
        };
        let name_end = run_within(text, start, DECIDING, in_name);
        let goes_on = match text.as_bytes().get(name_end..) {
            Some([b'(' | b'[' | b'{' | b'<', ..]) => true,
            Some([b'=', next, ..]) => in_name(*next),
            _ => false,
        };
        // A name before a bracket is a call, an index or a type, and before `=` it has a value of its own.
        // Anything else is a secret with such characters in it.
        if goes_on && is_path(text.get(start..name_end)?) {
            return None;
        }
        let belongs = |byte: u8| if goes_on { in_value(byte) } else { in_name(byte) || byte == b'=' };
        let deciding = run_within(text, name_end, DECIDING - (name_end - start), belongs);
        if !convinces(head(text, start..deciding), form, sort) {
            return None;
        }
        let end = run(text, deciding, belongs);
        Some(ValueText { secret: start..end, read_to: end })
    }
}

/// The text of a range, without the character that the end of the range splits.
fn head(text: &str, range: Range<usize>) -> &str {
    let end = (range.start..=range.end).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(range.start..end)).unwrap_or_default()
}

/// Whether this is a secret rather than what else is written in its place.
fn convinces(value: &str, form: ValueForm, sort: Sort) -> bool {
    let value = head(value, 0..value.len().min(DECIDING));
    let traits = Traits::of(value);
    let likely = match (sort, form) {
        (Sort::Password, ValueForm::Quoted | ValueForm::Tight) => {
            value.len() >= 6
                && (traits.chosen() || traits.words >= 4 || (traits.is_word() && !is_role(value)))
        }
        (Sort::Password, ValueForm::Loose) => value.len() >= 6 && traits.chosen() && !traits.orderly,
        (Sort::Key, ValueForm::Quoted | ValueForm::Tight) => value.len() >= 8 && traits.generated(),
        (Sort::Key, ValueForm::Loose) => value.len() >= 12 && traits.generated(),
    };
    let typed = form == ValueForm::Loose && is_type(value);
    likely && distinct(value) >= 4 && !typed && !refers(value, form, &traits) && !is_placeholder(value)
}

/// An opening quote: which one, escaped how often, and where its inside begins.
#[derive(Clone, Copy)]
struct Quote {
    mark: u8,
    escapes: usize,
    inside: usize,
}

impl Quote {
    /// JSON in JSON in JSON puts seven backslashes before a quote; deeper nesting is not looked for.
    const MOST_ESCAPES: usize = 7;

    fn at(text: &str, start: usize) -> Option<Quote> {
        let end = run_within(text, start, Self::MOST_ESCAPES, |byte| byte == b'\\');
        let mark = byte(text, end).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
        Some(Quote { mark, escapes: end - start, inside: end + 1 })
    }

    /// The position of the quote that closes this one: escaped as often as it is.
    fn close(self, text: &str) -> Option<usize> {
        let window = text.as_bytes().get(self.inside..)?;
        let window = window.get(..LONGEST_QUOTED).unwrap_or(window);
        let mut from = 0;
        while let Some(found) = memchr(self.mark, window.get(from..)?) {
            let place = from + found;
            let escapes = window.get(..place)?.iter().rev().take_while(|byte| **byte == b'\\').count();
            let closes = if self.escapes == 0 { escapes % 2 == 0 } else { escapes == self.escapes };
            if closes {
                return Some(self.inside + place);
            }
            // A quote escaped less often closes something around us.
            if escapes < self.escapes {
                return None;
            }
            from = place + 1;
        }
        None
    }
}

fn blanks(text: &str, from: usize) -> usize {
    run_within(text, from, MOST_BLANKS, |byte| matches!(byte, b' ' | b'\t'))
}

/// The opening quote in `: TYPE = "…"`.
fn quote_after_type(text: &str, start: usize) -> Option<Quote> {
    let start = if text.get(start..)?.starts_with("&'static ") { start + 9 } else { start };
    let in_type = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'&' | b'<' | b'>' | b'.');
    let equals = blanks(text, run_within(text, start, LONGEST_TYPE, in_type));
    (byte(text, equals)? == b'=').then(|| Quote::at(text, blanks(text, equals + 1)))?
}

/// Whether a value points elsewhere instead of being the secret: a variable, a path, a link, code.
fn refers(value: &str, form: ValueForm, traits: &Traits) -> bool {
    let starts = |heads: &[&str]| heads.iter().any(|head| value.starts_with(head));
    let variable =
        starts(&["${", "$(", "$env", "%(", "%{", "%s", "{", "<", "[", "*", "#{", "@{", "#/", "&", "arn:"])
            || value.strip_prefix('$').is_some_and(|rest| form != ValueForm::Quoted || is_path(rest))
            || value.strip_prefix(['#', '@', '.']).is_some_and(is_path);
    let file = starts(&["/", "./", "../", "~/"]) && value.matches('/').nth(1).is_some();
    let joined = value.contains(['.', '_']) || value.contains("::");
    let titled = value.starts_with(|first: char| first.is_ascii_uppercase())
        && value.len() >= 4 * traits.digits.max(4);
    let code = match form {
        ValueForm::Quoted => false,
        ValueForm::Tight => value.contains('.'),
        ValueForm::Loose => joined || titled,
    };
    let code = code && is_path(value) && !traits.jumbled();
    variable || file || code || value.contains("://")
}

/// A name or a dotted path of names, as code has them.
fn is_path(value: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    value.split(['.', ':']).filter(|part| !part.is_empty()).all(is_name)
}

/// `uint256`, `sha512`, `base64`: a type or an algorithm.
fn is_type(value: &str) -> bool {
    const STEMS: [&str; 16] = [
        "int", "uint", "float", "bytes", "byte", "base", "utf", "sha", "string", "str", "varchar", "char",
        "secret", "argon", "bcrypt", "token",
    ];
    let stem = value.trim_end_matches(|last: char| last.is_ascii_digit()).to_ascii_lowercase();
    STEMS.contains(&stem.as_str())
}

/// Whether a word says what goes in this place rather than being it: `password=userPassword`, `pwd=getpass`.
fn is_role(value: &str) -> bool {
    const ROLES: [&str; 18] = [
        "pass",
        "pwd",
        "secret",
        "token",
        "credential",
        "login",
        "value",
        "string",
        "undefined",
        "required",
        "optional",
        "default",
        "example",
        "change",
        "hidden",
        "config",
        "setting",
        "prompt",
    ];
    let lower = value.to_ascii_lowercase();
    let camel = value.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
        && value.bytes().any(|byte| byte.is_ascii_lowercase());
    camel || ROLES.iter().any(|role| lower.contains(role))
}

/// What a value is made of.
#[derive(Default)]
struct Traits {
    letters: usize,
    digits: usize,
    /// Marks that neither join words nor end a sentence.
    symbols: usize,
    /// Parts between joining marks that are all letters.
    words: usize,
    /// Every part is a word or a short number, as in `step-2-done`.
    orderly: bool,
    /// Neighbours of different sort: lower case, upper case, digit.
    changes: usize,
    /// Only characters that generated keys are made of.
    plain: bool,
}

impl Traits {
    fn of(value: &str) -> Traits {
        let mut traits = Traits { orderly: true, plain: true, ..Traits::default() };
        let mut last = Class::Other;
        for byte in value.bytes() {
            let class = Class::of(byte);
            match class {
                Class::Lower | Class::Upper => traits.letters += 1,
                Class::Digit => traits.digits += 1,
                Class::Other => {
                    let joins = matches!(byte, b'_' | b'-' | b'.' | b':' | b'/' | b'=');
                    traits.symbols += usize::from(byte.is_ascii_punctuation() && !joins);
                    traits.plain &= joins || matches!(byte, b'+' | b'~' | b'%' | b'!' | b'*' | b'$');
                }
            }
            traits.changes += usize::from(class != last && class != Class::Other && last != Class::Other);
            last = class;
        }
        traits.symbols -= value.len() - value.trim_end_matches(['*', '?', '!', ')']).len();
        for part in value.as_bytes().split(|byte| matches!(byte, b'-' | b'_' | b'.' | b':' | b'/')) {
            let word = part.len() >= 2 && part.iter().all(u8::is_ascii_alphabetic);
            let number = part.len() <= 4 && part.iter().all(u8::is_ascii_digit);
            let version = part.len() <= 3 && matches!(part, [b'v' | b'V', ..]);
            traits.words += usize::from(word);
            traits.orderly &= word || number || version;
        }
        traits
    }

    /// Like a password: more than letters.
    fn chosen(&self) -> bool {
        self.digits > 0 || self.symbols > 0
    }

    /// One word and nothing else, as people choose them.
    fn is_word(&self) -> bool {
        self.words == 1 && self.digits == 0 && self.orderly
    }

    /// Like a key: letters and digits without order.
    fn generated(&self) -> bool {
        let mixed = self.digits >= 2 && self.letters >= 2;
        self.plain && !self.orderly && (mixed || self.jumbled())
    }

    /// The case changes more often than in any name: two in five neighbours, where camel case reaches one in
    /// three.
    fn jumbled(&self) -> bool {
        self.changes * 5 >= (self.letters + self.digits) * 2
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Other,
}

impl Class {
    fn of(byte: u8) -> Class {
        match byte {
            b'a'..=b'z' => Class::Lower,
            b'A'..=b'Z' => Class::Upper,
            b'0'..=b'9' => Class::Digit,
            _ => Class::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_where_its_form_says() {
        for (text, expected) in [
            ("k=s3same b", Some("s3same")),
            ("k = s3same;b", Some("s3same")),
            ("k:\ts3same\\nb", Some("s3same")),
            ("k\": \"s3s\\\"ame\"", Some("s3s\\\"ame")),
            ("k\": \"s3same\\\\\", \"b\"", Some("s3same\\\\")),
            ("k\\\":\\\"s3same\\\"", Some("s3same")),
            ("k'] = 's3same'", Some("s3same")),
            ("k: str = 's3same'", Some("s3same")),
            ("k := `s3same`", Some("s3same")),
            ("k=9(s3same)", Some("9(s3same)")),
            ("k=s3same(a)", None),
            ("k == s3same", None),
            ("k::s3same", None),
            ("k=\"s3same b\"", None),
            ("k=\"s3same", None),
            ("k s3same", None),
        ] {
            let value = ValueText::after(text, 1, Sort::Password).and_then(|value| text.get(value.secret));
            assert_eq!(value, expected, "{text}");
        }
    }

    #[test]
    fn a_long_value_is_taken_whole() {
        let long = format!("k={}", "s3same-é".repeat(1000));
        assert_eq!(ValueText::after(&long, 1, Sort::Password).map(|value| value.secret), Some(2..long.len()));
    }

    #[test]
    fn camel_case_is_not_jumbled_and_random_letters_are() {
        for name in ["getUserTokenFromTheRequest", "accessTokenV2", "SECRET", "Password"] {
            assert!(!Traits::of(name).jumbled(), "{name}");
        }
        for key in ["aBcDeFgH", "0a1b2c3d", "qXvRtZpLmKwQ"] {
            assert!(Traits::of(key).jumbled(), "{key}");
        }
    }
}
