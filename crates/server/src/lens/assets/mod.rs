//! What pages are dressed with, built into the program.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

const ASSETS: [(&str, &str, &str); 3] = [
    ("lens.css", "text/css; charset=utf-8", include_str!("lens.css")),
    ("lens.js", "text/javascript; charset=utf-8", include_str!("lens.js")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
];

pub(crate) async fn serve(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, _, _)| *known == name) {
        Some((_, kind, text)) => {
            let headers = [
                (header::CONTENT_TYPE, *kind),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::CACHE_CONTROL, "no-cache"),
            ];
            (headers, *text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
