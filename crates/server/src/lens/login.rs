//! The login: a key is exchanged for a cookie that scripts cannot read and other sites cannot send.

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;

use super::form::FormFields;
use super::page::{NavItem, Page, trouble};
use super::text::said;
use crate::auth::Transport;
use crate::{App, auth};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct LoginQuery {
    to: String,
}

pub(crate) async fn show(State(app): State<App>, Query(wish): Query<LoginQuery>) -> Response {
    page(&app, StatusCode::OK, &wish.to, None)
}

fn page(app: &App, status: StatusCode, to: &str, problem: Option<&str>) -> Response {
    let body = html! {
        section.card.narrow { h1.in { "Log in" } div.in {
            form.stack method="post" action="/lens/login" {
                p { "This server requires one of its keys, of scope " code { "read" } " or " code { "admin" } "." }
                input type="hidden" name="to" value=(to);
                div { label for="key" { "Key" } input #key type="password" name="key" required autocomplete="current-password" autofocus; }
                @if let Some(problem) = problem { p.note.bad role="alert" { (said(problem)) } }
                div { button.first { "Log in" } }
                p.soft.small { "The operator makes keys with " code { "scrollback key add NAME --scope read" } "." }
            }
        } }
    };
    Page { title: "Log in", place: NavItem::Elsewhere, live: None, body }.show_as(status, app, None)
}

pub(crate) async fn take(State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    let fields = match FormFields::of_stranger(&app, &headers, body).await {
        Ok(fields) => fields,
        Err(problem) => return trouble(&app, None, &problem),
    };
    let to = fields.text("to");
    match auth::login(&app, &fields.text("key"), Transport::of(&headers)).await {
        Ok(Some(cookie)) => with_cookie(Redirect::to(within(&to)).into_response(), &cookie),
        Ok(None) => page(&app, StatusCode::UNAUTHORIZED, &to, Some("This key is not valid on this server.")),
        Err(error) => trouble(&app, None, &error.into()),
    }
}

pub(crate) async fn leave() -> Response {
    with_cookie(Redirect::to("/lens/login").into_response(), &auth::logout())
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// A page of the lens to go to; never another site's.
fn within(to: &str) -> &str {
    let ours = to == "/lens" || to.starts_with("/lens/") || to.starts_with("/lens?");
    if ours && to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') { to } else { "/lens" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_leads_to_our_own_pages_only() {
        assert_eq!(within("/lens/calls/x?reveal=1"), "/lens/calls/x?reveal=1");
        for foreign in [
            "https://evil.example",
            "//evil.example",
            "/lensx",
            "",
            "/lens/\r\nset-cookie: a=b",
            "/lens\\evil",
        ] {
            assert_eq!(within(foreign), "/lens", "{foreign:?}");
        }
    }
}
