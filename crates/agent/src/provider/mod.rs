//! Providers: a request goes out, a reply comes back, piece by piece.
//!
//! | provider | speaks |
//! |---|---|
//! | [`Http`] | Chat Completions, Responses or Messages ([`Api`]), at any [`Endpoint`] |
//! | [`Echo`] | nothing: it answers with the last user text |
//! | [`Scripted`] | nothing: it answers with what a [script] says |
//!
//! A [`Catalog`] finds them by the name of a model. An [`Upstream`] is a provider that a client's requests are passed
//! on to, byte for byte.

pub(crate) mod body;
mod catalog;
mod error;
mod http;
mod offline;
mod reply;
pub mod script;
mod upstream;
mod used_keys;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use scrollback_core::model::ModelName;
use scrollback_core::wire::Wire;

use crate::effects::BoxFuture;
pub use body::{ResponseFormat, Sampling, ToolChoice};
pub use catalog::{Catalog, Environment, ModelSettings, NoProvider, NoProviderKind, ProviderSettings};
pub use error::{ErrorKind, Overflow, ProviderError};
pub use http::{Api, Endpoint, Http};
pub use offline::{Echo, Scripted};
pub use reply::{Broken, ReplyStream};
pub use upstream::{Credential, Passed, PassedRequest, Upstream};
pub use used_keys::UsedKeys;

/// A model provider: takes requests and gives replies.
pub trait Provider: Send + Sync + fmt::Debug {
    /// What it is.
    fn describe(&self) -> ModelInfo;

    /// Sends a request. An error before the first byte of the reply is returned here, one after it by the stream.
    fn call(&self, request: Request) -> BoxFuture<'_, Result<ReplyStream, ProviderError>>;
}

/// What a provider is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// The model.
    pub model: ModelName,
    /// The format of its requests.
    pub wire: Wire,
}

/// A request, ready to go out. The body is sent as it is, so that a second try repeats the same bytes.
#[derive(Clone, Debug)]
pub struct Request {
    /// The JSON text.
    pub body: Arc<str>,
    /// How the reply shall come.
    pub delivery: ReplyDelivery,
    /// How long the whole reply may take.
    pub timeout: Duration,
}

/// How a reply comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyDelivery {
    /// As events, while it is written.
    #[default]
    Streamed,
    /// In one piece.
    Whole,
}
