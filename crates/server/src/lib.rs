//! The server: a proxy that existing clients point their base URL at, a REST API over the store, and the lens.
//!
//! - An [`App`] is everything requests share: the store, the settings, the models, who is listening.
//! - [`serve()`] accepts connections on one port until it is asked to stop. [`router()`] says what is where.
//! - `proxy` answers `/v1/*`: it records what a client says, sends its provider the view, and passes the reply on as it
//!   comes while a copy is read for the record.
//! - [`api`] is the REST API, [`lens`] the pages for people.
//! - [`mcp`] offers the recall tools to other programs.
//! - [`auth`] tells who calls: a [`ApiCaller`] has a tenant and a scope, and no query leaves its tenant. [`keys`] makes and
//!   judges API keys.
//! - A [`HttpProblem`] is what went wrong, in the form of RFC 9457; the proxy says it in the form of the client's provider.
//!
//! Nothing here keeps state that is not in the store, so any number of servers may share one.

pub mod api;
mod app;
pub mod auth;
mod background_tasks;
mod body;
mod connection_limits;
mod content_encoding;
mod events;
mod fair;
mod follow_ups;
pub mod keys;
mod known_calls;
pub mod lens;
pub mod mcp;
mod memory;
mod metrics;
mod off_loop;
mod origin_check;
mod problem;
mod proxy;
mod quota;
mod ready;
mod recorded_calls;
mod retention;
mod router;
pub mod runs;
mod secrets;
mod serve;
mod simulation_tables;
mod transfer;
pub mod usage;
mod visibility;
mod workers;
mod write_queue;

pub use app::{Answerers, App};
pub use auth::{ApiCaller, KeyScope};
pub use events::{About, Events, Live};
pub use metrics::Metrics;
pub use problem::HttpProblem;
pub use quota::LAST_USE;
pub use router::router;
pub use serve::{Listening, bind, serve};

/// Does work that takes long on a thread of its own, so that other requests do not wait for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HttpProblem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        let detail = "the answer could not be worked out; the log has more";
        HttpProblem::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    })
}
