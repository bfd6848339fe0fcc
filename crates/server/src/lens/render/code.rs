//! Code in colours: one scanner for all languages, which knows comments, strings, numbers and words.

use maud::{Markup, PreEscaped, html};

use super::super::text::said;

/// Longest code that is coloured; longer code is shown plainly.
const LONGEST: usize = 128 * 1024;

/// What a scanner has to know about a language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Language {
    /// Nothing is coloured.
    #[default]
    Plain,
    /// `//` and `/* */` comments, three kinds of quotes: Rust, C, Java, JavaScript, Go and their kin.
    Braces,
    /// `#` comments, two kinds of quotes: Python, Ruby.
    Hash,
    /// `#` comments and few words: shell, TOML, YAML.
    Settings,
    /// `--` comments: SQL, Lua.
    Dashes,
    /// Strings and numbers: JSON.
    Json,
    /// Lines that begin with `+`, `-` or `@@`.
    Diff,
}

impl Language {
    /// The language of a name as it stands behind a fence, or of the ending of a file.
    pub(crate) fn named(name: &str) -> Self {
        let lower = name.trim_start_matches('.').to_ascii_lowercase();
        match lower.as_str() {
            "rust" | "rs" | "c" | "h" | "cpp" | "cc" | "hpp" | "c++" | "java" | "kt" | "kotlin" | "js"
            | "jsx" | "javascript" | "mjs" | "ts" | "tsx" | "typescript" | "go" | "swift" | "scala"
            | "cs" | "csharp" | "dart" | "php" | "css" | "scss" | "zig" | "proto" => Language::Braces,
            "python" | "py" | "pyi" | "ruby" | "rb" | "r" | "elixir" | "ex" | "exs" | "perl" | "pl" => {
                Language::Hash
            }
            "sh" | "bash" | "zsh" | "shell" | "console" | "toml" | "yaml" | "yml" | "ini" | "conf"
            | "dockerfile" | "makefile" | "mk" | "env" => Language::Settings,
            "sql" | "lua" | "haskell" | "hs" => Language::Dashes,
            "json" | "jsonl" | "jsonc" | "json5" | "ndjson" => Language::Json,
            "diff" | "patch" => Language::Diff,
            _ => Language::Plain,
        }
    }

    /// The language of a file by its name.
    pub(crate) fn of_file(path: &str) -> Self {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        Language::named(name.rsplit('.').next().unwrap_or(name))
    }

    fn comment(self) -> &'static str {
        match self {
            Language::Braces => "//",
            Language::Hash | Language::Settings => "#",
            Language::Dashes => "--",
            _ => "",
        }
    }

    fn quotes(self) -> &'static [char] {
        match self {
            Language::Braces => &['"', '`', '\''],
            Language::Hash | Language::Settings | Language::Dashes => &['"', '\''],
            Language::Json => &['"'],
            _ => &[],
        }
    }
}

/// Words that stand out in any language: the few that people look for.
const WORDS: [&str; 62] = [
    "as",
    "async",
    "await",
    "begin",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "def",
    "default",
    "del",
    "do",
    "elif",
    "else",
    "end",
    "enum",
    "except",
    "export",
    "extends",
    "false",
    "final",
    "finally",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "if",
    "impl",
    "import",
    "in",
    "interface",
    "is",
    "let",
    "match",
    "mod",
    "mut",
    "new",
    "nil",
    "none",
    "not",
    "null",
    "private",
    "pub",
    "public",
    "raise",
    "return",
    "select",
    "self",
    "static",
    "struct",
    "switch",
    "this",
    "throw",
    "trait",
    "true",
    "try",
    "type",
    "use",
    "while",
];

/// Code as a block.
pub(crate) fn code(language: Language, text: &str) -> Markup {
    let text = text.strip_suffix('\n').unwrap_or(text);
    html! { pre.said.code dir="ltr" tabindex="0" { code { (coloured(language, text)) } } }
}

/// Code in colours, without a block around it.
pub(crate) fn coloured(language: Language, text: &str) -> Markup {
    if language == Language::Plain || text.len() > LONGEST {
        return said(text);
    }
    if language == Language::Diff {
        return differing(text);
    }
    let mut out = String::with_capacity(text.len() * 2);
    let mut scanner = Scanner { language, text, open: Vec::new() };
    let mut plain = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (class, length) = scanner.token(at, rest);
        if !class.is_empty() {
            out.push_str(&said(text.get(plain..at).unwrap_or_default()).0);
            out.push_str("<span class=\"");
            out.push_str(class);
            out.push_str("\">");
            out.push_str(&said(rest.get(..length).unwrap_or_default()).0);
            out.push_str("</span>");
            plain = at + length;
        }
        at += length;
    }
    out.push_str(&said(text.get(plain..).unwrap_or_default()).0);
    PreEscaped(out)
}

/// Goes through a text once.
struct Scanner<'t> {
    language: Language,
    text: &'t str,
    /// Quotes that do not close before a place, so that none is looked for twice.
    open: Vec<(char, usize)>,
}

impl Scanner<'_> {
    /// What begins here: its class, empty where it has none, and its length in bytes, which is never zero.
    fn token(&mut self, at: usize, rest: &str) -> (&'static str, usize) {
        let Some(first) = rest.chars().next() else { return ("", 1) };
        let comment = self.language.comment();
        // In a shell and in settings `#` begins a comment only where a word could.
        let is_free =
            || at == 0 || self.text.get(..at).is_some_and(|before| before.ends_with(char::is_whitespace));
        if !comment.is_empty() && rest.starts_with(comment) && (comment != "#" || is_free()) {
            return ("c", rest.find('\n').unwrap_or(rest.len()));
        }
        if self.language == Language::Braces && rest.starts_with("/*") {
            return ("c", rest.find("*/").map_or(rest.len(), |end| end + 2));
        }
        if self.language.quotes().contains(&first) {
            let length = self.quoted(at, rest, first);
            return (if length.is_some() { "s" } else { "" }, length.unwrap_or(first.len_utf8()));
        }
        if first.is_alphanumeric() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let word = rest.get(..length).unwrap_or_default();
            if first.is_ascii_digit() {
                return ("m", length);
            }
            return (if WORDS.contains(&word) { "k" } else { "" }, length);
        }
        ("", first.len_utf8())
    }

    /// The length of a string up to its closing quote. One that does not close on its line is none: an apostrophe, a lifetime.
    fn quoted(&mut self, at: usize, rest: &str, quote: char) -> Option<usize> {
        if self.open.iter().any(|(open, until)| *open == quote && at < *until) {
            return None;
        }
        let mut escaped = false;
        let mut end = rest.len();
        for (place, letter) in rest.char_indices().skip(1) {
            match letter {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '\n' if quote != '`' => {
                    end = place;
                    break;
                }
                letter if letter == quote => return Some(place + letter.len_utf8()),
                _ => {}
            }
        }
        self.open.retain(|(open, _)| *open != quote);
        self.open.push((quote, at + end));
        None
    }
}

/// A patch: lines that came and went.
fn differing(text: &str) -> Markup {
    let class = |line: &str| match line.as_bytes().first() {
        Some(b'+') => "add",
        Some(b'-') => "del",
        Some(b'@' | b'*') => "k",
        _ => "",
    };
    html! { @for line in text.split_inclusive('\n') { span.(class(line)) { (said(line)) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Classes and texts of what is coloured.
    fn found(language: Language, text: &str) -> Vec<String> {
        let shown = coloured(language, text).0;
        let spans = shown.split("<span class=\"").skip(1);
        spans.filter_map(|span| Some(span.split_once("</span>")?.0.replace("\">", " "))).collect()
    }

    #[test]
    fn comments_strings_numbers_and_words_stand_out() {
        assert_eq!(found(Language::Braces, "let x = 12; // a"), ["k let", "m 12", "c // a"]);
        assert_eq!(
            found(Language::Hash, "def f(): return 'a#b' # c"),
            ["k def", "k return", "s &#39;a#b&#39;", "c # c"]
        );
        assert_eq!(found(Language::Settings, "a#b \"c\\\"d\""), ["s &quot;c\\&quot;d&quot;"]);
        assert_eq!(found(Language::Json, "{\"a\": [1, null]}"), ["s &quot;a&quot;", "m 1", "k null"]);
        assert_eq!(found(Language::Diff, "+a\n-b\n c"), ["add +a\n", "del -b\n", "  c"]);
        assert_eq!(found(Language::Braces, "fn f<'a>() {}"), ["k fn"], "a lifetime is no string");
    }

    #[test]
    fn text_is_kept_to_the_letter_and_stays_inert() {
        for language in [Language::Plain, Language::Braces, Language::Hash, Language::Json, Language::Diff] {
            for text in ["", "\"", "</script>", "'é\u{1F980}", "/* never closed", "a\\", "`a\nb`", "0x1fé"]
            {
                let shown = coloured(language, text).0;
                assert!(!shown.contains("</script"), "{shown}");
                let mut bare = String::new();
                let mut inside = false;
                for letter in shown.chars() {
                    match letter {
                        '<' => inside = true,
                        '>' => inside = false,
                        letter if !inside => bare.push(letter),
                        _ => {}
                    }
                }
                assert_eq!(bare, said(text).0, "{language:?} {text:?}");
            }
        }
    }

    #[test]
    fn quotes_that_never_close_are_looked_for_once() {
        // Takes minutes where every quote is followed to the end.
        let text = "\\\"".repeat(LONGEST / 2);
        assert!(coloured(Language::Json, &text).0.len() > text.len());
    }

    #[test]
    fn names_and_files_have_their_language() {
        assert_eq!(Language::of_file("/a/b.rs"), Language::Braces);
        assert_eq!(Language::of_file("Dockerfile"), Language::Settings);
        assert_eq!(Language::of_file("a.unknown"), Language::Plain);
        assert_eq!(Language::named("PYTHON"), Language::Hash);
    }
}
