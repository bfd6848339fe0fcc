//! The lens: pages that show what every call really saw.
//!
//! Every page has an address that stays, is made by the server, and works without script; `assets/lens.js` makes it follow
//! what happens. `text` is the one place where other people's words become markup, `page` the frame and its headers.
//! `chart`, `diff` and `timeline` are pure: values in, markup out. What only looks is GET; what changes something is POST.

mod assets;
mod cache;
mod cache_account;
mod cache_cause;
mod cache_chart;
mod call;
mod chart;
mod conversation;
mod day_strip;
mod diff;
mod form;
mod health;
mod import;
mod keys;
mod login;
mod long_text;
mod media;
mod page;
mod panel;
mod people;
mod render;
mod runs;
mod sample;
mod search;
mod session_row;
mod session_tree;
mod sessions;
mod simulate;
mod text;
mod timeline;
mod tree;
mod viewer;
mod welcome;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::Redirect;
use axum::routing::{get, post};

use crate::App;
pub(crate) use health::LastVerified;

/// The pages, from `/` on.
pub fn router() -> Router<App> {
    Router::new()
        // Clients check that a server answers before they send anything.
        .route("/", get(|| async { Redirect::to("/lens") }).head(|| async {}))
        .route("/lens", get(sessions::show))
        .route("/lens/sums", get(sessions::sums))
        .route("/lens/sessions/{id}", get(session_tree::show))
        .route("/lens/sessions/{id}/cache", get(cache::show))
        .route("/lens/conversations/{id}", get(conversation::show))
        .route("/lens/conversations/{id}/sight", get(conversation::sight))
        .route("/lens/conversations/{id}/entries/{position}", get(conversation::entry))
        .route("/lens/conversations/{id}/entries/{position}/media/{number}", get(media::show))
        .route("/lens/handles/{handle}", get(conversation::handle))
        .route("/lens/calls/{id}", get(call::show))
        .route("/lens/calls/{id}/{part}", get(call::body))
        .route("/lens/people", get(people::list))
        .route("/lens/people/{recipient}", get(people::show))
        .route("/lens/people/{recipient}/erase", post(people::erase))
        .route("/lens/keys", get(keys::show))
        .route("/lens/health", get(health::show))
        .route("/lens/health/sizes", get(health::sizes))
        .route("/lens/health/verify", post(health::verify))
        .route("/lens/runs", get(runs::list))
        .route("/lens/runs/{id}", get(runs::show))
        .route("/lens/runs/{id}/answer", post(runs::answer))
        .route("/lens/search", get(search::show))
        .route("/lens/simulate", get(simulate::show))
        .route("/lens/import", get(import::show).post(import::take))
        .route("/lens/sample", post(sample::load))
        .route("/lens/login", get(login::show).post(login::take))
        .route("/lens/logout", post(login::leave))
        .route("/lens/assets/{name}", get(assets::serve))
        // What is posted is read by `form`, which knows how much the server takes.
        .layer(DefaultBodyLimit::disable())
}
