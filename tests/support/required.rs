//! What a test needs and a machine may not have: strace, a database server, packages of other people, a browser, Clojure, clients.
//!
//! A test that needs such a thing asks here. Where it is missing the test is left out and says so; with
//! `SCROLLBACK_REQUIRE=all`, which CI sets, that is a failure. `./dev setup` installs everything.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::disallowed_types
)]

use std::path::{Path, PathBuf};

/// Says that something is missing and what is not tested for want of it.
///
/// # Panics
///
/// When everything is required.
pub fn missing(what: &str, untested: &str) {
    let required = std::env::var("SCROLLBACK_REQUIRE").unwrap_or_default();
    match required.as_str() {
        "" => eprintln!("notice: {what} is missing (./dev setup installs it); left out: {untested}"),
        "all" => panic!(
            "{what} is missing, and SCROLLBACK_REQUIRE=all: ./dev setup installs it; untested: {untested}"
        ),
        other => panic!("SCROLLBACK_REQUIRE is `all` or not set, and not `{other}`"),
    }
}

/// The first of these programs that is installed; if none is, that is said as by [`missing`].
pub fn program(names: &[&str], untested: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = names.iter().find_map(|name| {
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|place| place.is_file())
    });
    if found.is_none() {
        missing(names[0], untested);
    }
    found
}

/// A file that `./dev setup` makes, if it is there; if not, that is said as by [`missing`].
pub fn file(path: &Path, what: &str, untested: &str) -> Option<PathBuf> {
    if path.exists() {
        return Some(path.to_path_buf());
    }
    missing(what, untested);
    None
}
