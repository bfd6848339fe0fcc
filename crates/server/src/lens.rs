//! The lens: pages that show what every call really saw.

use axum::Router;

use crate::App;

/// The pages, from `/` on.
pub fn router() -> Router<App> {
    Router::new()
}
