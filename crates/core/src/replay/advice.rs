//! Which manager to take: the frontier of cost and retention, and one of it in words.

use super::figures::Figures;

/// A manager that is recommended, with the reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The manager, as it was given; none where the replayed conversations do not tell the managers apart.
    pub manager: Option<String>,
    /// One sentence for people.
    pub reason: String,
}

/// The candidate with the lowest sum of cost and loss, both as shares of sending everything; none if nothing was replayed.
///
/// A candidate that gave up does not take part, and neither does one of which nothing is known: because every call was above
/// its budget in what must stay, or because it never had to leave out anything that a reply used.
pub fn advice(all: &[&Figures]) -> Option<Advice> {
    let able = || all.iter().filter(|figures| figures.stopped.is_none() && figures.calls > 0);
    let loss = |figures: &Figures| kept(figures).map(|kept| cost(figures) + 1.0 - kept);
    let weighed = able().filter_map(|figures| Some((loss(figures)?, *figures)));
    let Some((_, best)) = weighed.min_by(|(one, _), (other, _)| one.total_cmp(other)) else {
        return able().next().map(|_| Advice {
            manager: None,
            reason:
                "No manager can be recommended: no reply used a value that a manager could have left out."
                    .into(),
        });
    };
    let price = best
        .cost_ratio
        .map_or_else(String::new, |ratio| format!(" at {ratio:.2} × the cost of sending everything"));
    let told = [
        best.at_cut.argument_retention.map(|share| format!("{} of the arguments", percent(share))),
        best.at_cut.answer_grounding.map(|share| format!("{} of the answers", percent(share))),
    ];
    let shares = told.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let infeasible = if best.infeasible > 0 {
        format!("; at {} of {} calls what must stay is above its budget", best.infeasible, best.calls)
    } else {
        String::new()
    };
    Some(Advice {
        manager: Some(best.manager.clone()),
        reason: format!("Take {}: it keeps {shares}{price}{infeasible}.", best.manager),
    })
}

/// Whether no other candidate is cheaper and keeps more. Never true of one that gave up or of which nothing is known.
pub fn on_frontier(one: &Figures, all: &[&Figures]) -> bool {
    let known = |figures: &Figures| kept(figures).filter(|_| figures.stopped.is_none());
    let Some(own) = known(one) else { return false };
    !all.iter().any(|other| {
        known(other).is_some_and(|kept| {
            let (dearer, more) = (cost(other) - cost(one), kept - own);
            dearer <= 0.0 && more >= 0.0 && (dearer < 0.0 || more > 0.0)
        })
    })
}

/// What a candidate keeps where its choice decides: the mean of arguments and answers, as far as they are known. Calls whose
/// protected part alone is above the budget count as lost. None where nothing was at stake.
pub fn kept(figures: &Figures) -> Option<f64> {
    let shares = [figures.at_cut.argument_retention, figures.at_cut.answer_grounding];
    let known: Vec<f64> = shares.into_iter().flatten().collect();
    if known.is_empty() {
        return None;
    }
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    let feasible = figures.calls.saturating_sub(figures.infeasible) as f64 / figures.calls.max(1) as f64;
    Some(mean * feasible)
}

/// What it costs in proportion to sending everything; more than anything where that is not known.
pub fn cost(figures: &Figures) -> f64 {
    figures.cost_ratio.unwrap_or(f64::MAX)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::replay::{Loss, Tally};

    fn figures(manager: &str, cost: f64, kept: Option<f64>, infeasible: u64) -> Figures {
        let tally = Tally { calls: 10, infeasible, ..Tally::default() };
        Figures {
            cost_ratio: Some(cost),
            at_cut: Loss { argument_retention: kept, answer_grounding: None },
            ..tally.figures(manager, None)
        }
    }

    #[test]
    fn a_manager_of_which_nothing_is_known_is_not_recommended() {
        let (all, cheap) = (figures("passthrough", 1.0, Some(1.0), 0), figures("tight", 0.1, None, 10));
        let good = figures("good", 0.5, Some(0.9), 0);
        let rows = [&all, &cheap, &good];
        let told = advice(&rows).unwrap();
        assert_eq!(told.manager.as_deref(), Some("good"));
        assert_eq!(
            told.reason,
            "Take good: it keeps 90 % of the arguments at 0.50 × the cost of sending everything."
        );
        assert!(!on_frontier(&cheap, &rows) && on_frontier(&good, &rows) && on_frontier(&all, &rows));
    }

    #[test]
    fn calls_that_do_not_fit_count_as_lost() {
        let (good, tight) = (figures("good", 0.5, Some(0.9), 0), figures("tight", 0.4, Some(1.0), 8));
        assert_eq!(advice(&[&good, &tight]).unwrap().manager.as_deref(), Some("good"));
        assert!((kept(&tight).unwrap() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn where_nothing_was_at_stake_no_manager_is_named() {
        let told = advice(&[&figures("one", 0.5, None, 0)]).unwrap();
        assert_eq!(told.manager, None);
        assert_eq!(advice(&[]), None);
    }
}
