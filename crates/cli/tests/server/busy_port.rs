//! A port that is taken: the message says which process has it, and which port is free.

use std::net::TcpListener;

use crate::support::{folder, scrollback_in};

#[test]
fn a_busy_port_names_its_process_and_the_next_free_port() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let folder = folder("server-busy-port");
    let run = scrollback_in(&folder, &["serve", "--listen", &address.to_string(), "--json"], b"");
    assert_eq!(run.code, 1, "{}", run.stderr);
    let error = &run.json()["error"];
    assert_eq!(error["code"], "port_in_use");
    assert_eq!(error["listen"], address.to_string());
    if cfg!(target_os = "linux") {
        assert_eq!(error["process_id"], std::process::id(), "{error}");
    }
    let next = error["next"].as_str().unwrap();
    assert!(run.stderr.contains(&format!("--listen {next}")), "{}", run.stderr);
    assert_ne!(next, address.to_string());
}
