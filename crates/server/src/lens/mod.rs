//! The lens: pages that show what every call really saw.
//!
//! Every page has an address that stays, is made by the server, and works without script; `assets/lens.js` makes it follow
//! what happens. `text` is the one place where other people's words become markup, `page` the frame and its headers.
//! `chart`, `diff` and `timeline` are pure: values in, markup out. What only looks is GET; what changes something is POST.

mod assets;
mod call;
mod chart;
mod conversation;
mod conversations;
mod diff;
mod form;
mod import;
mod login;
mod page;
mod panel;
mod render;
mod runs;
mod sample;
mod search;
mod simulate;
mod text;
mod timeline;
mod tree;
mod viewer;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::Redirect;
use axum::routing::{get, post};

use crate::App;

/// The pages, from `/` on.
pub fn router() -> Router<App> {
    Router::new()
        // Clients look whether anybody is there before they say anything.
        .route("/", get(|| async { Redirect::to("/lens") }).head(|| async {}))
        .route("/lens", get(conversations::show))
        .route("/lens/conversations/{id}", get(conversation::show))
        .route("/lens/conversations/{id}/sight", get(conversation::sight))
        .route("/lens/conversations/{id}/entries/{position}", get(conversation::entry))
        .route("/lens/handles/{handle}", get(conversation::handle))
        .route("/lens/calls/{id}", get(call::show))
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
