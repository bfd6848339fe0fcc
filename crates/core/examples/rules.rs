//! Prints the reference of all rules: `cargo run -p scrollback-core --example rules > docs/rules.md`.

use std::fmt::Write as _;

use scrollback_core::wire::Wire;
use scrollback_core::wire::check::{Evidence, Rule, rules, unseen};

const HEAD: &str = "\
# Rules

Every rule that `scrollback check` knows, by wire. [The guide](wires.md) says how to check and repair; this page is
printed from the tables that the check itself uses (`cargo run -p scrollback-core --example rules`), and a test fails
if the two differ.

| column | says |
|---|---|
| severity | `R` the request is refused, `S` something is dropped or merged without a word, `Q` the answers get worse, `$` it costs more, `-` nothing: the rule says what is allowed, and is never reported |
| holds for | the models; empty means all. Without `--model` such a rule is reported with this text and does not count |
| repair | what `--repair` does about it. It repairs only what counts: `R`, for the model named, unverified rules with `--strict`. Where the column is empty, what offends is left out as far as it can be |
| unverified | known from general knowledge only, not from types, documentation, an error text or another implementation. Counts only with `--strict` |

Some rules have details that are less certain or weigh less than the rule: `check` then reports the place with the
detail's own letter and mark.
";

/// The page, as it stands in `docs/rules.md`.
pub(crate) fn page() -> String {
    let mut page = String::from(HEAD);
    for wire in Wire::ALL.into_iter().filter(|wire| !rules(*wire).is_empty()) {
        let _ = writeln!(page, "\n## {wire}\n\n| id | severity | holds for | rule | repair | unverified |");
        let _ = writeln!(page, "|---|---|---|---|---|---|");
        for rule in rules(wire) {
            page.push_str(&row(wire, rule));
        }
    }
    page.push_str(
        "\n## scrollback\n\nThe neutral form has no provider, so nothing refuses it. It has no rules.\n",
    );
    page
}

fn row(wire: Wire, rule: &Rule) -> String {
    let models = rule.gate.map_or("", |gate| gate.models);
    let says = if unseen(wire).contains(&rule.id) {
        format!("{} (no body shows this: listed, never found)", rule.says)
    } else {
        rule.says.to_string()
    };
    let mark = if rule.evidence == Evidence::Unverified { "yes" } else { "" };
    let cell = |text: &str| text.replace('|', "\\|");
    format!(
        "| {} | `{}` | {} | {} | {} | {mark} |\n",
        rule.id,
        rule.severity,
        cell(models),
        cell(&says),
        cell(rule.repair)
    )
}

#[allow(dead_code, reason = "the test of the documentation needs the page only")]
fn main() {
    print!("{}", page());
}
