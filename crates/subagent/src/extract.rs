//! The program in a reply.

/// The languages a fenced block may name.
const LANGUAGES: [&str; 3] = ["clojure", "lisp", "clj"];

/// A fenced block.
struct FencedBlock<'r> {
    language: &'r str,
    lines: Vec<&'r str>,
}

/// The program in a reply: all blocks marked as Clojure or Lisp, one after the other; else every block that begins with a
/// parenthesis; else the reply itself, if it begins as a program does.
///
/// ````
/// use scrollback_subagent::extract;
/// assert_eq!(extract("I count.\n```clojure\n(count data/xs)\n```\n").as_deref(), Some("(count data/xs)"));
/// assert_eq!(extract("(count data/xs)").as_deref(), Some("(count data/xs)"));
/// assert_eq!(extract("I do not know."), None);
/// ````
pub fn extract(reply: &str) -> Option<String> {
    let reply = reply.replace("\r\n", "\n");
    let blocks = blocks(&reply);
    let text = |block: &FencedBlock<'_>| block.lines.join("\n");
    let join = |texts: Vec<String>| {
        let whole: Vec<String> = texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
        (!whole.is_empty()).then(|| whole.join("\n"))
    };
    let named =
        |block: &&FencedBlock<'_>| LANGUAGES.iter().any(|known| block.language.eq_ignore_ascii_case(known));
    join(blocks.iter().filter(named).map(text).collect())
        .or_else(|| join(blocks.iter().map(text).filter(|text| text.trim_start().starts_with('(')).collect()))
        .or_else(|| {
            let bare = reply.trim();
            bare.starts_with(['(', ';']).then(|| bare.to_string())
        })
}

/// The fenced blocks of a text. A fence ends at one that is at least as long; one that never ends goes to the end.
fn blocks(text: &str) -> Vec<FencedBlock<'_>> {
    let mut found = Vec::new();
    let mut open: Option<(&str, FencedBlock<'_>)> = None;
    for line in text.lines() {
        match (&mut open, fence(line)) {
            (None, Some((fence, info))) => {
                let language = info.split_whitespace().next().unwrap_or_default();
                open = Some((fence, FencedBlock { language, lines: Vec::new() }));
            }
            (Some((opening, _)), Some((fence, ""))) if fence.starts_with(&**opening) => {
                found.extend(open.take().map(|(_, block)| block));
            }
            (Some((_, block)), _) => block.lines.push(line),
            (None, None) => {}
        }
    }
    found.extend(open.map(|(_, block)| block));
    found
}

/// The fence a line is, and what stands behind it.
fn fence(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    let (fence, info) = line.split_at(length);
    // Backticks behind the fence are code in a line of text.
    (length >= 3 && !(mark == '`' && info.contains('`'))).then_some((fence, info.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_every_kind_of_reply() {
        for (reply, program) in [
            ("```clojure\n(a)\n```", Some("(a)")),
            ("```clj\r\n(a)\r\n(b)\r\n```\r\n", Some("(a)\n(b)")),
            ("x\n```lisp\n(a)\n```\ny\n```clojure\n(b)\n```", Some("(a)\n(b)")),
            ("```python\nprint(1)\n```\n```clojure\n(a)\n```", Some("(a)")),
            ("```\n(a)\n```", Some("(a)")),
            ("```text\nhello\n```\n~~~\n(a)\n~~~", Some("(a)")),
            ("````markdown\n```clojure\n(no)\n```\n````\n```clojure\n(yes)\n```", Some("(yes)")),
            ("````clojure\n(def s \"\n```\n\")\n````", Some("(def s \"\n```\n\")")),
            ("```clojure\n(def s \"a ``` b\")\n```", Some("(def s \"a ``` b\")")),
            ("  ; first\n(a)", Some("; first\n(a)")),
            ("```clojure\n(a", Some("(a")),
            ("```Clojure title=x\n(a)\n```", Some("(a)")),
            ("```clojure\n\n```", None),
            ("", None),
            ("I would call (a).", None),
            ("```json\n{}\n```", None),
        ] {
            assert_eq!(extract(reply).as_deref(), program, "{reply:?}");
        }
    }

    #[test]
    fn a_reply_of_ten_megabytes_is_no_trouble() {
        let reply = format!("```clojure\n{}\n```", "(a)\n".repeat(2_500_000));
        assert!(extract(&reply).is_some_and(|program| program.len() > 9_000_000));
        assert_eq!(extract(&"`".repeat(10_000_000)), None);
    }
}
