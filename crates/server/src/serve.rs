//! Connections: accepted on one port, each with a time for its headers, until the server is asked to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use scrollback_agent::Stop;
use scrollback_core::tokens::Tokenizer;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::App;
use crate::router;

/// A port that is taken, before anything is answered on it.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    /// Where it is; the port is the real one where 0 was asked for.
    pub address: SocketAddr,
}

/// Takes a port.
pub async fn bind(address: SocketAddr) -> io::Result<Listening> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok(Listening { listener, address })
}

/// Answers on a port until `stop` is asked for. Requests under way then have some time to finish.
pub async fn serve(app: App, listening: Listening, stop: Stop) {
    let limits = app.settings.limits;
    let mut connection = http1::Builder::new();
    connection
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_buf_size(limits.header_bytes.max(8 << 10))
        .max_headers(MAX_HEADERS)
        .keep_alive(true);
    // The vocabulary takes a moment to load; the first request shall not wait for it.
    tokio::task::spawn_blocking(|| Tokenizer::O200kBase.count("ready"));
    let service: Router = router(app.clone());
    let room = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    loop {
        // A connection that finds no room waits in the kernel, as it would on a busy machine.
        let next = async { (Arc::clone(&room).acquire_owned().await, listening.listener.accept().await) };
        let (place, accepted) = tokio::select! {
            accepted = next => accepted,
            () = stop.asked() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, mostly: waiting a little is all that helps.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(service.clone());
        let served = graceful.watch(connection.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = served.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    drop(listening);
    let ending = async {
        graceful.shutdown().await;
        // Replies whose client left are still being written down.
        app.tasks.ended().await;
    };
    if tokio::time::timeout(limits.shutdown, ending).await.is_err() {
        tracing::warn!("requests were still under way when time was up");
    }
}

/// Headers of one request: what clients send are some twenty.
const MAX_HEADERS: usize = 100;
/// How long nothing is accepted after it failed.
const PAUSE: Duration = Duration::from_millis(50);
