//! What a person said: their own words as markdown, what their client put around them behind a click.

use maud::{Markup, html};
use scrollback_core::Role;
use scrollback_core::identity::without_wrappers;

use super::super::text::{Eyes, Length, length, number};
use super::markdown;

/// Instructions up to this many bytes are shown at once; longer ones are the same in every call and wait behind a click.
const SHORT_INSTRUCTIONS: usize = 400;

/// A text of an entry. `whole` is the page that shows all of it.
pub(crate) fn speech(eyes: Eyes<'_>, role: Role, text: &str, whole: &str) -> Markup {
    match role {
        Role::Assistant => prose(eyes, text, whole),
        Role::System if text.len() > SHORT_INSTRUCTIONS => html! {
            details.fold {
                summary { span.soft { "instructions" } span { (eyes.glance(text, 90)) } }
                div.in { (prose(eyes, text, whole)) }
            }
        },
        _ => {
            let own = without_wrappers(text);
            html! {
                @if !own.trim().is_empty() { (prose(eyes, own.trim_matches('\n'), whole)) }
                @if own.len() < text.len() {
                    details.fold {
                        summary { span.soft { "as the client sent it" } span { (eyes.glance(text, 90)) } }
                        div.in { (eyes.long(text, "text", whole)) }
                    }
                }
            }
        }
    }
}

/// Words as markdown, folded where they are long.
fn prose(eyes: Eyes<'_>, text: &str, whole: &str) -> Markup {
    let text = eyes.see(text);
    match length(&text) {
        Length::Short => html! { div.md dir="auto" { (markdown(&text)) } },
        Length::Long(characters) => html! {
            div.clamped {
                details.more { summary { "Show all " (number(characters)) " characters" } }
                div.md dir="auto" { (markdown(&text)) }
            }
        },
        Length::Huge(characters, cut) => html! {
            div.md dir="auto" { (markdown(text.get(..cut).unwrap_or_default())) }
            p.more.small { a href=(whole) { "Show all " (number(characters)) " characters" } }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reminders_of_a_client_stand_behind_a_click() {
        let text = "<system-reminder>be **kind**</system-reminder>\nfix `main.rs`";
        let shown = speech(Eyes::Open, Role::User, text, "/whole").0;
        assert!(
            shown.starts_with("<div class=\"md\" dir=\"auto\"><p>fix <code>main.rs</code></p></div><details"),
            "{shown}"
        );
        assert!(
            shown.contains("as the client sent it") && !shown.contains("<strong>kind</strong>"),
            "{shown}"
        );
    }

    #[test]
    fn long_instructions_are_folded_and_replies_are_not() {
        let long = "word ".repeat(200);
        assert!(speech(Eyes::Open, Role::System, &long, "/w").0.starts_with("<details"));
        assert!(speech(Eyes::Open, Role::System, "Be brief.", "/w").0.starts_with("<div"));
        assert!(speech(Eyes::Open, Role::Assistant, &long, "/w").0.starts_with("<div class=\"md\""));
        assert!(
            speech(Eyes::Open, Role::Assistant, &"word ".repeat(2_000), "/w")
                .0
                .contains("Show all 10,000 characters")
        );
        assert!(speech(Eyes::Open, Role::Assistant, &"word ".repeat(20_000), "/w").0.contains("href=\"/w\""));
    }
}
