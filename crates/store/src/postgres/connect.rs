//! Connections of the pool: how one is made, and what a server must be like to be used.

use std::future::Future;
use std::pin::Pin;

use deadpool_postgres::{Connect, HookError};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, SimpleQueryMessage};

use super::settings::{Security, Settings};
use super::tls::Tls;

/// Connects as the settings say.
pub(super) struct Reach {
    pub(super) tls: Tls,
    pub(super) security: Security,
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl Connect for Reach {
    fn connect(&self, config: &Config) -> Connecting<'_> {
        let config = config.clone();
        Box::pin(async move {
            match connect(&config, self.tls.clone()).await {
                // Encryption was only preferred, so without it is better than not at all.
                Err(error) if self.security == Security::Prefer && without_helps(&error) => {
                    let mut plain = config;
                    plain.ssl_mode(SslMode::Disable);
                    connect(&plain, self.tls.clone()).await
                }
                other => other,
            }
        })
    }
}

async fn connect(config: &Config, tls: Tls) -> Result<(Client, JoinHandle<()>), Error> {
    let (client, connection) = config.connect(tls).await?;
    let driving = tokio::spawn(async move {
        // The client that is in use reports the error.
        let _ = connection.await;
    });
    Ok((client, driving))
}

/// Whether a server may be reached without encryption that could not be reached with it.
fn without_helps(error: &Error) -> bool {
    let refused = error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
    refused || error.to_string().starts_with("error performing TLS handshake")
}

/// Settings of the server that decide whether an acknowledged commit is on its disk.
const LOOKED_AT: &str =
    "select name, setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit')";

/// Refuses a server that acknowledges commits before they are durable, unless the URL accepts that.
pub(super) async fn durable(client: &Client, settings: &Settings) -> Result<(), HookError> {
    let rows = client.simple_query(LOOKED_AT).await.map_err(HookError::Backend)?;
    for row in rows {
        let SimpleQueryMessage::Row(row) = row else { continue };
        let (name, setting) = (row.get(0).unwrap_or_default(), row.get(1).unwrap_or_default());
        let refused = match name {
            "fsync" => setting != "on" && !settings.accepts_no_fsync,
            "full_page_writes" => {
                setting != "on" && !settings.accepts_torn_pages && !settings.accepts_no_fsync
            }
            _ => !["on", "remote_apply"].contains(&setting) && settings.synchronous_commit.is_none(),
        };
        if refused {
            return Err(HookError::message(format!(
                "{name} is {setting}: what was acknowledged could be lost when the machine fails; set it to on, or accept that \
                 with ?{name}={setting} in the URL"
            )));
        }
    }
    Ok(())
}
