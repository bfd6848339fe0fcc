//! Other people's words on our pages: the one place where they become markup.

use std::borrow::Cow;

use maud::{Markup, PreEscaped, html};
use scrollback_core::recall::Handle;
use scrollback_core::redact::Redactor;

use super::page::coded;

/// Characters of a text shown before "show all".
const FIRST: usize = 1_500;
/// Lines of a text shown before "show all".
const FIRST_LINES: usize = 24;
/// Most characters that wait folded on the page; longer texts have a page of their own.
const FOLDED: usize = 20_000;

/// Characters looked at for the first words of a text.
const GLANCED: usize = 16_000;

/// What a viewer may see.
#[derive(Clone, Copy)]
pub(crate) enum Eyes<'a> {
    /// Secrets are replaced by their kind.
    Redacted(&'a Redactor),
    /// Everything, as it was said.
    Open,
}

impl Eyes<'_> {
    /// The text as this viewer sees it. Whole texts are redacted, and cut afterwards.
    pub(crate) fn see(self, text: &str) -> Cow<'_, str> {
        match self {
            Eyes::Redacted(redactor) => redactor.text(text).text,
            Eyes::Open => Cow::Borrowed(text),
        }
    }

    /// The text, safe to look at.
    pub(crate) fn said(self, text: &str) -> Markup {
        said(&self.see(text))
    }

    /// The first words of a text on one line. Of a long text only the beginning is looked at; that is many times what is
    /// shown, so a secret that begins there is known as one.
    pub(crate) fn glance(self, text: &str, most: usize) -> Markup {
        said(&self.brief(text, most))
    }

    /// The same, still as text.
    pub(crate) fn brief(self, text: &str, most: usize) -> String {
        let end = text.char_indices().nth(GLANCED).map_or(text.len(), |(at, _)| at);
        glance(&self.see(text.get(..end).unwrap_or(text)), most)
    }

    /// A text that may be long: its beginning, and the rest behind "show all". `whole` is the page that shows all of a text
    /// too long to wait on this one.
    pub(crate) fn long(self, text: &str, class: &str, whole: &str) -> Markup {
        let text = self.see(text);
        let cut = beginning(&text);
        let Some(cut) = cut else {
            return html! { pre.said.(class) dir="auto" { (linked(&text)) } };
        };
        let (first, rest) = text.split_at(cut);
        let characters = text.chars().count();
        html! {
            pre.said.(class) dir="auto" { (linked(first)) "…" }
            @if characters <= FOLDED {
                details.more {
                    summary { "Show all " (number(characters as u64)) " characters" }
                    pre.said.(class) dir="auto" { "…" (linked(rest)) }
                }
            } @else {
                p.more.small { a href=(whole) { "Show all " (number(characters as u64)) " characters" } }
            }
        }
    }
}

/// How much room a text takes.
pub(crate) enum Length {
    /// All of it is shown.
    Short,
    /// So many characters: it waits folded on the page.
    Long(u64),
    /// So many characters, of which the page shows those before a place; the rest has a page of its own.
    Huge(u64, usize),
}

/// How much room a text takes.
pub(crate) fn length(text: &str) -> Length {
    let Some(cut) = beginning(text) else { return Length::Short };
    let characters = text.chars().count();
    if characters <= FOLDED { Length::Long(characters as u64) } else { Length::Huge(characters as u64, cut) }
}

/// Where a text is cut that is too long to be shown at once.
fn beginning(text: &str) -> Option<usize> {
    let by_length = text.char_indices().nth(FIRST).map(|(at, _)| at);
    let by_lines = text.match_indices('\n').nth(FIRST_LINES - 1).map(|(at, _)| at);
    let cut = by_length.into_iter().chain(by_lines).min()?;
    // A few words behind the cut are shown rather than folded.
    (text.len() - cut > 200 || by_length.is_some()).then_some(cut)
}

/// The first words of a text on one line.
fn glance(text: &str, most: usize) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().count() > most {
            let cut = line.char_indices().nth(most).map_or(line.len(), |(at, _)| at);
            line.truncate(cut);
            line.push('…');
            break;
        }
    }
    line
}

/// Text as markup: tags are inert, and characters that would change how the text around them reads are shown by name.
pub(crate) fn said(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            odd if is_odd(odd) => {
                use std::fmt::Write;
                let _ = write!(out, "<span class=\"odd\">U+{:04X}</span>", u32::from(odd));
            }
            plain => out.push(plain),
        }
    }
    PreEscaped(out)
}

/// The same with every handle a link to what it names.
fn linked(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find("sb:") {
        let (before, from) = rest.split_at(at);
        let end = from.find(|letter: char| !letter.is_ascii_alphanumeric() && !":#-".contains(letter));
        let (name, after) = from.split_at(end.unwrap_or(from.len()));
        let in_word = before.ends_with(|letter: char| letter.is_ascii_alphanumeric());
        let handle = name.parse::<Handle>().ok().filter(|_| !in_word);
        out.push_str(&said(before).0);
        match handle {
            Some(handle) => {
                let to = format!("/lens/handles/{}", coded(&handle.to_string()));
                out.push_str(&html! { a.handle href=(to) { (said(name)) } }.0);
            }
            None => out.push_str(&said(name).0),
        }
        rest = after;
    }
    out.push_str(&said(rest).0);
    PreEscaped(out)
}

/// Characters that are not seen and change what is: controls, bidirectional overrides, invisible letters.
fn is_odd(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{061C}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E007F}')
}

/// A whole number with its thousands apart.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of tokens in few characters: `830`, `12.4k`, `1.2M`.
pub(crate) fn short(number: u64) -> String {
    match number {
        0..=999 => number.to_string(),
        1_000..=9_999 => format!("{:.1}k", number as f64 / 1e3),
        10_000..=999_499 => format!("{:.0}k", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// An amount of money: cents where there are some, more digits where there are none.
pub(crate) fn dollars(amount: f64) -> String {
    if amount >= 0.1 || amount == 0.0 { format!("${amount:.2}") } else { format!("${amount:.4}") }
}

/// A stretch of time.
pub(crate) fn lasting(milliseconds: i64) -> String {
    let ms = milliseconds.max(0);
    match ms {
        0..=999 => format!("{ms} ms"),
        1_000..=59_999 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..=3_599_999 => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// A number of bytes.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..=999 => format!("{count} bytes"),
        1_000..=999_999 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..=999_999_999 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}

/// How many, with the word for it.
pub(crate) fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nothing_said_becomes_markup() {
        assert_eq!(
            said("<script>alert('x')</script>&\"").0,
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"
        );
        assert_eq!(said("{{7*7}} ${7*7}").0, "{{7*7}} ${7*7}");
        assert_eq!(
            said("a\u{202E}b\u{1b}[31m\n\tc\0").0,
            "a<span class=\"odd\">U+202E</span>b<span class=\"odd\">U+001B</span>[31m\n\tc<span class=\"odd\">U+0000</span>"
        );
        assert_eq!(said("👩‍💻 שלום").0, "👩‍💻 שלום", "letters of every script stay as they are");
    }

    #[test]
    fn long_texts_are_cut_after_they_are_redacted() {
        let secret = format!("sk-ant-api03-{}", "aB3dE5fG7h".repeat(9));
        let redactor = Redactor::new(&scrollback_core::redact::Options::default()).unwrap();
        let text = format!("{} {secret} {}", "x".repeat(FIRST - 8), "y".repeat(3_000));
        let shown = Eyes::Redacted(&redactor).long(&text, "text", "/whole").0;
        assert!(
            !shown.contains("sk-ant") && shown.contains("Show all"),
            "no part of a secret survives the cut"
        );
        assert!(!Eyes::Open.long("short", "text", "/whole").0.contains("Show all"));
        let huge = Eyes::Open.long(&"word ".repeat(10_000), "text", "/whole").0;
        assert!(
            huge.contains("href=\"/whole\"") && huge.len() < 4_000,
            "a huge text does not wait on the page"
        );
        assert!(Eyes::Open.long(&"line\n".repeat(80), "text", "/w").0.contains("<details"));
    }

    #[test]
    fn handles_are_links_and_what_only_looks_like_one_is_not() {
        assert_eq!(
            linked("<b> read sb:k7q2m9x4td#412, or sb:short#1").0,
            "&lt;b&gt; read <a class=\"handle\" href=\"/lens/handles/sb%3Ak7q2m9x4td%23412\">sb:k7q2m9x4td#412</a>, \
             or sb:short#1"
        );
        assert_eq!(linked("xsb:k7q2m9x4td#4").0, "xsb:k7q2m9x4td#4");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([12, 1_250, 12_400, 3_400_000].map(short), ["12", "1.2k", "12k", "3.4M"]);
        assert_eq!(
            [250, 1_500, 61_000, 3_660_000].map(lasting),
            ["250 ms", "1.5 s", "1 min 1 s", "1 h 1 min"]
        );
        assert_eq!([0.0, 0.0123, 1.5].map(dollars), ["$0.00", "$0.0123", "$1.50"]);
        assert_eq!([12, 4_200, 1_900_000].map(bytes), ["12 bytes", "4.2 kB", "1.9 MB"]);
        assert_eq!(glance("  one\n two   three ", 8), "one two …");
    }
}
