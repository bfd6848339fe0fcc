//! The frame of every page, and the headers it is sent with.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use scrollback_core::{Role, Time};

use super::text::said;
use crate::auth::{ApiCaller, KeyScope};
use crate::{App, HttpProblem};

/// Nothing from elsewhere, no inline scripts or styles, no frames, no forms to others.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

const MARK: &str = r#"<svg aria-hidden="true" viewBox="0 0 32 32"><rect x="3" y="4" width="26" height="5" rx="2.5" class="r-system"/><rect x="3" y="13.5" width="26" height="5" rx="2.5" class="r-user"/><rect x="3" y="23" width="17" height="5" rx="2.5" class="r-assistant"/></svg>"#;

/// The places of the lens, as its navigation lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NavItem {
    Sessions,
    Runs,
    Search,
    Simulate,
    Import,
    People,
    Keys,
    Health,
    /// Not among them.
    Elsewhere,
}

const PLACES: [(NavItem, &str, &str); 8] = [
    (NavItem::Sessions, "/lens", "Sessions"),
    (NavItem::People, "/lens/people", "People"),
    (NavItem::Runs, "/lens/runs", "Runs"),
    (NavItem::Search, "/lens/search", "Search"),
    (NavItem::Simulate, "/lens/simulate", "Compare"),
    (NavItem::Import, "/lens/import", "Import"),
    (NavItem::Keys, "/lens/keys", "Keys"),
    (NavItem::Health, "/lens/health", "Health"),
];

/// A page of the lens.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    pub(crate) place: NavItem,
    /// What it listens to, if it is live.
    pub(crate) live: Option<String>,
    pub(crate) body: Markup,
}

impl Page<'_> {
    /// The page with its frame and headers.
    pub(crate) fn show(&self, app: &App, caller: Option<&ApiCaller>) -> Response {
        self.show_as(StatusCode::OK, app, caller)
    }

    /// The same with another status.
    pub(crate) fn show_as(&self, status: StatusCode, app: &App, caller: Option<&ApiCaller>) -> Response {
        let keyed = caller.is_some_and(|caller| caller.key.is_some());
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="robots" content="noindex";
                    title { (said(self.title)) " · Scrollback" }
                    link rel="stylesheet" href="/lens/assets/lens.css";
                    link rel="icon" href="/lens/assets/icon.svg" type="image/svg+xml";
                    script src="/lens/assets/lens.js" defer {}
                }
                body data-live=[self.live.as_deref()] {
                    a.skip href="#main" { "To the content" }
                    header.top { div {
                        a.brand href="/lens" { (PreEscaped(MARK)) "Scrollback" }
                        @if caller.is_some() {
                            nav aria-label="Places" { @for (place, href, name) in PLACES {
                                a href=(href) aria-current=[(place == self.place).then_some("page")] { (name) }
                            } }
                            form action="/lens/search" method="get" role="search" {
                                label.out for="q" { "Search everything that was said (press /)" }
                                input #q type="search" name="q" placeholder="Search everything that was said" autocomplete="off";
                            }
                        }
                    } }
                    main #main { (self.body) }
                    (key_list())
                    footer {
                        @if let Some(caller) = caller {
                            "Tenant " (said(caller.tenant.as_str())) " · " (said(&app.store.describe()))
                            " · " a href="/api/openapi.json" { "API" }
                            " · " button.plain type="button" data-opens="keys" { "Keys: press ?" }
                            @if self.live.is_some() { " · " span #live role="status" { "not live" } }
                            @if keyed { " · " form.inline method="post" action="/lens/logout" { button { "Log out" } } }
                        }
                    }
                }
            }
        };
        framed(status, page)
    }
}

/// The keys, shown by `?`.
fn key_list() -> Markup {
    let keys = [
        ("?", "this list"),
        ("j, k", "next and previous entry or row"),
        ("Enter", "opens the row or fold"),
        ("←, →", "call before, next call"),
        ("/", "search"),
        ("g s", "sessions"),
        ("c", "compare managers"),
        (".", "copy the handle of the entry"),
        ("Esc", "closes this list"),
    ];
    html! {
        dialog.keys #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl { @for (key, does) in keys { div { dt { kbd { (key) } } dd { (does) } } } }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// Markup with the headers of a page.
pub(crate) fn framed(status: StatusCode, markup: Markup) -> Response {
    let mut response = (status, markup.into_string()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A problem as a page.
pub(crate) fn trouble(app: &App, caller: Option<&ApiCaller>, problem: &HttpProblem) -> Response {
    let title = match problem.status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        _ => "That did not work",
    };
    let body = html! {
        div.head { h1 { (title) } }
        p.note.bad role="alert" { (said(&problem.detail)) }
        p { a href="/lens" { "To the sessions" } }
    };
    Page { title, place: NavItem::Elsewhere, live: None, body }.show_as(problem.status, app, caller)
}

/// Whether a viewer may ask to see what is redacted.
pub(crate) fn may_reveal(caller: &ApiCaller) -> bool {
    caller.scope == KeyScope::Admin
}

/// A time, exact to the second for people and to the millisecond for programs.
pub(crate) fn time(at: Time) -> Markup {
    let exact = at.to_string();
    let shown = exact.get(..19).map(|text| text.replace('T', " ")).unwrap_or_default();
    html! { time datetime=(exact) title=(exact) { (shown) } }
}

/// The same in a column: with script it reads "3 min ago", and the exact local time where it is pointed at.
pub(crate) fn ago(at: Time) -> Markup {
    let exact = at.to_string();
    let shown = exact.get(..16).map(|text| text.replace('T', " ")).unwrap_or_default();
    html! { time.ago datetime=(exact) title=(exact) { (shown) " UTC" } }
}

/// A role, in its colour.
pub(crate) fn role(role: Role) -> Markup {
    html! { span.role.(role.as_str()) { (role.as_str()) } }
}

/// A status, in the colour of what it means.
pub(crate) fn status(name: &str) -> Markup {
    let class = match name {
        "active" | "done" | "ok" | "running" => "good",
        "awaiting_answer" | "paused" | "interrupted" | "sent" => "warn",
        "closed" | "idle" | "skipped" => "",
        // Everything else is what went wrong.
        _ => "bad",
    };
    html! { span.chip.(class) { (said(&name.replace('_', " "))) } }
}

/// A path segment or query value, safe in an address.
pub(crate) fn coded(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
