//! A text of any length on a page of its own: page by page, with a search in it that needs no script.

use maud::{Markup, html};
use serde::Deserialize;

use super::page::coded;
use super::text::{number, plural, said};

/// Characters of one page of a text.
const TEXT_PAGE: usize = 50_000;
/// Lines with a match that are listed.
const LISTED: usize = 200;
/// Bytes of a line that are shown around a match.
const AROUND: usize = 120;

/// Which part of a text is wanted.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct TextQuery {
    page: usize,
    /// What is looked for in it.
    find: String,
}

/// A text as its viewer may see it. `here` is the address of its page.
pub(crate) fn long_text(text: &str, wish: &TextQuery, here: &str) -> Markup {
    let starts = starts(text);
    let pages = starts.len();
    let number_of = |at: usize| starts.partition_point(|start| *start <= at).saturating_sub(1);
    let shown = wish.page.min(pages - 1);
    let start = starts.get(shown).copied().unwrap_or(0);
    let end = starts.get(shown + 1).copied().unwrap_or(text.len());
    let find = wish.find.trim();
    let query = if find.is_empty() { String::new() } else { format!("&find={}", coded(find)) };
    let to = |page: usize| format!("{here}?page={page}{query}");
    let found = if find.is_empty() { Vec::new() } else { matches(text, find) };
    html! {
        form.fields method="get" action=(here) role="search" {
            div.wide { label for="find" { "Find in this text" } input #find type="search" name="find" value=(wish.find) autocomplete="off"; }
            button { "Find" }
        }
        @if !find.is_empty() {
            section.card aria-label="Matches" {
                header { h2 { (plural(found.len() as u64, "line", "lines")) } span.soft.small { "with " q { (said(find)) } @if found.len() > LISTED { "; the first " (LISTED) " are listed" } } }
                @if !found.is_empty() { ol.hits { @for (line, at) in found.iter().take(LISTED) {
                    li { div.who { a href=(format!("{}#l{line}", to(number_of(*at)))) { "line " (number(*line as u64)) } } p.said.mono dir="auto" { (marked(around(text, *at), find)) } }
                } } }
            }
        }
        @if pages > 1 { nav.pager aria-label="Pages of the text" {
            @if shown > 0 { a.button rel="prev" href=(to(shown - 1)) { "Before" } }
            span.soft { "Page " (shown + 1) " of " (pages) }
            @if shown + 1 < pages { a.button rel="next" href=(to(shown + 1)) { "Next" } }
        } }
        section.card { div.in { pre.said dir="auto" { (marked(text.get(start..end).unwrap_or_default(), find)) } } }
    }
}

/// Where the pages of a text begin.
fn starts(text: &str) -> Vec<usize> {
    let starts: Vec<usize> = text.char_indices().step_by(TEXT_PAGE).map(|(at, _)| at).collect();
    if starts.is_empty() { vec![0] } else { starts }
}

/// Every line with a match: its number from 1, and where its first match is. Letters of the alphabet are found in either case.
fn matches(text: &str, find: &str) -> Vec<(usize, usize)> {
    let (low, find) = (text.to_ascii_lowercase(), find.to_ascii_lowercase());
    let mut all = Vec::new();
    let mut start = 0;
    for (number, line) in low.split('\n').enumerate() {
        if let Some(at) = line.find(&find) {
            all.push((number + 1, start + at));
        }
        start += line.len() + 1;
    }
    all
}

/// The line around a place, or as much of it as is worth showing.
fn around(text: &str, at: usize) -> &str {
    let from = at.saturating_sub(AROUND);
    let from = (from..=at).find(|from| text.is_char_boundary(*from)).unwrap_or(at);
    let until = (at + AROUND * 2).min(text.len());
    let until = (until..=text.len()).find(|until| text.is_char_boundary(*until)).unwrap_or(text.len());
    let from = text.get(from..at).and_then(|before| before.rfind('\n')).map_or(from, |line| from + line + 1);
    let line = text.get(from..until).unwrap_or_default();
    line.split('\n').next().unwrap_or_default()
}

/// A text with every match marked.
fn marked(text: &str, find: &str) -> Markup {
    if find.is_empty() {
        return said(text);
    }
    let low = text.to_ascii_lowercase();
    let mut pieces = Vec::new();
    let mut from = 0;
    for (at, part) in low.match_indices(&find.to_ascii_lowercase()) {
        pieces.push((
            text.get(from..at).unwrap_or_default(),
            text.get(at..at + part.len()).unwrap_or_default(),
        ));
        from = at + part.len();
    }
    html! {
        @for (before, part) in &pieces { (said(before)) mark { (said(part)) } }
        (said(text.get(from..).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_wherever_it_stands_and_is_text() {
        let text = format!("first <b>\n{}\nthe Needle here\n", "x".repeat(TEXT_PAGE));
        let found = matches(&text, "needle");
        assert_eq!(found.first().map(|(line, _)| *line), Some(3));
        let wish = TextQuery { page: 0, find: "needle".into() };
        let page = long_text(&text, &wish, "/here").0;
        assert!(
            page.contains("<mark>Needle</mark>") && page.contains("/here?page=1&amp;find=needle"),
            "{}",
            page.get(..900).unwrap_or(&page)
        );
        assert!(!page.contains("<b>") && page.contains("first &lt;b&gt;"));
        let last = long_text(&text, &TextQuery { page: 9, find: String::new() }, "/here").0;
        assert!(last.contains("Page 2 of 2") && !last.contains("<mark>"));
        assert!(long_text("", &TextQuery::default(), "/h").0.contains("<pre"));
        assert_eq!(around("ab\ncde\nf", 4), "cde");
    }
}
