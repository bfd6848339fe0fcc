//! There is one path to a provider: no source outside the exchange calls one. This reads the sources of every crate, because
//! a trait that anybody may implement cannot keep its method to itself.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where providers are called, and where they are written: one calls another there.
const ALLOWED: [&str; 2] = ["agent/src/exchange/", "agent/src/provider/"];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Every place where a source calls a provider, as it is written there.
fn calls(source: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(|line| line.chars().filter(|c| !c.is_whitespace()))
        .collect();
    let lower = code.to_ascii_lowercase();
    // What can be called: anything that is a provider by name, or that a source which knows providers gives a request to.
    let knows_providers = code.contains("Provider");
    let knows_upstreams = code.contains("Upstream");
    let mut found = Vec::new();
    for (word, knows, named) in
        [(".call(", knows_providers, "provider"), (".pass(", knows_upstreams, "upstream")]
    {
        for (at, _) in lower.match_indices(word) {
            let before = &lower[..at];
            let start = before.rfind([';', '{', '}', '=', ',']).map_or(0, |start| start + 1);
            let receiver = &before[start..];
            let argument = &lower[at + word.len()..];
            let gives_request = knows && argument.starts_with("request");
            if receiver.contains(named) || gives_request {
                found.push(code[start..(at + word.len()).min(code.len())].to_string());
            }
        }
    }
    for path in ["Provider::call", "Provider>::call", "Upstream::pass"] {
        found.extend(code.matches(path).map(String::from));
    }
    found
}

#[test]
fn only_the_exchange_calls_providers() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut read, mut in_exchange) = (BTreeMap::new(), Vec::new());
    for folder in std::fs::read_dir(crates).unwrap() {
        let folder = folder.unwrap().path().join("src");
        for path in if folder.is_dir() { sources(&folder) } else { Vec::new() } {
            let name = path.strip_prefix(crates).unwrap().display().to_string().replace('\\', "/");
            let found = calls(&std::fs::read_to_string(&path).unwrap());
            *read.entry(name.split('/').next().unwrap_or_default().to_string()).or_insert(0) += 1;
            if name.starts_with(ALLOWED[0]) {
                in_exchange.extend(found);
            } else if !name.starts_with(ALLOWED[1]) {
                assert!(
                    found.is_empty(),
                    "{name} calls a provider: {found:?}; go through `exchange::Exchange`"
                );
            }
        }
    }
    // Those that ask models, and those that could: each was really read.
    for (name, least) in
        [("agent", 40), ("cli", 20), ("core", 100), ("flow", 30), ("server", 40), ("subagent", 20)]
    {
        let count = read.get(name).copied().unwrap_or(0);
        assert!(count >= least, "only {count} sources of {name} were read: {read:?}");
    }
    assert_eq!(
        in_exchange.len(),
        2,
        "one call for requests of our own and one for clients': {in_exchange:?}"
    );
}

#[test]
fn a_call_is_found_however_it_is_written() {
    for source in [
        "let stream = self.provider.call(Request { body }).await?;",
        "let stream = catalog\n    .provider_named(name)?\n    .call(Request { body })\n    .await?;",
        "use crate::provider::Provider;\nfn f(model: &dyn Provider) { model.call(request) }",
        "Provider::call(&*model, request)",
        "<Echo as Provider>::call(&echo, request)",
        "upstream.pass(request).await",
        "use crate::provider::Upstream;\nself.to.pass(request)",
    ] {
        assert_eq!(calls(source).len(), 1, "{source}");
    }
    for source in
        ["// provider.call(request)", "tool.call(call).await", "store.call(tenant, id)", "self.pass()?"]
    {
        assert!(calls(source).is_empty(), "{source}");
    }
}
