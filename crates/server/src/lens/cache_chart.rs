//! Calls as bars of what the cache gave back: read from it, written to it, and beside it. A mark above a bar is a break.

use maud::{Markup, html};

use super::chart::{round, round_up};
use super::text::{dollars, number, plural, short};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 8.0;
/// Room of one call where there are few.
const WIDEST: f64 = 48.0;

/// One call.
pub(crate) struct CacheBar {
    pub(crate) name: String,
    pub(crate) href: String,
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) uncached: u64,
    /// Tokens that the cache should have had and were read again.
    pub(crate) lost: u64,
    pub(crate) cost: Option<f64>,
    /// Whether it is the one that is looked at.
    pub(crate) chosen: bool,
}

impl CacheBar {
    fn parts(&self) -> [(&'static str, u64); 3] {
        [("r-read", self.read), ("r-written", self.written), ("r-uncached", self.uncached)]
    }

    fn total(&self) -> u64 {
        self.read + self.written + self.uncached
    }

    fn label(&self) -> String {
        let mut text = format!(
            "{}: {} read from the cache, {} written, {} beside it",
            self.name,
            number(self.read),
            number(self.written),
            number(self.uncached)
        );
        if let Some(cost) = self.cost {
            text += "; ";
            text += &dollars(cost);
        }
        if self.lost > 0 {
            text += "; the prefix broke, ";
            text += &number(self.lost);
            text += " tokens were read again";
        }
        text
    }
}

/// The chart and its legend. The tables below it on the page have the numbers.
pub(crate) fn cache_chart(bars: &[CacheBar]) -> Markup {
    let top = round_up(bars.iter().map(CacheBar::total).max().unwrap_or(0));
    let across = ((WIDTH - LEFT) / bars.len().max(1) as f64).min(WIDEST);
    let thick = (across * 0.8).clamp(1.0, 24.0);
    let floor = HEIGHT - BOTTOM;
    let up = |tokens: u64| (floor - TOP) * tokens as f64 / top as f64;
    let broken = bars.iter().filter(|bar| bar.lost > 0).count() as u64;
    let told = format!(
        "Input tokens of {}, by what the cache gave back; {}.",
        plural(bars.len() as u64, "call", "calls"),
        plural(broken, "break", "breaks")
    );
    html! {
        div.charted tabindex="0" { svg.chart role="group" aria-label=(told) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="xMidYMid meet" {
            @for part in 0..=2u64 {
                @let y = floor - up(top * part / 2);
                line.grid x1=(LEFT) x2=(WIDTH) y1=(y) y2=(y) {}
                text x=(LEFT - 6.0) y=(y + 3.0) text-anchor="end" { (short(top * part / 2)) }
            }
            @for (place, bar) in bars.iter().enumerate() {
                @let middle = LEFT + across * (place as f64 + 0.5);
                a href=(bar.href) tabindex="-1" aria-label=(bar.label()) {
                    title { (bar.label()) }
                    rect.hit.chosen[bar.chosen] x=(round(middle - across / 2.0)) y=(TOP) width=(round(across)) height=(floor - TOP) {}
                    @for (class, height, y) in stack(bar, floor, up) {
                        rect.(class) x=(round(middle - thick / 2.0)) y=(round(y)) width=(round(thick)) height=(round(height)) {}
                    }
                    @if bar.lost > 0 {
                        @let y = floor - up(bar.total());
                        path.broke d=(format!("M{} {}l4 -8h-8z", round(middle), round(y - 2.0))) {}
                    }
                }
            }
        } }
        ul.legend {
            @for (class, word) in [("r-read", "read from the cache"), ("r-written", "written to the cache"), ("r-uncached", "beside the cache")] {
                li { svg aria-hidden="true" viewBox="0 0 10 10" { rect.(class) width="10" height="10" rx="2" {} } (word) }
            }
            li { svg aria-hidden="true" viewBox="0 0 10 10" { path.broke d="M5 9l4 -8h-8z" {} } "the prefix broke" }
        }
    }
}

/// The parts of a bar: class, height, and where its top is.
fn stack(bar: &CacheBar, floor: f64, up: impl Fn(u64) -> f64) -> Vec<(&'static str, f64, f64)> {
    let mut below = 0;
    let mut parts = Vec::new();
    for (class, tokens) in bar.parts() {
        if tokens > 0 {
            below += tokens;
            parts.push((class, up(tokens), floor - up(below)));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_call_bears_a_mark_and_says_so() {
        let bar = |lost| CacheBar {
            name: "main call 2".into(),
            href: "/lens/calls/x".into(),
            read: 1_000,
            written: 20,
            uncached: 3,
            lost,
            cost: Some(0.5),
            chosen: false,
        };
        let told = bar(900).label();
        assert_eq!(
            told,
            "main call 2: 1,000 read from the cache, 20 written, 3 beside it; $0.50; the prefix broke, 900 tokens were read again"
        );
        assert!(cache_chart(&[bar(900)]).0.matches("class=\"broke\"").count() == 2);
        assert!(cache_chart(&[bar(0)]).0.matches("class=\"broke\"").count() == 1, "only the legend");
    }
}
