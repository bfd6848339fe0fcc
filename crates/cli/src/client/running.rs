//! Whether a Scrollback server answers at an address, and where it passes requests on to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

/// How long a server on this machine may take to answer: one that is there answers in a moment.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much of an answer is read.
const MOST_BYTES: u64 = 64 << 10;

/// What is at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AddressState {
    /// Nothing listens there.
    Nothing,
    /// Something else than Scrollback.
    Other,
    /// A Scrollback server that wants one of its keys.
    Locked {
        version: String,
    },
    Server(Running),
}

/// A Scrollback server that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) version: String,
    pub(crate) store: String,
    /// Base URLs that it passes requests on to, by provider.
    pub(crate) openai: Option<String>,
    pub(crate) anthropic: Option<String>,
    pub(crate) gemini: Option<String>,
}

/// Looks at what is at an address of this machine.
pub(crate) fn look(address: SocketAddr) -> AddressState {
    let Ok(mut connection) = TcpStream::connect_timeout(&address, PATIENCE) else {
        return AddressState::Nothing;
    };
    let Some((status, version, body)) = ask(&mut connection, address) else { return AddressState::Other };
    let Some(version) = version else { return AddressState::Other };
    if status == 401 {
        return AddressState::Locked { version };
    }
    let told: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = |pointer: &str| told.pointer(pointer).and_then(Value::as_str).map(String::from);
    AddressState::Server(Running {
        address,
        version,
        store: text("/store").unwrap_or_default(),
        openai: text("/upstreams/openai"),
        anthropic: text("/upstreams/anthropic"),
        gemini: text("/upstreams/gemini"),
    })
}

/// Asks for `/api/server`: the status, the version in the header, and the body.
fn ask(connection: &mut TcpStream, address: SocketAddr) -> Option<(u16, Option<String>, String)> {
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    connection.set_write_timeout(Some(PATIENCE)).ok()?;
    let request = format!("GET /api/server HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // What came before a timeout is judged all the same.
    let _ = connection.take(MOST_BYTES).read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let version = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("x-scrollback-version").then(|| value.trim().to_string())
    });
    Some((status, version, body.to_string()))
}

/// The address of a base URL that leads to this machine; none for any other.
pub(crate) fn loopback(url: &str) -> Option<SocketAddr> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    let host = host.rsplit('@').next()?;
    let named = if host.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        host.to_string()
    } else {
        format!("{host}:{}", if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 })
    };
    // Only names that need no name server are looked up.
    let is_local = host.starts_with("localhost") || host.starts_with('[') || host.starts_with("127.");
    let mut addresses = is_local.then(|| named.to_socket_addrs().ok()).flatten()?;
    addresses.find(|address| address.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn urls_of_this_machine_are_told_from_others() {
        assert_eq!(loopback("http://127.0.0.1:7275/v1"), Some("127.0.0.1:7275".parse().unwrap()));
        assert_eq!(loopback("http://user@127.0.0.1:7275"), Some("127.0.0.1:7275".parse().unwrap()));
        assert_eq!(loopback("http://127.0.0.1"), Some("127.0.0.1:80".parse().unwrap()));
        assert_eq!(loopback("http://[::1]:9/v1"), Some("[::1]:9".parse().unwrap()));
        assert_eq!(loopback("https://api.anthropic.com"), None);
        assert_eq!(loopback("https://127.0.0.1.evil.example/"), None);
        assert_eq!(loopback("not a url"), None);
    }

    #[test]
    fn what_is_no_scrollback_is_not_taken_for_one() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(look(free), AddressState::Nothing);
        for answer in ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "220 mail.example ESMTP\r\n", ""] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(answer.as_bytes());
            });
            assert_eq!(look(address), AddressState::Other, "{answer:?}");
            server.join().unwrap();
        }
    }
}
