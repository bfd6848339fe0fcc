//! What is needed to run it: the image, the services around it, the dashboard, the manual. `docs/operating.md` itself is run
//! by `docs.rs`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::Command;

use scrollback_agent::document::parse;
use serde_json::Value;

use crate::support::{folder, repository, required, scrollback, scrollback_in};

fn file(name: &str) -> String {
    std::fs::read_to_string(repository(name)).unwrap()
}

/// The instructions of a Dockerfile: lines that go on are one.
fn instructions(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(word, rest)| (word.into(), rest.trim().into()))
        .collect()
}

/// The words of an instruction that is a JSON list.
fn words(list: &str) -> Vec<String> {
    serde_json::from_str(list).unwrap()
}

#[test]
fn every_step_of_the_image_can_be_done() {
    let all = instructions(&file("Dockerfile"));
    let of = |word: &str| {
        all.iter().filter(|(found, _)| found == word).map(|(_, rest)| rest.as_str()).collect::<Vec<_>>()
    };
    // What is copied from the sources is there, and nothing that the build needs is kept out of it.
    let ignored: Vec<String> = file(".dockerignore").lines().map(String::from).collect();
    for copied in of("COPY").iter().filter(|rest| !rest.starts_with("--from")) {
        let mut parts: Vec<&str> = copied.split_whitespace().collect();
        parts.pop();
        for part in parts {
            assert!(Path::new(&repository(part)).exists(), "{part}");
            assert!(!ignored.contains(&part.to_string()), "{part} is kept out of the build");
        }
    }
    // The toolchain is at least the one the sources want.
    let wanted = file("Cargo.toml")
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .unwrap()
        .trim_matches('"')
        .to_string();
    let base = of("FROM")[0].split(['-', ' ']).next().unwrap().strip_prefix("rust:").unwrap().to_string();
    let number =
        |text: &str| text.split('.').take(2).map(|part| part.parse::<u32>().unwrap()).collect::<Vec<_>>();
    assert!(number(&base) >= number(&wanted), "{base} is older than {wanted}");
    // What is built is run as a user that is not root, from an image with nothing else in it.
    assert_eq!(of("FROM").last(), Some(&"scratch"));
    assert_eq!(of("USER"), ["65532:65532"]);
    let entry = words(of("ENTRYPOINT")[0]);
    let copied = of("COPY").iter().any(|rest| rest.ends_with(&format!(" {}", entry[0])));
    assert!(copied, "{entry:?} is in the image");
    // Steps that run the program are run here: the manual, the completions, the health check, and the server, which does not
    // serve other machines without a key.
    let folder = folder("image");
    let run = of("RUN").last().unwrap().to_string();
    for step in run.split("&&").map(str::trim).filter(|step| step.starts_with("/out/bin/scrollback ")) {
        let arguments = step.trim_start_matches("/out/bin/scrollback ").split('>').next().unwrap();
        let arguments: Vec<String> =
            arguments.split_whitespace().map(|word| word.replace("/out/", "out/")).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(scrollback_in(&folder, &arguments, b"").code, 0, "{step}");
    }
    assert!(folder.join("out/share/man/man1/scrollback.1").exists());
    let health = of("HEALTHCHECK")[0].split_once("CMD ").unwrap().1.to_string();
    let health = words(&health);
    assert_eq!(health[0], entry[0]);
    let health: Vec<&str> = health[1..].iter().map(String::as_str).collect();
    assert!([0, 1].contains(&scrollback_in(&folder, &health, b"").code), "{health:?}");
    let serve = words(of("CMD")[0]);
    let serve: Vec<&str> = serve.iter().map(String::as_str).chain(["--json"]).collect();
    let refused = scrollback_in(&folder, &serve, b"");
    assert_eq!((refused.code, refused.json()["error"]["code"].as_str()), (2, Some("no_keys")), "{refused:?}");
}

#[test]
fn the_image_is_built_where_an_engine_runs() {
    // Where no engine runs, the steps were checked one by one above. Building takes minutes and the network.
    if std::env::var_os("SCROLLBACK_IMAGE").is_none() {
        return;
    }
    let built = Command::new("docker")
        .args(["build", "-t", "scrollback-test", "."])
        .current_dir(repository("."))
        .status();
    assert!(built.unwrap().success());
}

#[test]
fn the_services_around_it_are_what_they_are_read_as() {
    let compose = parse(&file("compose.yaml")).unwrap().to_json();
    let service = &compose["services"]["scrollback"];
    assert_eq!(service["depends_on"]["postgres"]["condition"], "service_healthy");
    let store = service["environment"]["SCROLLBACK_STORE"].as_str().unwrap();
    assert!(store.starts_with("postgres://"), "{store}");
    let published: Vec<&str> =
        service["ports"].as_array().unwrap().iter().map(|port| port.as_str().unwrap()).collect();
    assert!(published.iter().all(|port| port.starts_with("127.0.0.1:")), "{published:?}");
    let unit = file("ops/scrollback.service");
    let start =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/scrollback ")).unwrap();
    let folder = folder("unit");
    let arguments: Vec<&str> = start.split(' ').chain(["--help"]).collect();
    assert_eq!(scrollback_in(&folder, &arguments, b"").code, 0, "{start}");
    for line in ["StateDirectoryMode=0700", "UMask=0077", "NoNewPrivileges=yes", "ProtectSystem=strict"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    if let Some(analyze) = required::program(&["systemd-analyze"], "the systemd unit") {
        let unit = std::fs::read_to_string(repository("ops/scrollback.service")).unwrap();
        // The program of this test in the place of the one that is installed.
        let unit = unit.replace("/usr/local/bin/scrollback", env!("CARGO_BIN_EXE_scrollback"));
        std::fs::write(folder.join("scrollback.service"), unit).unwrap();
        let output = Command::new(analyze)
            .args(["verify", "--man=no"])
            .arg(folder.join("scrollback.service"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let about_it: Vec<&str> = said.lines().filter(|line| line.contains("scrollback.service")).collect();
        assert!(about_it.is_empty(), "{said}");
    }
    for (name, wanted) in [
        ("ops/nginx.conf", ["proxy_buffering off;", "proxy_read_timeout 3600s;", "127.0.0.1:7275"]),
        ("ops/Caddyfile", ["flush_interval -1", "read_timeout 1h", "127.0.0.1:7275"]),
    ] {
        let text = file(name);
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{name}");
        for line in wanted {
            assert!(text.contains(line), "{line} is not in {name}");
        }
    }
    let prometheus = parse(&file("ops/prometheus.yml")).unwrap().to_json();
    assert_eq!(prometheus["scrape_configs"][0]["metrics_path"], "/metrics");
}

#[test]
fn the_dashboard_shows_figures_that_there_are() {
    let dashboard: Value = serde_json::from_str(&file("ops/grafana.json")).unwrap();
    let metrics = file("crates/server/src/metrics.rs");
    let mut shown = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            for name in query
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .filter(|word| word.starts_with("scrollback_"))
            {
                let bare = name.trim_end_matches("_total").trim_end_matches("_bucket");
                assert!(metrics.contains(&format!("\"{bare}\"")), "{name} is no figure of the server");
                shown += 1;
            }
        }
    }
    assert!(shown >= 10, "{shown}");
}

#[test]
fn every_command_has_a_page_and_a_line_in_the_help() {
    let folder = folder("man");
    let made = scrollback_in(&folder, &["man", "pages", "--json"], b"");
    assert_eq!(made.code, 0, "{made:?}");
    let pages = made.json()["written"].as_array().unwrap().len();
    let help = scrollback(&["--help"], "").stdout;
    let mut named = 0;
    let mut group = "";
    let mut first = 0;
    for line in help.lines() {
        if let Some(title) = line.strip_suffix(':').filter(|title| !title.contains(' ')) {
            group = title;
        } else if let Some(name) = line.strip_prefix("  ").and_then(|line| line.split_whitespace().next())
            && ["First", "Record", "Curate", "Serve", "Run", "Operate"].contains(&group)
            && !line.starts_with("   ")
        {
            let page = folder.join(format!("pages/scrollback-{name}.1"));
            assert!(page.exists(), "{name} has no page");
            named += 1;
            first += usize::from(group == "First");
        }
    }
    assert_eq!(first, 4, "four commands matter first:\n{help}");
    assert!(named >= 25 && pages > named, "{named} commands, {pages} pages:\n{help}");
    for group in ["First:", "Record:", "Curate:", "Serve:", "Run:", "Operate:", "Options:", "Exit codes:"] {
        assert!(help.contains(group), "{group}\n{help}");
    }
}
