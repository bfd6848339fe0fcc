//! JSON as people read it: every object and list is a fold, and long texts open on a click.

use maud::{Markup, html};
use scrollback_core::json::{self, JsonKind, Raw};

use super::super::text::{Eyes, plural, said};

/// Values that are shown; the raw bytes have all of them.
const VALUES: usize = 1_500;
/// Folds inside folds; deeper values are shown as they are written.
const DEEPEST: usize = 7;
/// Members of an object or list that is open from the start.
const OPEN: usize = 8;

/// A JSON text as folds; none if it is not JSON.
pub(crate) fn folded_json(eyes: Eyes<'_>, text: &str) -> Option<Markup> {
    let raw =
        json::check(text).ok().filter(|raw| matches!(raw.kind(), JsonKind::Object | JsonKind::Array))?;
    let mut left = VALUES;
    Some(
        html! { div.json { (members(eyes, raw, 0, &mut left)) @if left == 0 { p.soft.small { "The first " (VALUES) " values; the raw bytes have all." } } } },
    )
}

fn members(eyes: Eyes<'_>, raw: Raw<'_>, depth: usize, left: &mut usize) -> Markup {
    let listed: Vec<(String, Raw<'_>)> = if raw.kind() == JsonKind::Array {
        raw.elements().enumerate().map(|(number, one)| (number.to_string(), one)).collect()
    } else {
        raw.members().map(|(name, one)| (name.into_owned(), one)).collect()
    };
    html! {
        ul { @for (name, one) in &listed { @if *left > 0 { li { (value(eyes, name, *one, depth, left)) } } } }
    }
}

fn value(eyes: Eyes<'_>, name: &str, raw: Raw<'_>, depth: usize, left: &mut usize) -> Markup {
    *left -= 1;
    let key = html! { code.k { (eyes.glance(name, 80)) } };
    match raw.kind() {
        JsonKind::Object | JsonKind::Array if depth < DEEPEST => {
            let (count, what) = if raw.kind() == JsonKind::Array {
                (raw.elements().count(), ("element", "elements"))
            } else {
                (raw.members().count(), ("member", "members"))
            };
            html! { details open[depth == 0 && count <= OPEN] {
                summary { (key) " " span.soft { (plural(count as u64, what.0, what.1)) } " " code.soft { (eyes.glance(raw.text(), 70)) } }
                (members(eyes, raw, depth + 1, left))
            } }
        }
        JsonKind::String => {
            let text = raw.string().unwrap_or_default();
            html! { (key) " " (eyes.long(&text, "mono", "#raw")) }
        }
        _ => html! { (key) " " code { (said(&eyes.brief(raw.text(), 200))) } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_lists_are_folds_and_texts_are_text() {
        let shown = folded_json(Eyes::Open, r#"{"a":{"<b>":[1,"<i>"]},"n":null}"#);
        let shown = shown.map(|shown| shown.0).unwrap_or_default();
        assert!(
            shown.contains("&lt;b&gt;") && shown.contains("&lt;i&gt;") && !shown.contains("<i>"),
            "{shown}"
        );
        assert_eq!(shown.matches("<details").count(), 2, "{shown}");
        assert!(folded_json(Eyes::Open, "plain").is_none() && folded_json(Eyes::Open, "\"text\"").is_none());
    }

    #[test]
    fn what_is_deep_or_long_is_bounded() {
        let deep = format!("{}1{}", "[".repeat(60), "]".repeat(60));
        let shown = folded_json(Eyes::Open, &deep).map(|shown| shown.0).unwrap_or_default();
        assert_eq!(shown.matches("<details").count(), DEEPEST);
        let wide = format!("[{}1]", "1,".repeat(5_000));
        let shown = folded_json(Eyes::Open, &wide).map(|shown| shown.0).unwrap_or_default();
        assert!(shown.contains("The first 1500 values") && shown.matches("<li>").count() == VALUES);
    }
}
