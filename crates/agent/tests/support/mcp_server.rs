//! The program that stands for an MCP server in tests.
#![allow(unreachable_pub, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// The example `mcp_server`, built if the tests were built without it.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).unwrap();
        let program = profile.join("examples/mcp_server");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/examples/mcp_server.rs");
        let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
        if changed(&program) < changed(&source) {
            let mut cargo = Command::new(env!("CARGO"));
            // With the features of the whole workspace, so that nothing else is built anew.
            cargo.args(["build", "--quiet", "--workspace", "--example", "mcp_server"]);
            if profile.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(cargo.status().unwrap().success());
        }
        program.to_str().unwrap().to_string()
    })
}
