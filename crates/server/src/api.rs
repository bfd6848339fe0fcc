//! The REST API.

use axum::Router;

use crate::App;

/// Everything below `/api`.
pub fn router() -> Router<App> {
    Router::new()
}
