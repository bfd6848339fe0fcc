//! Calls as Python writes them: `name(key='text', other=[1, 2.5, None])`, read into JSON arguments.

use std::collections::BTreeSet;

use super::chat::{Writing, literal};
use crate::json::{self, JsonKind};

/// How deep lists and dictionaries may stand in each other; ground truths have two levels.
const MAX_DEPTH: usize = 32;

/// The name that is called, and the arguments as one JSON object.
///
/// Arguments that are not keywords with literals give `{"__raw": "the whole call"}`.
pub(super) fn call(text: &str) -> (&str, String) {
    let name = text.split('(').next().unwrap_or(text).trim();
    let arguments = keywords(text).unwrap_or_else(|| Writing::new().text("__raw", text).end());
    (name, arguments)
}

fn keywords(text: &str) -> Option<String> {
    let inside = text.trim().split_once('(')?.1;
    let mut reader = LiteralReader { rest: inside };
    let mut out = Writing::new();
    let mut seen = BTreeSet::new();
    while !reader.takes(')') {
        let name = reader.name().filter(|name| seen.insert(*name))?;
        reader.expect('=')?;
        out = out.raw(name, &reader.value(0)?);
        if !reader.takes(',') {
            reader.expect(')')?;
            break;
        }
    }
    reader.space();
    reader.rest.is_empty().then(|| out.end())
}

/// Takes literals off the front of a text; none is the answer to everything else.
struct LiteralReader<'a> {
    rest: &'a str,
}

impl<'a> LiteralReader<'a> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn takes(&mut self, wanted: char) -> bool {
        self.space();
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, wanted: char) -> Option<()> {
        self.takes(wanted).then_some(())
    }

    /// A run of characters that belong together.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> Option<&'a str> {
        self.space();
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at_checked(end).filter(|(run, _)| !run.is_empty())?;
        self.rest = rest;
        Some(run)
    }

    fn name(&mut self) -> Option<&'a str> {
        self.run(|c| c.is_alphanumeric() || c == '_')
            .filter(|name| !name.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// A literal as JSON.
    fn value(&mut self, depth: usize) -> Option<String> {
        self.space();
        match self.rest.chars().next()? {
            '\'' | '"' => self.string().map(|text| literal(&text)),
            '[' => self.list(depth),
            '{' => self.dictionary(depth),
            '-' | '0'..='9' => {
                let number = self.run(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_'))?;
                json::check(number).is_ok_and(|raw| raw.kind() == JsonKind::Number).then(|| number.into())
            }
            _ => Some(match self.name()? {
                "True" => "true".into(),
                "False" => "false".into(),
                "None" => "null".into(),
                _ => return None,
            }),
        }
    }

    fn list(&mut self, depth: usize) -> Option<String> {
        self.expect('[')?;
        let mut items = Vec::new();
        while !self.takes(']') {
            if depth == MAX_DEPTH {
                return None;
            }
            items.push(self.value(depth + 1)?);
            if !self.takes(',') {
                self.expect(']')?;
                break;
            }
        }
        Some(format!("[{}]", items.join(",")))
    }

    fn dictionary(&mut self, depth: usize) -> Option<String> {
        self.expect('{')?;
        let mut out = Writing::new();
        let mut seen = BTreeSet::new();
        while !self.takes('}') {
            if depth == MAX_DEPTH {
                return None;
            }
            self.space();
            let key = self.string()?;
            self.expect(':')?;
            out = out.raw(&key, &self.value(depth + 1)?);
            if !seen.insert(key) {
                return None;
            }
            if !self.takes(',') {
                self.expect('}')?;
                break;
            }
        }
        Some(out.end())
    }

    /// A string literal in either kind of quotes, without prefix and not in threes.
    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let inside = self.rest.get(1..)?;
        let mut out = String::new();
        let mut chars = inside.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.rest = inside.get(at + 1..)?;
                    return Some(out);
                }
                '\n' => return None,
                '\\' => escape(&mut chars, &mut out)?,
                c => out.push(c),
            }
        }
        None
    }
}

/// What stands after a backslash; a letter Python does not know keeps its backslash.
fn escape(chars: &mut std::str::CharIndices<'_>, out: &mut String) -> Option<()> {
    let digits = |chars: &mut std::str::CharIndices<'_>, count: usize| {
        let hex: String = chars.by_ref().take(count).map(|(_, c)| c).collect();
        let whole = hex.len() == count && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        whole.then(|| u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32)).flatten()
    };
    match chars.next()?.1 {
        'n' => out.push('\n'),
        't' => out.push('\t'),
        'r' => out.push('\r'),
        'b' => out.push('\u{8}'),
        'f' => out.push('\u{c}'),
        'a' => out.push('\u{7}'),
        'v' => out.push('\u{b}'),
        '\n' => {}
        'x' => out.push(digits(chars, 2)?),
        'u' => out.push(digits(chars, 4)?),
        'U' => out.push(digits(chars, 8)?),
        // Octal digits and names of characters: rare enough to stay unread.
        '0'..='7' | 'N' => return None,
        c @ ('\\' | '\'' | '"') => out.push(c),
        other => out.extend(['\\', other]),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_with_literals_become_json() {
        let cases = [
            ("ls()", "ls", "{}"),
            ("cd(folder='..')", "cd", r#"{"folder":".."}"#),
            ("f(a=True, b = False,c=None)", "f", r#"{"a":true,"b":false,"c":null}"#),
            ("f(a=1, b=-2.50, c=1e3,)", "f", r#"{"a":1,"b":-2.50,"c":1e3}"#),
            ("f(a=[1, ['x',], []], b={'k': 5, \"l\": {}})", "f", r#"{"a":[1,["x"],[]],"b":{"k":5,"l":{}}}"#),
            (
                r#"f(a='it\'s "so"', b="\u00e9\x41\n\d")"#,
                "f",
                "{\"a\":\"it's \\\"so\\\"\",\"b\":\"éA\\n\\\\d\"}",
            ),
            (" Api.f ( a = 'x)' ) ", "Api.f", r#"{"a":"x)"}"#),
        ];
        for (text, name, arguments) in cases {
            assert_eq!(call(text), (name, arguments.to_string()), "{text}");
        }
    }

    #[test]
    fn anything_else_stays_whole() {
        let deep = format!("f(a={}{})", "[".repeat(40), "]".repeat(40));
        let deeper = format!("f(a={}", "[".repeat(1_000_000));
        for text in [
            "sort('x')",
            "f(a)",
            "f(a=g(1))",
            "f(a=1_000)",
            "f(a=0x1f)",
            "f(a=(1,2))",
            "f(a={1,2})",
            "f(a={1:2})",
            "f(a='x)",
            "f(a=1)b",
            "f(a=1,a=2)",
            "f(a={'k':1,'k':2})",
            "f(*a)",
            "f(a=b'x')",
            "f(a='''x''')",
            "f(a='\\ud800')",
            "f(a=1",
            "f",
            "",
            "f(a=é)",
            "f(1a=2)",
            &deep,
            &deeper,
        ] {
            let (_, arguments) = call(text);
            assert_eq!(arguments, Writing::new().text("__raw", text).end(), "{text:.40}");
        }
    }
}
