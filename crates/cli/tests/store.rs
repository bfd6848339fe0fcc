//! The commands of the store as people and scripts meet them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use crate::support::{Run, folder, repository, scrollback_in};
use serde_json::{Value, json};

/// A folder with a store of its own.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        Home(folder(&format!("store-{name}")))
    }

    fn run(&self, args: &[&str]) -> Run {
        scrollback_in(&self.0, args, b"")
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let run = self.run(&[args, &["--json"]].concat());
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run.json()
    }

    #[track_caller]
    fn fails(&self, args: &[&str], exit: i32, code: &str) -> Value {
        let run = self.run(&[args, &["--json"]].concat());
        assert_eq!((run.code, run.stderr.lines().count()), (exit, 1), "{args:?}: {run:?}");
        let error = run.json()["error"].clone();
        assert_eq!(error["code"], code, "{args:?}: {error}");
        error
    }

    fn say(&self, recipient: &str, role: &str, text: &str) -> Value {
        self.json(&["history", recipient, "append", "--role", role, "--content", text])
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        name.into()
    }
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_history_is_appended_shown_and_listed() {
    let home = Home::new("history");
    let first = home.say("anna", "user", "Is my order on its way?");
    assert_eq!(keys(&first), ["first", "last", "link"]);
    home.write("more.json", r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"track","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"in Oslo"},{"role":"assistant","content":"It is in Oslo."}]"#);
    let more = home.json(&["history", "anna", "append", "--file", "more.json", "--expect", "1"]);
    assert_eq!((more["first"].clone(), more["last"].clone()), (json!(1), json!(3)));
    let shown = home.json(&["history", "anna"]);
    assert_eq!(
        keys(&shown),
        [
            "recipient",
            "key",
            "conversation",
            "status",
            "summary",
            "messages",
            "counts",
            "head",
            "positions",
            "conversations"
        ]
    );
    assert_eq!(shown["key"], "conversation:anna");
    assert_eq!(shown["messages"][1]["tool_calls"][0]["id"], "c1");
    assert_eq!(shown["counts"], json!({ "entries": 4, "turns": 1, "covered_turns": 0 }));
    assert_eq!(shown["head"], json!({ "position": 4, "link": more["link"] }));
    assert_eq!(home.json(&["history", "anna", "show", "--turns", "0"])["messages"], json!([]));
    assert_eq!(home.json(&["history", "anna", "--all"])["messages"].as_array().unwrap().len(), 4);
    let anthropic = home.json(&["history", "anna", "--to", "anthropic"]);
    assert_eq!(anthropic["messages"][1]["content"][0]["type"], "tool_use");
    let plain = home.run(&["history", "anna"]).stdout;
    assert!(plain.lines().count() == 4 && plain.contains("track({})"), "{plain}");
    let list = home.json(&["list"]);
    assert_eq!(keys(&list), ["conversations", "next"]);
    assert_eq!(
        keys(&list["conversations"][0]),
        [
            "recipient",
            "conversation",
            "session",
            "kind",
            "parent",
            "title",
            "status",
            "updated_at",
            "turns",
            "entries",
            "last_role"
        ]
    );
    assert_eq!((list["conversations"][0]["entries"].clone(), list["next"].clone()), (json!(4), Value::Null));
}

#[test]
fn statuses_follow_ups_and_closing() {
    let home = Home::new("status");
    home.say("anna", "user", "hello");
    home.say("anna", "assistant", "hi");
    let status = home.json(&["history", "anna", "status", "awaiting_answer", "--at", "2026-01-31T12:00:00Z"]);
    assert_eq!(
        keys(&status),
        ["recipient", "status", "status_at", "last_role", "last_at", "turns", "follow_up"]
    );
    assert_eq!(status["status_at"], "2026-01-31T12:00:00.000Z");
    let at = status["last_at"].as_str().unwrap().to_string();
    let due = home.json(&["history", "anna", "status", "--at", "2100-01-01T00:00:00Z"])["follow_up"].clone();
    assert_eq!(due["due"], true);
    let early = home.json(&["history", "anna", "status", "--at", &at])["follow_up"].clone();
    assert_eq!(early["due"], false);
    assert_eq!(home.json(&["history", "anna", "close"])["status"], "closed");
    home.say("anna", "user", "one more thing");
    assert_eq!(home.json(&["history", "anna", "status"])["status"], "active");
    assert_eq!(home.json(&["list", "--status", "active"])["conversations"].as_array().unwrap().len(), 1);
    assert_eq!(home.json(&["list", "--status", "idle"])["conversations"].as_array().unwrap().len(), 0);
}

#[test]
fn eleven_turns_are_compacted_and_the_record_keeps_all() {
    let home = Home::new("compact");
    let turn = |n: usize| {
        format!(r#"{{"role":"user","content":"question {n}"}},{{"role":"assistant","content":"answer {n}"}}"#)
    };
    let turns =
        |range: std::ops::Range<usize>| format!("[{}]", range.map(turn).collect::<Vec<_>>().join(","));
    home.write("ten.json", &turns(0..10));
    home.json(&["history", "anna", "append", "--file", "ten.json"]);
    let under = home.json(&["history", "anna", "compact"]);
    assert_eq!((under["compacted"].clone(), under["reason"].clone()), (json!(false), json!("under_bound")));
    home.write("one.json", &turns(10..11));
    home.json(&["history", "anna", "append", "one.json"]);
    let done = home.json(&["history", "anna", "compact"]);
    assert_eq!((done["compacted"].clone(), done["covers"].clone()), (json!(true), json!([0, 15])));
    let shown = home.json(&["history", "anna"]);
    assert_eq!(shown["summary"], done["summary"]);
    assert_eq!(shown["messages"].as_array().unwrap().len(), 7);
    assert!(
        shown["messages"][0]["content"]
            .as_str()
            .unwrap()
            .starts_with("Summary of the earlier conversation:\n")
    );
    assert_eq!(shown["counts"], json!({ "entries": 22, "turns": 11, "covered_turns": 8 }));
    let all = home.json(&["history", "anna", "--all"]);
    assert_eq!(all["messages"].as_array().unwrap().len(), 23);
    assert_eq!(all["messages"][22]["decision"]["decision"], "summary");
    home.fails(&["history", "anna", "compact", "--keep", "10"], 2, "usage");
    home.fails(&["history", "anna", "compact", "--keep", "0"], 2, "usage");
    home.fails(&["history", "anna", "compact", "--model", "openai:gpt-4o"], 1, "missing_key");
    home.fails(&["history", "anna", "compact", "--model", "gpt-9000"], 2, "bad_model");
}

#[test]
fn what_was_said_is_found_and_what_was_erased_is_not() {
    let home = Home::new("search");
    home.say("anna", "user", "The codeword is Xylophone, at the Café");
    home.say("ben", "user", "I never heard of a xylophone");
    let found = home.json(&["search", "xylophone"]);
    assert_eq!(found["hits"].as_array().unwrap().len(), 2);
    for key in ["recipient", "conversation", "position", "role", "created_at", "snippet"] {
        assert!(found["hits"][0].get(key).is_some(), "{key}");
    }
    let anna = home.json(&["search", "xylo*", "cafe", "--recipient", "anna", "--role", "user"]);
    assert!(anna["hits"][0]["snippet"].as_str().unwrap().contains("«Xylophone»"));
    let none = home.json(&["search", "unheard"]);
    assert_eq!(none, json!({ "hits": [], "next": null }));
    assert_eq!(home.json(&["search", "\"unclosed", "-x", "*", "(", "'"])["hits"], json!([]));
    let page = home.json(&["search", "xylophone", "--limit", "1"]);
    let next = page["next"].as_str().unwrap();
    assert_eq!(home.json(&["search", "xylophone", "--after", next])["hits"].as_array().unwrap().len(), 1);
    home.fails(&["history", "anna", "erase"], 2, "usage");
    let erased = home.json(&["history", "anna", "erase", "--yes"]);
    assert_eq!(
        (&erased["erased"], &erased["conversations"], &erased["names"]),
        (&json!(1), &json!(1), &json!(2))
    );
    assert_eq!(home.json(&["search", "xylophone"])["hits"].as_array().unwrap().len(), 1);
    let verified = home.json(&["verify"]);
    assert_eq!(
        verified,
        json!({ "ok": true, "conversations": 2, "entries": 2, "erased": 1, "problems": [] })
    );
    assert!(
        !String::from_utf8_lossy(&std::fs::read(home.0.join("scrollback.db")).unwrap()).contains("codeword")
    );
}

#[test]
fn verify_reports_what_changed_and_what_was_cut_off() {
    let home = Home::new("verify");
    for text in ["one", "two", "three"] {
        home.say("anna", "user", text);
    }
    let link = home.json(&["history", "anna"])["head"]["link"].as_str().unwrap().to_string();
    assert_eq!(home.json(&["verify", "--recipient", "anna", "--expect", &link])["ok"], true);
    let file = home.0.join("scrollback.db");
    let bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(5).position(|window| window == b"three").unwrap();
    let mut changed = bytes.clone();
    changed[at] = b'T';
    std::fs::write(&file, changed).unwrap();
    let run = home.run(&["verify", "--json"]);
    assert_eq!(run.code, 4, "{run:?}");
    let problem = &run.json()["problems"][0];
    assert_eq!((problem["problem"].clone(), problem["position"].clone()), (json!("body_changed"), json!(2)));
    home.fails(&["history", "anna"], 1, "damaged");
    std::fs::write(&file, bytes).unwrap();
    let run = home.run(&["verify", "--recipient", "anna", "--expect", &"0".repeat(64), "--json"]);
    assert_eq!((run.code, run.json()["problems"][0]["problem"].clone()), (4, json!("head_mismatch")));
    assert_eq!(home.json(&["verify", "--reindex"])["reindexed"], 0);
}

#[test]
fn bad_input_gets_a_code_and_changes_nothing() {
    let home = Home::new("bad");
    home.say("anna", "user", "hello");
    home.fails(&["list", "--store", "mysql://x"], 2, "bad_url");
    home.fails(&["list", "--store", "sqlite:"], 2, "bad_url");
    home.fails(&["history", "", "show"], 2, "usage");
    home.fails(&["history", "a\nb"], 2, "usage");
    home.fails(&["history", &"x".repeat(513)], 2, "usage");
    home.fails(&["history", "anna", "--turns", "-1"], 2, "usage");
    home.fails(&["history", "anna", "status", "asleep"], 2, "unknown_status");
    home.fails(&["history", "anna", "append", "--role", "robot", "--content", "x"], 2, "unknown_role");
    home.fails(&["history", "anna", "--to", "morse"], 2, "unknown_wire");
    home.fails(&["export", "--all", "--format", "morse"], 2, "unknown_format");
    home.fails(&["import", "x.json", "--format", "morse"], 2, "unknown_wire");
    home.fails(&["search", "x", "--since", "yesterday"], 2, "usage");
    home.fails(&["list", "--after", "nonsense"], 2, "usage");
    home.fails(&["verify", "--expect", "abc"], 2, "usage");
    let error = home.fails(&["history", "anna", "append", "--content", "x", "--expect", "5"], 1, "conflict");
    assert_eq!((error["expected"].clone(), error["actual"].clone()), (json!(5), json!(1)));
    home.fails(&["history", "nobody"], 1, "not_found");
    home.fails(&["history", "nobody", "status"], 1, "not_found");
    for (text, exit, code) in [
        ("[{", 4, "bad_json"),
        (r#"[{"role":"robot"}]"#, 4, "bad_message"),
        (r#"{"a":1}"#, 4, "bad_input"),
        ("[]", 4, "bad_input"),
        (r#"[{"role":"user","content":"\ud800"}]"#, 1, "bad_text"),
    ] {
        let name = home.write("bad.json", text);
        home.fails(&["history", "anna", "append", "--file", &name], exit, code);
    }
    home.write("notes.txt", &"no database at all ".repeat(20));
    home.fails(&["list", "--store", "sqlite:notes.txt"], 1, "foreign_file");
    home.fails(
        &["history", "anna", "append", "--content", "x", "--store", "sqlite:no/such/folder.db"],
        1,
        "open_failed",
    );
    assert_eq!(home.json(&["history", "anna"])["head"]["position"], 1);
    // Looking at a store that is not there makes none.
    let reading: [&[&str]; 7] = [
        &["list"],
        &["list", "--tree"],
        &["search", "word"],
        &["verify"],
        &["export", "--all"],
        &["history", "anna"],
        &["history", "anna", "status", "closed"],
    ];
    for command in reading {
        let refused = home.fails(&[command, &["--store", "sqlite:none.db"]].concat(), 1, "not_found");
        assert!(refused.to_string().contains("none.db"), "{command:?}: {refused}");
    }
    assert!(!home.0.join("none.db").exists());
}

#[test]
fn tenants_and_settings_are_taken_from_where_they_should_be() {
    let home = Home::new("settings");
    home.json(&["history", "anna", "append", "--content", "secret", "--tenant", "acme"]);
    home.fails(&["history", "anna"], 1, "not_found");
    assert_eq!(home.json(&["search", "secret"])["hits"], json!([]));
    assert_eq!(home.json(&["search", "secret", "--tenant", "acme"])["hits"].as_array().unwrap().len(), 1);
    assert_eq!(home.json(&["verify"])["conversations"], 1);
    std::fs::create_dir_all(home.0.join("inner")).unwrap();
    home.write(
        "scrollback.toml",
        "store = \"sqlite:named.db\"\n[history]\nmaxRecentTurns = 1\n[history.follow_up]\nactive = 1\n",
    );
    let inner = Home(home.0.join("inner"));
    inner.say("anna", "user", "one");
    inner.say("anna", "user", "two");
    assert!(home.0.join("named.db").exists() && !inner.0.join("named.db").exists());
    assert_eq!(inner.json(&["history", "anna"])["messages"].as_array().unwrap().len(), 1);
    inner.say("anna", "assistant", "three");
    let status = inner.json(&["history", "anna", "status"]);
    let minutes = |key: &str| {
        status["follow_up"]["at"].as_str().map(|at| at.get(..16).map(String::from)).filter(|_| key == "at")
    };
    assert!(minutes("at").is_some());
    home.write("scrollback.toml", "[history]\nrecentTurnsToKeep = 10\n");
    home.fails(&["history", "anna", "--tenant", "acme"], 2, "bad_config");
}

#[test]
fn the_doctor_looks_at_everything() {
    let home = Home::new("doctor");
    home.say("anna", "user", "hello");
    let found = home.json(&["doctor"]);
    let names: Vec<&str> =
        found["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    // Clients that are installed on the machine follow.
    assert_eq!(names[..6], ["configuration", "store", "schema", "file system", "keys", "port"]);
    assert_eq!(found["ok"], true);
    home.write("notes.txt", &"no database at all ".repeat(20));
    let run = home.run(&["doctor", "--store", "sqlite:notes.txt", "--json"]);
    assert_eq!((run.code, run.json()["ok"].clone()), (1, json!(false)));
}

/// Every fixture of every format is imported; importing it again adds nothing.
#[test]
fn every_format_is_imported_once() {
    let home = Home::new("import");
    let mut formats = 0;
    for entry in std::fs::read_dir(repository("corpus/transcript")).unwrap() {
        let format_folder = entry.unwrap().path();
        let format = format_folder.file_name().unwrap().to_str().unwrap().to_string();
        let mut added = 0;
        let mut inputs: Vec<PathBuf> =
            std::fs::read_dir(&format_folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        inputs.sort();
        for input in inputs {
            let path = input.to_str().unwrap();
            let store = format!("sqlite:{format}-{}.db", input.file_name().unwrap().to_str().unwrap());
            let args = ["import", path, "--format", &format, "--store", &store, "--json"];
            let dry = home.run(&[&args[..], &["--dry-run"]].concat());
            let first = home.run(&args);
            if first.json()["added"] == 0 {
                continue;
            }
            assert_eq!(dry.json()["added"], first.json()["added"], "{path}");
            let again = home.run(&args).json();
            assert_eq!(
                (again["added"].clone(), again["skipped"].clone()),
                (json!(0), first.json()["added"].clone()),
                "{path}"
            );
            added += first.json()["added"].as_u64().unwrap();
            assert_eq!(home.json(&["verify", "--store", &store])["ok"], true, "{path}");
        }
        assert!(added > 0, "nothing of {format} was imported");
        formats += 1;
    }
    assert_eq!(formats, 15);
}

#[test]
fn branches_become_forks_and_helpers_conversations_of_their_own_also_with_a_recipient() {
    let home = Home::new("faithful");
    let line = |id: &str, up: &str, side: &str, role: &str, text: &str| {
        let up = if up.is_empty() { "null".into() } else { format!("\"{up}\"") };
        let side = if side.is_empty() {
            "\"isSidechain\":false".into()
        } else {
            format!("\"isSidechain\":true,\"agentId\":\"{side}\"")
        };
        format!(
            "{{\"parentUuid\":{up},{side},\"sessionId\":\"s-1\",\"type\":\"{role}\",\"uuid\":\"{id}\",\
             \"timestamp\":\"2026-02-10T21:00:{}.000Z\",\"message\":{{\"role\":\"{role}\",\"content\":\"{text}\"}}}}\n",
            id.trim_start_matches(char::is_alphabetic)
        )
    };
    let first = [
        line("u10", "", "", "user", "begin"),
        line("a11", "u10", "", "assistant", "begun"),
        line("u12", "a11", "", "user", "this way"),
        line("a13", "u12", "", "assistant", "went this way"),
        line("x14", "a11", "helper", "user", "look there"),
        line("x15", "x14", "helper", "assistant", "nothing there"),
    ]
    .concat();
    let rewound =
        [line("u20", "a11", "", "user", "that way"), line("a21", "u20", "", "assistant", "went that way")]
            .concat();
    for recipient in [None, Some("anna")] {
        let store = format!("sqlite:{}.db", recipient.unwrap_or("none"));
        let whom: Vec<&str> = recipient.map_or(Vec::new(), |name| vec!["--recipient", name]);
        let import = |text: &str| {
            let file = home.write("session.jsonl", text);
            home.json(&[&["import", &file, "--store", &store][..], &whom].concat())
        };
        let told = |home: &Home| -> Vec<Vec<String>> {
            let list = home.json(&["list", "--store", &store]);
            let ids = list["conversations"].as_array().unwrap().iter();
            let mut all: Vec<Vec<String>> = ids
                .map(|row| {
                    assert_eq!(row["recipient"].as_str(), recipient, "{row}");
                    let id = row["conversation"].as_str().unwrap();
                    let out = home
                        .run(&["export", "--conversation", id, "--format", "openai-chat", "--store", &store])
                        .stdout;
                    let body: Value = serde_json::from_str(&out).unwrap();
                    let list = body.get("messages").unwrap_or(&body).as_array().unwrap().clone();
                    list.iter().map(|message| message["content"].as_str().unwrap().to_string()).collect()
                })
                .collect();
            all.sort();
            all
        };
        assert_eq!(import(&first)["added"], 6);
        let (trunk, helper) =
            (["begin", "begun", "this way", "went this way"], ["look there", "nothing there"]);
        assert_eq!(told(&home), [trunk.to_vec(), helper.to_vec()]);
        // The person went back and said something else: the newest path is another one now.
        assert_eq!(import(&[first.as_str(), &rewound].concat())["added"], 2);
        let fork = ["begin", "begun", "that way", "went that way"];
        assert_eq!(told(&home), [fork.to_vec(), trunk.to_vec(), helper.to_vec()]);
        assert_eq!(import(&[first.as_str(), &rewound].concat())["added"], 0);
        assert_eq!(home.json(&["verify", "--store", &store])["ok"], true);
    }
}

#[test]
fn calls_without_ids_are_paired_when_they_are_read_back_and_verify_is_content() {
    let home = Home::new("no-ids");
    let gemini = r#"{"contents":[{"role":"user","parts":[{"text":"Oslo and Rome?"}]},
        {"role":"model","parts":[{"functionCall":{"name":"w","args":{"c":"Oslo"}}},{"functionCall":{"name":"w","args":{"c":"Rome"}}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"w","response":{"t":1}}},{"functionResponse":{"name":"w","response":{"t":2}}}]},
        {"role":"model","parts":[{"text":"cold and warm"}]}]}"#;
    let old = r#"[{"role":"user","content":"weather?"},{"role":"assistant","content":null,"function_call":{"name":"w","arguments":"{}"}},
        {"role":"function","name":"w","content":"rain"},{"role":"assistant","content":"rain"},{"role":"user","content":"again?"},
        {"role":"assistant","content":null,"function_call":{"name":"w","arguments":"{}"}},{"role":"function","name":"w","content":"sun"}]"#;
    for (name, body, results) in [("gemini", gemini, 2), ("old", old, 2)] {
        let file = home.write(&format!("{name}.json"), body);
        for (way, recipient) in [("import", "imported"), ("append", "appended")] {
            let store = format!("sqlite:{name}-{way}.db");
            let args: &[&str] = match way {
                "import" => &["import", &file, "--recipient", recipient, "--store", &store],
                _ => &["history", recipient, "append", "--file", &file, "--store", &store],
            };
            home.json(args);
            if way == "import" {
                assert_eq!(home.json(args)["added"], 0);
            }
            assert_eq!(home.json(&["verify", "--store", &store])["ok"], true, "{name} {way}");
            let shown = home.json(&["history", recipient, "--store", &store]);
            let is_result = |message: &&Value| message["role"] == "tool" || message["role"] == "function";
            let tools = shown["messages"].as_array().unwrap().iter().filter(is_result).count();
            assert_eq!(tools, results, "{name} {way}: no call and no result is left out");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_fails_alone() {
    let home = Home::new("failing");
    home.write("good.json", r#"[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]"#);
    home.write("bad.json", "[{\"role\":");
    std::fs::write(home.0.join("latin.json"), b"[{\"role\":\"user\",\"content\":\"caf\xe9\"}]").unwrap();
    let lines = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n{\"messages\":\n{\"messages\":[{\"role\":\"user\",\"content\":\"b\"}]}\n";
    home.write("lines.jsonl", lines);
    let run = home.run(&["import", "good.json", "bad.json", "latin.json", "none.json", "--json"]);
    let report = run.json();
    assert_eq!(run.code, 1);
    assert_eq!(keys(&report), ["files", "conversations", "added", "skipped", "notes", "failed"]);
    assert_eq!((report["added"].clone(), report["failed"].as_array().unwrap().len()), (json!(2), 3));
    let run = home.run(&["import", "lines.jsonl", "--format", "openai-finetune", "--json"]);
    assert_eq!(
        (run.code, run.json()["added"].clone(), run.json()["failed"][0]["line"].clone()),
        (1, json!(2), json!(2))
    );
    let strict = home.run(&[
        "import",
        "lines.jsonl",
        "--format",
        "openai-finetune",
        "--strict",
        "--store",
        "sqlite:s.db",
        "--json",
    ]);
    assert_eq!((strict.code, strict.json()["added"].clone()), (1, json!(0)));
    let to_anna = home.json(&["import", "good.json", "--recipient", "anna", "--store", "sqlite:a.db"]);
    assert_eq!(to_anna["added"], 2);
    assert_eq!(home.json(&["history", "anna", "--store", "sqlite:a.db"])["counts"]["entries"], 2);
    home.write("good.json", r#"[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"},{"role":"user","content":"more"}]"#);
    let grown = home.json(&["import", "good.json", "--recipient", "anna", "--store", "sqlite:a.db"]);
    assert_eq!((grown["added"].clone(), grown["skipped"].clone()), (json!(1), json!(2)));
}

#[test]
fn our_own_export_gives_equal_links() {
    let home = Home::new("export");
    let long = "long ".repeat(2_000);
    for n in 0..12 {
        home.say("anna", "user", &format!("question {n} {}", if n == 3 { long.as_str() } else { "" }));
        home.say("anna", "assistant", "answer");
    }
    home.json(&["history", "anna", "compact"]);
    home.json(&["history", "anna", "erase", "--positions", "20-21", "--yes"]);
    let head = home.json(&["history", "anna"])["head"].clone();
    let out = home.run(&["export", "--all", "--to", "all.jsonl"]);
    assert_eq!(out.code, 0, "{out:?}");
    let imported = home.json(&["import", "all.jsonl", "--store", "sqlite:other.db"]);
    assert_eq!((imported["added"].clone(), imported["failed"].clone()), (json!(25), json!([])));
    assert_eq!(home.json(&["history", "anna", "--store", "sqlite:other.db"])["head"], head);
    assert_eq!(home.json(&["verify", "--store", "sqlite:other.db"])["ok"], true);
    assert_eq!(home.json(&["import", "all.jsonl", "--store", "sqlite:other.db"])["added"], 0);
    let text = std::fs::read_to_string(home.0.join("all.jsonl")).unwrap();
    home.write("forged.jsonl", &text.replace("question 5", "question 6"));
    let forged = home.run(&["import", "forged.jsonl", "--store", "sqlite:forged.db", "--json"]);
    assert_eq!((forged.code, forged.json()["added"].clone()), (1, json!(0)), "{forged:?}");
    home.json(&["import", "forged.jsonl", "--store", "sqlite:forged.db", "--no-verify"]);
    let backup = home.run(&["export", "--format", "sqlite", "--to", "backup.db"]);
    assert_eq!(backup.code, 0, "{backup:?}");
    assert_eq!(home.json(&["history", "anna", "--store", "sqlite:backup.db"])["head"], head);
}

#[test]
fn other_formats_are_exported_and_read_back() {
    let home = Home::new("formats");
    home.write("chat.json", r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"weather?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"w","arguments":"{\"city\":\"Oslo\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"rain"},{"role":"assistant","content":"Rain."}]"#);
    home.json(&["history", "anna", "append", "--file", "chat.json"]);
    for format in [
        "openai-chat",
        "openai-responses",
        "anthropic",
        "gemini",
        "bedrock",
        "openai-finetune",
        "langchain",
        "sharegpt",
    ] {
        let run = home.run(&["export", "--recipient", "anna", "--format", format]);
        assert_eq!((run.code, run.stdout.lines().count()), (0, 1), "{format}: {run:?}");
        home.write("out.json", &run.stdout);
        let back = home.run(&[
            "import",
            "out.json",
            "--format",
            format,
            "--store",
            &format!("sqlite:{format}.db"),
            "--json",
        ]);
        assert_eq!(back.code, 0, "{format}: {back:?}");
        let added = back.json()["added"].as_u64().unwrap();
        assert!(added >= if format == "sharegpt" { 3 } else { 5 }, "{format}: {added}");
    }
    let run = home.run(&["export", "--recipient", "anna", "--format", "strands", "--to", "out"]);
    assert_eq!(run.code, 0, "{run:?}");
    let session = std::fs::read_dir(home.0.join("out")).unwrap().next().unwrap().unwrap().path();
    assert!(Path::new(&session).join("agents/agent_default/messages/message_0.json").exists());
    home.say("ben", "user", "weather?");
    home.write("open.json", r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"c9","type":"function","function":{"name":"w","arguments":"{}"}}]}]"#);
    home.json(&["history", "ben", "append", "--file", "open.json"]);
    home.fails(&["export", "--recipient", "ben", "--format", "openai-finetune"], 1, "invalid_list");
    assert_eq!(
        home.run(&["export", "--recipient", "ben", "--format", "openai-finetune", "--repair"]).code,
        0
    );
}
