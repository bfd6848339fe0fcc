//! Who looks at a page, and what they may see.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use maud::Markup;
use scrollback_store::{Store, Tenant};

use super::page::{NavItem, Page, coded, may_reveal, trouble};
use super::text::Eyes;
use crate::secrets::log_reveal;
use crate::{ApiCaller, App, HttpProblem};

/// A viewer who is logged in. Others are sent to the login.
pub(crate) struct Viewer {
    pub(crate) app: App,
    pub(crate) caller: ApiCaller,
    /// Whether they asked to see secrets, and may.
    reveal: bool,
}

impl FromRequestParts<App> for Viewer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let Some(caller) = parts.extensions.get::<ApiCaller>().cloned() else {
            let to = parts.uri.path_and_query().map_or("/lens", |path| path.as_str());
            return Err(Redirect::to(&format!("/lens/login?to={}", coded(to))).into_response());
        };
        if let Err(problem) = caller.may_read() {
            return Err(trouble(app, None, &problem));
        }
        let asked = parts.uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "reveal=1"));
        let reveal = asked && may_reveal(&caller);
        if reveal {
            log_reveal(&caller, parts.uri.path());
        }
        Ok(Viewer { app: app.clone(), reveal, caller })
    }
}

impl Viewer {
    pub(crate) fn store(&self) -> &dyn Store {
        self.app.store.as_ref()
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.caller.tenant
    }

    /// What texts look like to them.
    pub(crate) fn eyes(&self) -> Eyes<'_> {
        if self.reveal { Eyes::Open } else { Eyes::Redacted(&self.app.redactor) }
    }

    /// Whether they see secrets.
    pub(crate) fn sees_all(&self) -> bool {
        self.reveal
    }

    /// A page, or what went wrong as one.
    pub(crate) fn answer(&self, made: Result<PageContent, HttpProblem>) -> Response {
        match made {
            Ok(shown) => Page { title: &shown.title, place: shown.place, live: shown.live, body: shown.body }
                .show(&self.app, Some(&self.caller)),
            Err(problem) => trouble(&self.app, Some(&self.caller), &problem),
        }
    }
}

/// What a page shows inside its frame.
pub(crate) struct PageContent {
    pub(crate) title: String,
    pub(crate) place: NavItem,
    pub(crate) live: Option<String>,
    pub(crate) body: Markup,
}
