//! What was spent on each day, as a strip of bars.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::chart::round;
use super::text::dollars;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 56.0;
/// Days shown, the newest.
const DAYS: usize = 90;

/// The strip, with the same numbers in a table.
pub(crate) fn day_strip(days: &BTreeMap<String, f64>) -> Markup {
    let shown: Vec<(&String, f64)> = days
        .iter()
        .rev()
        .take(DAYS)
        .map(|(day, cost)| (day, *cost))
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    let most = shown.iter().map(|(_, cost)| *cost).fold(0.0, f64::max);
    let across = (WIDTH / shown.len().max(1) as f64).min(32.0);
    html! { @if most > 0.0 {
        div {
            div.soft.small { "Cost by day (UTC), at most " (dollars(most)) }
            svg.days role="img" aria-label=(format!("Cost by day, at most {}.", dollars(most))) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="xMinYMid meet" {
                @for (place, (day, cost)) in shown.iter().enumerate() {
                    @let height = (cost / most * (HEIGHT - 4.0)).max(1.0);
                    rect.r-user x=(round(across * place as f64 + 1.0)) y=(round(HEIGHT - height)) width=(round(across - 2.0)) height=(round(height)) { title { (day) ": " (dollars(*cost)) } }
                }
            }
            details.small { summary { "The numbers" } div.scroll { table.cards {
                thead { tr { th scope="col" { "Day" } th.n scope="col" { "Cost" } } }
                tbody { @for (day, cost) in shown.iter().rev() { tr { th scope="row" { (day) } td.n data-l="Cost" { (dollars(*cost)) } } } }
            } } }
        }
    } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_bars_and_nothing_is_no_strip() {
        assert_eq!(day_strip(&BTreeMap::new()).0, "");
        let days = [("2026-01-01".to_string(), 0.5), ("2026-01-03".to_string(), 2.0)];
        let page = day_strip(&days.into()).0;
        assert!(page.contains("2026-01-03: $2.00") && page.matches("<rect").count() == 2);
    }
}
