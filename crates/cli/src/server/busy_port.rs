//! A port that is taken: which process has it, and which one is free.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use crate::failure::{FAILED, Failure};

/// How many of the following ports are tried: enough to pass a few servers side by side.
const PORTS_TRIED: u16 = 50;
/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) id: u32,
    pub(crate) name: String,
}

/// Why a server cannot listen on an address, and what to do instead.
pub(super) fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    let failure = Failure::io(&format!("cannot listen on {address}"), error);
    if error.kind() == std::io::ErrorKind::PermissionDenied && address.port() < 1024 {
        let hint = format!(
            "; ports below 1024 need special rights: use --listen {}:{}",
            address.ip(),
            scrollback_agent::config::DEFAULT_PORT
        );
        return failure.hinting(&hint);
    }
    if error.kind() != std::io::ErrorKind::AddrInUse {
        return failure;
    }
    let holder = holder_of(address.port());
    let who = match &holder {
        Some(holder) => format!("{} (process {}) uses it", holder.name, holder.id),
        None => "another process uses it".into(),
    };
    let next = next_free(address);
    let hint = match next {
        Some(next) => format!("stop it, or use the next free port: --listen {next}"),
        None => "stop it, or choose another port with --listen".into(),
    };
    let failure = Failure::new(FAILED, "port_in_use", format!("cannot listen on {address}: {who}; {hint}"))
        .with("listen", address.to_string());
    let failure = match next {
        Some(next) => failure.with("next", next.to_string()),
        None => failure,
    };
    match holder {
        Some(holder) => failure.with("process", holder.name).with("process_id", holder.id),
        None => failure,
    }
}

/// The next port of the same address that can be listened on.
fn next_free(address: SocketAddr) -> Option<SocketAddr> {
    let ports = address.port().checked_add(1)?..=address.port().saturating_add(PORTS_TRIED);
    ports
        .map(|port| SocketAddr::new(address.ip(), port))
        .find(|candidate| TcpListener::bind(candidate).is_ok())
}

/// The process that listens on a port of this machine, where the system tells: on Linux, of processes of the same user.
pub(crate) fn holder_of(port: u16) -> Option<Holder> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| listening_sockets(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find_map(|id| {
        let folder = Path::new("/proc").join(id.to_string());
        let mut files = std::fs::read_dir(folder.join("fd")).ok()?.flatten();
        let holds = files.any(|file| {
            std::fs::read_link(file.path())
                .is_ok_and(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
        });
        let name = holds.then(|| std::fs::read_to_string(folder.join("comm")).ok()).flatten()?;
        Some(Holder { id, name: name.trim().into() })
    })
}

/// The inodes of sockets that listen on a port, from the text of `/proc/net/tcp`.
fn listening_sockets(table: &str, port: u16) -> Vec<u64> {
    let ending = format!(":{port:04X}");
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state) = (fields.get(1)?, fields.get(3)?);
        (local.ends_with(&ending) && *state == LISTENING).then(|| fields.get(9)?.parse().ok()).flatten()
    };
    table.lines().skip(1).filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_table_of_sockets_is_read_by_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1C6B 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 100 0 0 10 0\n\
             1: 0100007F:1C6B 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 4243 1 0 20 4 30 10 -1\n\
             2: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4244 1 0 100 0 0 10 0\n";
        assert_eq!(listening_sockets(table, 7275), [4242]);
        assert_eq!(listening_sockets(table, 8080), [4244]);
        assert_eq!(listening_sockets("", 7275), [0; 0]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_listener_of_this_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = holder_of(listener.local_addr().unwrap().port()).unwrap();
        assert_eq!(holder.id, std::process::id());
    }
}
