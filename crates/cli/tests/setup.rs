//! `scrollback setup` and `scrollback service`: what is written, and that it can be taken back to the byte.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use serde_json::Value;

use crate::support::{Run, folder};

/// A home directory of its own.
struct Home(PathBuf);

/// Each client with the file that its setting goes into.
const CLIENTS: [(&str, &str); 4] = [
    ("claude", ".claude/settings.json"),
    ("codex", ".codex/config.toml"),
    ("opencode", ".config/opencode/opencode.json"),
    ("gemini", ".gemini/.env"),
];

impl Home {
    fn new(name: &str) -> Home {
        let home = folder(&format!("setup-{name}"));
        // Nothing answers there, and a scrollback.toml keeps the port of this machine out of it.
        std::fs::write(home.join("scrollback.toml"), "server = { listen = \"127.0.0.1:9\" }\n").unwrap();
        Home(home)
    }

    fn run(&self, args: &[&str]) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_scrollback"))
            .args(args)
            .current_dir(&self.0)
            .env_clear()
            .env("HOME", &self.0)
            .env("PATH", self.0.join("bin"))
            .env("ANTHROPIC_API_KEY", "sk-ant-not-a-key")
            .output()
            .unwrap();
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(file)).ok()
    }

    /// Everything in it: folders as such, files with their bytes.
    fn tree(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let (mut found, mut folders) = (BTreeMap::new(), vec![self.0.clone()]);
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                let inside = path.strip_prefix(&self.0).unwrap().to_path_buf();
                if path.is_dir() {
                    folders.push(path);
                    found.insert(inside, None);
                } else {
                    found.insert(inside, Some(std::fs::read(path).unwrap()));
                }
            }
        }
        found
    }
}

/// Files to start from, by their ending.
fn starts(client: &str, file: &str) -> Vec<Option<&'static str>> {
    let mut starts = vec![None, Some("")];
    if client == "opencode" {
        starts.push(Some(
            "// mine\n{\n\t\"permissions\": { \"allow\": [\"Bash(ls:*)\"] }, // one\n\t/* two */\n}\n",
        ));
    }
    starts.extend(
        match Path::new(file).extension().and_then(|ending| ending.to_str()) {
            Some("json") => [
                "{}",
                "{}\n",
                "\n",
                "{ \"model\": \"opus\" }",
                "{\n  \"model\": \"opus\",\n  \"env\": { \"FOO\": \"1\" }\n}\n",
                "{\n\t\"permissions\": { \"allow\": [\"Bash(ls:*)\"] }\n}",
                "{\r\n  \"provider\": {\r\n    \"anthropic\": {}\r\n  }\r\n}\r\n",
                "{\"a\":1e3,\"b\":\"\\u00e9\",\"a\":2}",
            ]
            .to_vec(),
            Some("toml") => [
                "# only a comment",
                "model = \"gpt-5\"\n",
                "model = 'gpt-5' # why\n\n[mcp_servers.x]\ncommand = \"x\"\n",
                "[profiles.a]\r\nmodel = \"b\"\r\n",
                "\n\n[t]\nx = [1,\n  2, # two\n]",
                "model_provider = \"openai\"\n[a.b]\nc = { d = 1 }\n",
                "a.b.c = 1\n",
                "\u{feff}model = \"x\"\n",
            ]
            .to_vec(),
            _ => [
                "GEMINI_API_KEY=x",
                "# mine\nGEMINI_API_KEY=\"a b\"\n\n",
                "GEMINI_API_KEY=x\r\nB=2\r\n",
                "export B=1\n   C = 2",
                "\n",
                "=\n",
                "A",
                "B='x\ny'\n",
            ]
            .to_vec(),
        }
        .into_iter()
        .map(Some),
    );
    starts
}

#[test]
fn what_setup_wrote_is_taken_back_to_the_byte() {
    for (client, file) in CLIENTS {
        for (number, start) in starts(client, file).into_iter().enumerate() {
            let home = Home::new(&format!("undo-{client}-{number}"));
            if let Some(text) = start {
                home.write(file, text);
            }
            let before = home.tree();
            let set = home.run(&["setup", client, "--json"]);
            assert_eq!(set.code, 0, "{client} {start:?}: {}", set.stderr);
            assert_eq!(set.json()["state"], "written", "{client} {start:?}");
            let text = home.read(file).unwrap();
            assert!(text.contains("127.0.0.1:9"), "{client} {start:?}: {text}");
            let undone = home.run(&["setup", client, "--undo", "--json"]);
            assert_eq!(undone.code, 0, "{client} {start:?}: {}", undone.stderr);
            assert_eq!(home.tree(), before, "{client} {start:?}");
            let again = home.run(&["setup", client, "--undo", "--json"]);
            assert_eq!(
                (again.code, &again.json()["state"]),
                (0, &Value::from("unchanged")),
                "{}",
                again.stderr
            );
        }
    }
}

#[test]
fn two_setups_are_one() {
    for (client, file) in CLIENTS {
        for (number, start) in starts(client, file).into_iter().enumerate() {
            let home = Home::new(&format!("twice-{client}-{number}"));
            if let Some(text) = start {
                home.write(file, text);
            }
            let before = home.tree();
            assert_eq!(home.run(&["setup", client]).code, 0);
            let once = home.tree();
            let second = home.run(&["setup", client, "--json"]);
            assert_eq!(
                (second.code, &second.json()["state"]),
                (0, &Value::from("unchanged")),
                "{}",
                second.stderr
            );
            assert_eq!(home.tree(), once, "{client} {start:?}");
            assert_eq!(home.run(&["setup", client, "--undo"]).code, 0);
            assert_eq!(home.tree(), before, "{client} {start:?}");
        }
    }
}

#[test]
fn print_writes_nothing() {
    for (client, file) in CLIENTS {
        let home = Home::new(&format!("print-{client}"));
        let before = home.tree();
        let shown = home.run(&["setup", client, "--print"]);
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        assert!(
            shown.stdout.contains(file) && shown.stdout.contains("http://127.0.0.1:9"),
            "{}",
            shown.stdout
        );
        assert_eq!(home.tree(), before, "{client}");
        home.run(&["setup", client]);
        let set = home.tree();
        assert_eq!(home.run(&["setup", client, "--undo", "--print"]).code, 0);
        assert_eq!(home.tree(), set, "{client}");
    }
}

#[test]
fn a_setting_of_the_person_stays_unless_it_is_forced_and_then_comes_back() {
    let own = [
        ("claude", "{\"env\": {\"ANTHROPIC_BASE_URL\": \"https://gateway.example\"}}"),
        ("codex", "openai_base_url = \"https://gateway.example\" # mine\n"),
        (
            "opencode",
            "{\"provider\":{\"anthropic\":{\"options\":{\"baseURL\":\"https://gateway.example\"}}}}",
        ),
        ("gemini", "GOOGLE_GEMINI_BASE_URL=https://gateway.example\n"),
    ];
    for ((client, file), (_, text)) in CLIENTS.into_iter().zip(own) {
        let home = Home::new(&format!("own-{client}"));
        home.write(file, text);
        let before = home.tree();
        let refused = home.run(&["setup", client, "--json"]);
        assert_eq!(refused.code, 1, "{client}: {}", refused.stdout);
        assert_eq!(refused.json()["error"]["code"], "already_set", "{client}");
        assert!(refused.stderr.contains("--force") && refused.stderr.contains("gateway.example"));
        assert_eq!(home.tree(), before, "{client}");
        assert_eq!(home.run(&["setup", client, "--force"]).code, 0, "{client}");
        assert!(!home.read(file).unwrap().contains("gateway.example"), "{client}");
        assert_eq!(home.run(&["setup", client, "--undo"]).code, 0, "{client}");
        assert_eq!(home.tree(), before, "{client}");
    }
}

#[test]
fn what_a_person_wrote_after_setup_survives_undo() {
    let home = Home::new("edited");
    let file = ".claude/settings.json";
    home.write(file, "{\n  \"model\": \"opus\"\n}\n");
    assert_eq!(home.run(&["setup", "claude"]).code, 0);
    let edited = home.read(file).unwrap().replace("\"opus\"", "\"sonnet\"");
    home.write(file, &edited);
    assert_eq!(home.run(&["setup", "claude", "--undo"]).code, 0);
    assert_eq!(home.read(file).unwrap(), "{\n  \"model\": \"sonnet\"\n}\n");
}

#[test]
fn another_port_replaces_our_own_setting_and_undo_still_goes_all_the_way_back() {
    let file = ".claude/settings.json";
    for (name, edited) in [("port", false), ("port-edited", true)] {
        let home = Home::new(name);
        home.write(file, "{\n  \"model\": \"opus\"\n}\n");
        assert_eq!(home.run(&["setup", "claude"]).code, 0);
        if edited {
            home.write(file, &home.read(file).unwrap().replace("\"opus\"", "\"sonnet\""));
        }
        home.write("scrollback.toml", "server = { listen = \"127.0.0.1:10\" }\n");
        assert_eq!(
            home.run(&["setup", "claude", "--json"]).json()["state"],
            "written",
            "no --force is needed"
        );
        assert!(home.read(file).unwrap().contains("127.0.0.1:10"));
        assert_eq!(home.run(&["setup", "claude", "--undo"]).code, 0);
        let model = if edited { "sonnet" } else { "opus" };
        assert_eq!(home.read(file).unwrap(), format!("{{\n  \"model\": \"{model}\"\n}}\n"));
    }
}

#[test]
fn a_link_stays_a_link_and_rights_stay_as_they_are() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let home = Home::new("link");
    home.write("dotfiles/settings.json", "{}\n");
    let real = home.0.join("dotfiles/settings.json");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::create_dir_all(home.0.join(".claude")).unwrap();
    symlink(&real, home.0.join(".claude/settings.json")).unwrap();
    assert_eq!(home.run(&["setup", "claude"]).code, 0);
    assert!(home.0.join(".claude/settings.json").is_symlink());
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(home.run(&["setup", "claude", "--undo"]).code, 0);
    assert!(home.0.join(".claude/settings.json").is_symlink());
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "{}\n");
}

#[test]
fn files_that_cannot_be_read_are_refused_with_the_place() {
    let broken = [
        ("claude", "{\n  \"env\": {\n    \"A\": 1\n    \"B\": 2\n  }\n}\n", 4),
        ("codex", "model = \"x\"\nmodel = = 2\n", 2),
        ("claude", "// the client would ignore this file\n{}\n", 1),
        ("opencode", "[]", 1),
    ];
    for (number, (client, text, line)) in broken.into_iter().enumerate() {
        let (_, file) = CLIENTS.into_iter().find(|(name, _)| *name == client).unwrap();
        let home = Home::new(&format!("broken-{number}"));
        home.write(file, text);
        let before = home.tree();
        let refused = home.run(&["setup", client, "--json"]);
        assert_eq!(refused.code, 4, "{client}: {}", refused.stderr);
        assert_eq!(refused.json()["error"]["line"], line, "{}", refused.stderr);
        assert_eq!(home.tree(), before, "{client}");
    }
}

#[test]
fn the_recall_server_is_registered_with_every_client_and_goes_with_undo() {
    for (client, file, start) in [
        ("claude", ".claude.json", "{\n  \"projects\": {}\n}\n"),
        ("codex", ".codex/config.toml", "# mine\nmodel = \"x\"\n\n[mcp_servers.x]\ncommand = \"x\"\n"),
        ("opencode", ".config/opencode/opencode.json", "{\n  // mine\n  \"theme\": \"dark\"\n}\n"),
        ("gemini", ".gemini/settings.json", "{\n  \"mcpServers\": { \"x\": { \"command\": \"x\" } }\n}\n"),
        ("cursor", ".cursor/mcp.json", "{ \"mcpServers\": {} }"),
        ("vscode", ".config/Code/User/mcp.json", "{\n\t\"servers\": {}\n}\n"),
    ] {
        let home = Home::new(&format!("recall-{client}"));
        home.write(file, start);
        let before = home.tree();
        let set = home.run(&["setup", client]);
        assert_eq!(set.code, 0, "{client}: {}", set.stderr);
        let text = home.read(file).unwrap();
        assert!(text.contains("scrollback") && text.contains("mcp"), "{client}: {text}");
        assert!(text.contains(env!("CARGO_BIN_EXE_scrollback")), "the program itself is named: {text}");
        assert_eq!(home.run(&["setup", client, "--json"]).json()["state"], "unchanged", "{client}");
        // A client that edits its own file keeps the edit.
        let edited = text.replacen('\n', "\n ", 1);
        assert_eq!(home.run(&["setup", client, "--undo"]).code, 0, "{client}");
        assert_eq!(home.tree(), before, "{client}");
        if edited != text && client != "codex" {
            home.run(&["setup", client]);
            home.write(file, &edited);
            home.run(&["setup", client, "--undo"]);
            assert!(!home.read(file).unwrap().contains(env!("CARGO_BIN_EXE_scrollback")), "{client}");
        }
    }
}

#[test]
fn setup_without_a_server_says_how_to_start_one() {
    let home = Home::new("no-server");
    let set = home.run(&["setup", "claude"]);
    assert!(
        set.stderr.contains("scrollback serve") && set.stderr.contains("service install"),
        "{}",
        set.stderr
    );
}

#[test]
fn unknown_clients_are_met_with_the_nearest_name() {
    let home = Home::new("unknown");
    let wrong = home.run(&["setup", "cluade", "--json"]);
    assert_eq!((wrong.code, &wrong.json()["error"]["code"]), (2, &Value::from("unknown_client")));
    assert!(wrong.stderr.contains("did you mean `claude`?"), "{}", wrong.stderr);
    let aider = home.run(&["setup", "aider"]);
    assert_eq!(aider.code, 2);
    assert!(aider.stderr.contains("scrollback wrap aider"), "{}", aider.stderr);
}

/// JSON objects as people write them, with members that mean nothing to us.
fn any_json() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        "[a-z ]{0,6}".prop_map(|text| format!("\"{text}\"")),
        (-99i32..99).prop_map(|number| format!("{number}.50")),
        Just("[1, { \"x\": null }]".to_string()),
        Just("{ }".to_string()),
    ];
    let member = ("[a-z]{3,7}", value).prop_map(|(name, value)| format!("\"x{name}\": {value}"));
    let gap =
        prop_oneof![Just(""), Just(" "), Just("\n  "), Just("\r\n\t"), Just(" // c\n"), Just("/* c */")];
    (proptest::collection::vec((member, gap), 0..5), any::<bool>(), "[ \n]{0,2}").prop_map(
        |(members, comma, end)| {
            let count = members.len();
            let inner: Vec<String> = members
                .into_iter()
                .enumerate()
                .map(|(at, (member, gap))| {
                    let comma = if at + 1 < count || comma { "," } else { "" };
                    format!("{gap}{member}{comma}")
                })
                .collect();
            format!("{{{}}}{end}", inner.concat())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_settings_come_back_as_they_were(text in any_json(), round in 0u32..u32::MAX) {
        let home = Home::new(&format!("any-{round}"));
        let file = ".config/opencode/opencode.jsonc";
        home.write(file, &text);
        let before = home.tree();
        let set = home.run(&["setup", "opencode"]);
        prop_assert_eq!(set.code, 0, "{}: {}", text, set.stderr);
        let written = home.read(file).unwrap();
        prop_assert!(written.contains("\"baseURL\": \"http://127.0.0.1:9/v1\""), "{}", written);
        prop_assert_eq!(home.run(&["setup", "opencode", "--undo"]).code, 0);
        prop_assert_eq!(home.tree(), before);
        let _ = std::fs::remove_dir_all(&home.0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_service_is_written_shown_and_removed_without_systemd() {
    let home = Home::new("service");
    let before = home.tree();
    let shown = home.run(&["service", "install", "--print"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains("ExecStart=") && shown.stdout.contains("\"serve\""), "{}", shown.stdout);
    assert_eq!(home.tree(), before);
    let unit = ".config/systemd/user/scrollback.service";
    let installed = home.run(&["service", "install"]);
    assert_eq!(installed.code, 0, "{}", installed.stderr);
    assert!(installed.stderr.contains("systemctl --user enable --now"), "{}", installed.stderr);
    let text = home.read(unit).unwrap();
    assert!(text.contains(".local/share/scrollback/scrollback.db"), "{text}");
    assert_eq!(home.run(&["service", "install", "--json"]).json()["state"], "unchanged");
    let status = home.run(&["service", "status", "--json"]).json();
    assert_eq!((&status["installed"], &status["server"]), (&Value::from(true), &Value::Null), "{status}");
    assert_eq!(home.run(&["service", "remove", "--json"]).json()["state"], "removed");
    assert_eq!(home.read(unit), None);
    assert_eq!(home.run(&["service", "remove", "--json"]).json()["state"], "not_installed");
}

#[test]
fn doctor_says_which_clients_go_through_scrollback() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new("doctor");
    for client in ["claude", "codex"] {
        home.write(&format!("bin/{client}"), "#!/bin/sh\n");
        let program = home.0.join("bin").join(client);
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let check = |name: &str| {
        let told = home.run(&["doctor", "--json"]).json();
        told["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).cloned()
    };
    assert_eq!(check("claude").unwrap()["through"], false);
    assert_eq!(check("claude").unwrap()["ok"], true);
    assert_eq!(check("gemini"), None, "it is not installed");
    assert!(check("port").unwrap()["detail"].as_str().unwrap().contains("127.0.0.1:9"));
    home.run(&["setup", "claude"]);
    let claude = check("claude").unwrap();
    assert_eq!(
        (&claude["through"], &claude["ok"]),
        (&Value::from(true), &Value::from(false)),
        "no server answers"
    );
    assert_eq!(home.run(&["doctor"]).code, 1);
    assert_eq!(check("codex").unwrap()["through"], false);
}
