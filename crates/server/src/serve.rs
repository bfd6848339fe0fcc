//! Connections: accepted on one port, each with a time for its headers, until the server is asked to stop.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use scrollback_agent::StopSignal;
use scrollback_agent::exchange::mark_lost;
use scrollback_core::tokens::Tokenizer;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::App;
use crate::connection_limits::SlotCounter;
use crate::follow_ups;
use crate::retention;
use crate::router;
use crate::workers::{Accepted, Workers};

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

/// Answers on a port until `stop` is asked for. Requests under way then have some time to finish. Connections are served on
/// threads of their own, one for every core; an error if they cannot be started.
pub async fn serve(app: App, listening: Listening, stop: StopSignal) -> io::Result<()> {
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
    match mark_lost(&*app.store, limits.stream, app.now()).await {
        Ok(0) => {}
        Ok(calls) => tracing::warn!(calls, "calls of a process that died were marked as lost"),
        Err(error) => tracing::warn!(%error, "calls of a process that died could not be marked as lost"),
    }
    let mut workers = Workers::start(&connection, &router(app.clone()))?;
    let room = Arc::new(Semaphore::new(limits.connections));
    let neighbours = SlotCounter::default();
    let watching = [
        tokio::spawn(follow_ups::watch(app.clone())).abort_handle(),
        tokio::spawn(retention::keep(app.clone())).abort_handle(),
    ];
    loop {
        // A connection that finds no room waits in the kernel, as it would on a busy machine.
        let next = async { (Arc::clone(&room).acquire_owned().await, listening.listener.accept().await) };
        let (place, accepted) = tokio::select! {
            accepted = next => accepted,
            () = stop.asked() => break,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Too many open files, mostly: waiting a little is all that helps.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(seat) = neighbours.take(&household(from.ip()), limits.connections_per_ip) else {
            app.metrics.add("scrollback_refused_connections_total", &[], 1.0);
            tracing::debug!(from = %from.ip(), "too many connections from one address");
            refuse(&stream);
            continue;
        };
        let _ = stream.set_nodelay(true);
        // A stream may be silent for minutes: no router on the way shall take it for dead, and a dead one shall be noticed.
        let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        match (place, stream.into_std()) {
            (Ok(place), Ok(stream)) => workers.serve(Accepted { stream, places: (place, seat) }),
            (_, Err(error)) => tracing::warn!(%error, "a connection could not be handed on"),
            // The semaphore is never closed.
            (Err(_), _) => break,
        }
    }
    watching.iter().for_each(tokio::task::AbortHandle::abort);
    drop(listening);
    let ending = async {
        workers.drain().await;
        // Replies whose client left are still being written down.
        app.tasks.ended().await;
    };
    if tokio::time::timeout(limits.shutdown, ending).await.is_err() {
        tracing::warn!(
            "requests were still open at the shutdown timeout: their partial replies are recorded"
        );
        app.time_is_up.stop();
        if tokio::time::timeout(LAST_WORDS, app.tasks.ended()).await.is_err() {
            tracing::warn!("replies could not be recorded in time: their calls will be marked as lost");
        }
    }
    Ok(())
}

/// Whose address it is. A house with IPv6 has a whole network of addresses, which count as one.
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

/// Says why a connection is closed, if that can be said at once.
fn refuse(stream: &TcpStream) {
    let answer =
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let _ = stream.try_write(answer.as_bytes());
}

/// How long replies that were cut off may take to be recorded.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long a connection is silent before it is probed: well below the minutes after which routers forget one.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Headers of one request: what clients send are some twenty.
const MAX_HEADERS: usize = 100;
/// How long nothing is accepted after it failed.
const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_of_one_house_count_together() {
        let house = |text: &str| household(text.parse().unwrap());
        assert_eq!(house("::ffff:192.0.2.7"), house("192.0.2.7"));
        assert_ne!(house("192.0.2.7"), house("192.0.2.8"));
        assert_eq!(house("2001:db8:1:2::1"), house("2001:db8:1:2:ffff::9"));
        assert_ne!(house("2001:db8:1:2::1"), house("2001:db8:1:3::1"));
    }
}
