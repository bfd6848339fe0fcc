//! The API keys of a tenant: what each may do, how much, and how much it was used. Keys are made on the command line.

use axum::response::Response;
use maud::html;
use scrollback_store::KeyLimits;

use super::page::{self, NavItem};
use super::text::{dollars, number, said};
use super::viewer::{PageContent, Viewer};
use crate::{HttpProblem, quota};

pub(crate) async fn show(viewer: Viewer) -> Response {
    viewer.answer(made(&viewer).await)
}

async fn made(viewer: &Viewer) -> Result<PageContent, HttpProblem> {
    viewer.caller.may_write()?;
    let keys = viewer.store().keys().await?;
    let mut lines = Vec::new();
    for key in keys.iter().filter(|key| key.tenant == *viewer.tenant()) {
        let used = quota::use_of(&viewer.app, key).await?;
        let KeyLimits { requests_per_minute, tokens_per_minute, microdollars_per_day } = key.limits;
        let is_limited = key.limits != KeyLimits::default();
        lines.push(html! { tr {
            th scope="row" { (said(&key.name)) }
            td data-l="May" { (said(&key.scope)) }
            td data-l="State" { @match key.revoked_at { Some(at) => { span.chip.bad { "revoked" } " " (page::ago(at)) }, None => span.chip.good { "valid" } } }
            td data-l="Limits" {
                @if let Some(most) = requests_per_minute { div { (number(most)) " requests a minute" } }
                @if let Some(most) = tokens_per_minute { div { (number(most)) " tokens a minute" } }
                @if let Some(most) = microdollars_per_day { div { (dollars(most as f64 / 1e6)) " a day" } }
                @if !is_limited { span.faint { "none" } }
            }
            td data-l="Used today" { @if is_limited { (number(used.today.requests)) " requests, " (number(used.today.tokens)) " tokens, " (dollars(used.today.microdollars as f64 / 1e6)) } @else { span.faint title="only keys with a limit are counted" { "not counted" } } }
            td data-l="Last used" { @match used.last { Some(at) => (page::ago(at)), None => span.faint { "never" } } }
            td data-l="Made" { (page::ago(key.created_at)) }
        } });
    }
    let body = html! {
        div.head { h1 { "Keys" } }
        div.card.scroll {
            @if lines.is_empty() { p.in { "There are no keys: every client that reaches this port may do everything. Make one with " code { "scrollback key add NAME --scope proxy" } "; from then on every request needs a key." } } @else {
                table.rows.cards {
                    caption.out { "API keys of this tenant" }
                    thead { tr { th scope="col" { "Name" } th scope="col" { "May" } th scope="col" { "State" } th scope="col" { "Limits" } th scope="col" { "Used today (UTC)" } th scope="col" { "Last used" } th scope="col" { "Made" } } }
                    tbody { @for line in &lines { (line) } }
                }
            }
        }
        p.soft.small { "Keys are made, replaced and revoked on the command line: " code { "scrollback key" } ". A key itself is shown once and not kept." }
    };
    Ok(PageContent { title: "Keys".into(), place: NavItem::Keys, live: None, body })
}
