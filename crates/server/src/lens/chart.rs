//! The chart of a conversation: tokens by role for each call, where the prefix was cut, and what the cache gave back.

use std::fmt::Write;

use maud::{Markup, html};

use super::text::{number, plural, short};
use scrollback_core::replay::ByRole;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 22.0;
/// Room of one call where there are few.
const WIDEST: f64 = 64.0;

/// One call as the chart shows it.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Its number among the calls of the conversation, from 1.
    pub(crate) number: usize,
    /// The page that shows it.
    pub(crate) href: String,
    /// Tokens of its view.
    pub(crate) tokens: ByRole,
    /// Input tokens read from a cache, where the provider said.
    pub(crate) cached: Option<u64>,
    /// Whether the prefix was cut before it.
    pub(crate) cut: bool,
    /// Whether it is the one that is looked at.
    pub(crate) chosen: bool,
}

/// A role, and its part of the tokens.
type RoleShare = (&'static str, fn(&ByRole) -> u64);

/// Roles from the bottom of a bar to its top.
const ROLES: [RoleShare; 5] = [
    ("system", |tokens| tokens.system),
    ("summary", |tokens| tokens.summary),
    ("user", |tokens| tokens.user),
    ("assistant", |tokens| tokens.assistant),
    ("tool", |tokens| tokens.tool),
];

/// The chart, its legend, and the same numbers as a table.
pub(crate) fn chart(bars: &[Bar]) -> Markup {
    let most = bars.iter().map(|bar| bar.tokens.total().max(bar.cached.unwrap_or(0))).max().unwrap_or(0);
    let top = round_up(most);
    let across = ((WIDTH - LEFT) / bars.len().max(1) as f64).min(WIDEST);
    let thick = (across * 0.78).min(26.0);
    let up = |tokens: u64| (HEIGHT - TOP - BOTTOM) * tokens as f64 / top as f64;
    let floor = HEIGHT - BOTTOM;
    let cuts = bars.iter().filter(|bar| bar.cut).count() as u64;
    let told = format!(
        "Tokens by role for {}, at most {}. {}.",
        plural(bars.len() as u64, "call", "calls"),
        number(most),
        plural(cuts, "cut", "cuts")
    );
    html! {
        div.charted tabindex="0" { svg.chart role="group" aria-label=(told) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="xMidYMid meet" {
            @for part in 0..=2u64 {
                @let tokens = top * part / 2;
                @let y = floor - up(tokens);
                line.grid x1=(LEFT) x2=(WIDTH) y1=(y) y2=(y) {}
                text x=(LEFT - 6.0) y=(y + 3.0) text-anchor="end" { (short(tokens)) }
            }
            @for (place, bar) in bars.iter().enumerate() {
                @let middle = LEFT + across * (place as f64 + 0.5);
                @if bar.cut {
                    line.cut x1=(round(middle - across / 2.0)) x2=(round(middle - across / 2.0)) y1=(TOP - 4.0) y2=(floor) {}
                    text.cut-label x=(round(middle - across / 2.0)) y=(TOP - 7.0) text-anchor="middle" { "cut" }
                }
                a href=(bar.href) tabindex="-1" aria-label=(label(bar)) {
                    title { (label(bar)) }
                    rect.hit.chosen[bar.chosen] x=(round(middle - across / 2.0)) y=(TOP) width=(round(across)) height=(floor - TOP) {}
                    @for (role, height, y) in stack(&bar.tokens, floor, up) {
                        rect.(format!("r-{role}")) x=(round(middle - thick / 2.0)) y=(round(y)) width=(round(thick)) height=(round(height)) {}
                    }
                    @if let Some(cached) = bar.cached.filter(|cached| *cached > 0) {
                        path.cached d=(format!("M{} {}h{}", round(middle - thick / 2.0 - 1.5), round(floor - up(cached)), round(thick + 3.0))) {}
                    }
                    @if bar.chosen {
                        path.pointer d=(format!("M{} {}l5 7h-10z", round(middle), floor + 3.0)) {}
                    }
                }
                @if numbered(place, bars.len()) && !bar.chosen {
                    text x=(round(middle)) y=(HEIGHT - 6.0) text-anchor="middle" { (bar.number) }
                }
            }
        } }
        div.under { ul.legend {
            @for (role, _) in ROLES {
                li { svg aria-hidden="true" viewBox="0 0 10 10" { rect.(format!("r-{role}")) width="10" height="10" rx="2" {} } (role) }
            }
            li { svg aria-hidden="true" viewBox="0 0 10 10" { rect.r-line width="10" height="2" y="4" {} } "read from the provider's cache" }
        } }
        details.small {
            summary { "The numbers" }
            div.scroll { (table(bars)) }
        }
    }
}

fn table(bars: &[Bar]) -> Markup {
    html! {
        table.cards {
            thead { tr {
                th scope="col" { "Call" }
                @for (role, _) in ROLES { th.n scope="col" { (role) } }
                th.n scope="col" { "All" } th.n scope="col" { "From cache" } th scope="col" { "Prefix" }
            } }
            tbody { @for bar in bars { tr {
                th scope="row" { a href=(bar.href) { (bar.number) } }
                @for (role, tokens) in ROLES { td.n data-l=(role) { (number(tokens(&bar.tokens))) } }
                td.n data-l="All" { (number(bar.tokens.total())) }
                td.n data-l="From cache" { @match bar.cached { Some(cached) => (number(cached)), None => "–" } }
                td data-l="Prefix" { @if bar.cut { "cut" } @else { "kept" } }
            } } }
        }
    }
}

fn label(bar: &Bar) -> String {
    let mut text = format!("Call {}: {} tokens", bar.number, number(bar.tokens.total()));
    for (role, tokens) in ROLES {
        if tokens(&bar.tokens) > 0 {
            let _ = write!(text, ", {role} {}", number(tokens(&bar.tokens)));
        }
    }
    if let Some(cached) = bar.cached {
        let _ = write!(text, "; {} from the cache", number(cached));
    }
    if bar.cut {
        text.push_str("; the prefix was cut");
    }
    text
}

/// The parts of a bar: role, height, and where its top is.
fn stack(tokens: &ByRole, floor: f64, up: impl Fn(u64) -> f64) -> Vec<(&'static str, f64, f64)> {
    let mut below = 0;
    let mut parts = Vec::new();
    for (role, of) in ROLES {
        let part = of(tokens);
        if part > 0 {
            below += part;
            parts.push((role, up(part), floor - up(below)));
        }
    }
    parts
}

/// Whether a call's number fits below its bar: about twelve do.
fn numbered(place: usize, of: usize) -> bool {
    place == 0 || place + 1 == of || (place + 1).is_multiple_of(of.div_ceil(12).max(1))
}

/// The next number that reads well on an axis.
pub(crate) fn round_up(most: u64) -> u64 {
    let mut step = 1u64;
    loop {
        for nice in [1, 2, 4, 5, 8] {
            if let Some(top) = step.checked_mul(nice).filter(|top| *top >= most.max(2)) {
                return top;
            }
        }
        match step.checked_mul(10) {
            Some(next) => step = next,
            None => return most,
        }
    }
}

pub(crate) fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_ends_above_the_tallest_bar() {
        assert_eq!([0, 7, 12, 1_001, 81_000].map(round_up), [2, 8, 20, 2_000, 100_000]);
        assert_eq!(round_up(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_bar_says_what_it_shows() {
        let tokens = ByRole { system: 10, user: 20, assistant: 0, tool: 1_000, summary: 0 };
        let bar =
            Bar { number: 3, href: "/x?call=3".into(), tokens, cached: Some(640), cut: true, chosen: false };
        let page = chart(&[bar]).0;
        assert!(page.contains(
            "Call 3: 1,030 tokens, system 10, user 20, tool 1,000; 640 from the cache; the prefix was cut"
        ));
        assert!(page.contains("class=\"cut\"") && page.contains("r-tool") && !page.contains("style="));
    }
}
