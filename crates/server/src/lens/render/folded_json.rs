//! JSON as people read it: every object and list is a fold, and long texts open on a click.

use maud::{Markup, html};
use scrollback_core::json::{self, JsonKind, Raw};

use super::super::text::{Eyes, plural, said};

/// Values that are shown; the page of the whole text has all of them.
const VALUES: usize = 1_500;
/// Elements that are shown of the beginning of a list that is too long; the others are those of its end.
const BEGINNING: usize = 2;
/// Folds inside folds; deeper values are shown as they are written.
const DEEPEST: usize = 7;
/// Members of an object or list that is open from the start.
const OPEN: usize = 8;

/// A JSON text as folds; none if it is not JSON. `whole` is the page that shows all of it.
pub(crate) fn folded_json(eyes: Eyes<'_>, text: &str, whole: &str) -> Option<Markup> {
    let raw =
        json::check(text).ok().filter(|raw| matches!(raw.kind(), JsonKind::Object | JsonKind::Array))?;
    let folds = Folds { eyes, whole };
    Some(html! { div.json { (folds.members(raw, 0, VALUES)) } })
}

/// How many values a value has, itself included; no more than so many are counted.
fn size(raw: Raw<'_>, depth: usize, most: usize) -> usize {
    let mut all = 1;
    if depth < DEEPEST {
        let inside: Vec<Raw<'_>> = match raw.kind() {
            JsonKind::Array => raw.elements().collect(),
            JsonKind::Object => raw.members().map(|(_, one)| one).collect(),
            _ => return all,
        };
        for one in inside {
            if all >= most {
                break;
            }
            all += size(one, depth + 1, most - all);
        }
    }
    all
}

/// How many values each element of a list may show: all of them, or else the newest, with how the list begins.
fn newest(sizes: &[usize], budget: usize) -> Vec<usize> {
    let mut left = budget;
    let mut given = vec![0; sizes.len()];
    for at in (0..BEGINNING.min(sizes.len())).chain((BEGINNING..sizes.len()).rev()) {
        let most = if at < BEGINNING && sizes.len() > BEGINNING { left / 10 } else { left };
        let (Some(size), Some(given)) = (sizes.get(at), given.get_mut(at)) else { continue };
        *given = most.min(*size);
        left -= *given;
    }
    given
}

/// How many values each member of an object may show: the small ones all of theirs, the others the same.
fn fair(sizes: &[usize], budget: usize) -> Vec<usize> {
    let mut order: Vec<(usize, usize)> = sizes.iter().copied().enumerate().collect();
    order.sort_by_key(|(_, size)| *size);
    let (mut left, mut waiting) = (budget, sizes.len());
    let mut given = vec![0; sizes.len()];
    for (at, size) in order {
        if let Some(given) = given.get_mut(at) {
            *given = size.min(left / waiting.max(1));
            left -= *given;
        }
        waiting -= 1;
    }
    given
}

/// What folds are drawn with.
struct Folds<'f> {
    eyes: Eyes<'f>,
    whole: &'f str,
}

impl Folds<'_> {
    fn members(&self, raw: Raw<'_>, depth: usize, budget: usize) -> Markup {
        let is_list = raw.kind() == JsonKind::Array;
        let listed: Vec<(String, Raw<'_>)> = if is_list {
            raw.elements().enumerate().map(|(number, one)| (number.to_string(), one)).collect()
        } else {
            raw.members().map(|(name, one)| (name.into_owned(), one)).collect()
        };
        let sizes: Vec<usize> = listed.iter().map(|(_, one)| size(*one, depth + 1, budget)).collect();
        let shares = match sizes.iter().sum::<usize>() {
            all if all <= budget => sizes,
            _ if is_list => newest(&sizes, budget),
            _ => fair(&sizes, budget),
        };
        let what = if is_list { ("element", "elements") } else { ("member", "members") };
        let mut hidden = 0u64;
        html! {
            ul {
                @for ((name, one), share) in listed.iter().zip(shares) {
                    @if share == 0 { ({ hidden += 1; html! {} }) } @else { (self.gap(&mut hidden, what)) li { (self.value(name, *one, depth, share)) } }
                }
                (self.gap(&mut hidden, what))
            }
        }
    }

    /// Says how many values are not shown here.
    fn gap(&self, hidden: &mut u64, what: (&str, &str)) -> Markup {
        let count = std::mem::take(hidden);
        html! { @if count > 0 { li.soft.small { "⋯ " a href=(self.whole) { (plural(count, what.0, what.1)) " more" } } } }
    }

    fn value(&self, name: &str, raw: Raw<'_>, depth: usize, budget: usize) -> Markup {
        let key = html! { code.k { (self.eyes.glance(name, 80)) } };
        match raw.kind() {
            JsonKind::Object | JsonKind::Array if depth < DEEPEST => {
                let (count, what) = if raw.kind() == JsonKind::Array {
                    (raw.elements().count(), ("element", "elements"))
                } else {
                    (raw.members().count(), ("member", "members"))
                };
                html! { details open[depth == 0 && count <= OPEN] {
                    summary { (key) " " span.soft { (plural(count as u64, what.0, what.1)) } " " code.soft { (self.eyes.glance(raw.text(), 70)) } }
                    (self.members(raw, depth + 1, budget - 1))
                } }
            }
            JsonKind::String => {
                let text = raw.string().unwrap_or_default();
                html! { (key) " " (self.eyes.long(&text, "mono", self.whole)) }
            }
            _ => html! { (key) " " code { (said(&self.eyes.brief(raw.text(), 200))) } },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_lists_are_folds_and_texts_are_text() {
        let shown = folded_json(Eyes::Open, r#"{"a":{"<b>":[1,"<i>"]},"n":null}"#, "/w");
        let shown = shown.map(|shown| shown.0).unwrap_or_default();
        assert!(
            shown.contains("&lt;b&gt;") && shown.contains("&lt;i&gt;") && !shown.contains("<i>"),
            "{shown}"
        );
        assert_eq!(shown.matches("<details").count(), 2, "{shown}");
        assert!(
            folded_json(Eyes::Open, "plain", "/w").is_none()
                && folded_json(Eyes::Open, "\"text\"", "/w").is_none()
        );
    }

    #[test]
    fn what_is_deep_or_long_is_bounded() {
        let deep = format!("{}1{}", "[".repeat(60), "]".repeat(60));
        let shown = folded_json(Eyes::Open, &deep, "/w").map(|shown| shown.0).unwrap_or_default();
        assert_eq!(shown.matches("<details").count(), DEEPEST);
    }

    #[test]
    fn of_a_long_list_the_newest_are_shown_and_the_rest_is_a_click_away() {
        let wide = format!("[{}\"last\"]", "1,".repeat(5_000));
        let shown = folded_json(Eyes::Open, &wide, "/w").map(|shown| shown.0).unwrap_or_default();
        assert!(shown.contains(">last<") && shown.matches("<li>").count() == VALUES, "{}", shown.len());
        assert!(shown.contains("<a href=\"/w\">3,501 elements more</a>"));
        // One long list does not take the room of what stands beside it.
        let messages = "{\"role\":\"user\",\"content\":\"hi\"},".repeat(2_000);
        let body = format!(
            "{{\"messages\":[{messages}{{\"role\":\"newest\"}}],\"tools\":[{{\"name\":\"ls\"}}],\"stream\":true}}"
        );
        let shown = folded_json(Eyes::Open, &body, "/w").map(|shown| shown.0).unwrap_or_default();
        for part in ["newest", ">ls<", "stream"] {
            assert!(shown.contains(part), "{part}");
        }
        let texts = format!("{{\"a\":\"{}\"}}", "word ".repeat(10_000));
        let shown = folded_json(Eyes::Open, &texts, "/w").map(|shown| shown.0).unwrap_or_default();
        assert!(shown.contains("<a href=\"/w\">Show all 50,000 characters</a>"), "{shown}");
    }
}
