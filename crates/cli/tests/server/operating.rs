//! What `compose.yaml` and `docs/operating.md` say about PostgreSQL, done: the role, the backup, the restore.

use std::process::{Command, Output};

use serde_json::json;

use crate::client::chat;
use crate::many::postgres;
use crate::process::{Server, Setup};
use crate::support::{folder, repository, scrollback_in};

/// The block of shell lines of the page that has this word.
fn lines_of_the_page(word: &str) -> String {
    let page = std::fs::read_to_string(repository("docs/operating.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_string());
    let found: Vec<String> = blocks.filter(|block| block.contains(word)).collect();
    assert_eq!(found.len(), 1, "one block of docs/operating.md has {word}");
    found[0].clone()
}

/// Runs a script with PostgreSQL's programs and the command at hand.
fn shell(database: &postgres::Server, script: &str, variables: &[(&str, String)]) -> Output {
    let command = std::path::Path::new(env!("CARGO_BIN_EXE_scrollback")).parent().unwrap();
    let path = format!(
        "{}:{}:{}",
        database.programs().display(),
        command.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder("operating-shell"))
        .env("PATH", path)
        .envs(variables.iter().map(|(name, value)| (*name, value)))
        .output()
        .unwrap()
}

#[test]
fn the_role_of_the_composed_services_serves_and_its_backup_is_restored() {
    let Some(database) = postgres::Server::start() else { return };
    let script = std::fs::read_to_string(repository("ops/postgres-init.sh")).unwrap();
    let (host, port) = (database.folder().display().to_string(), database.port().to_string());
    let variables = [
        ("POSTGRES_USER", "postgres".to_string()),
        ("POSTGRES_DB", "postgres".to_string()),
        ("SCROLLBACK_PASSWORD", "it's a secret".to_string()),
        ("PGHOST", host),
        ("PGPORT", port),
    ];
    let made = shell(&database, &script, &variables);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

    let of = |role: &str| format!("postgres://{role}@{}:{}", database.host(), database.port());
    let store = format!("{}/scrollback", of("scrollback"));
    let key = scrollback_in(&folder("operating-key"), &["key", "add", "laptop", "--store", &store], b"");
    assert_eq!(key.code, 0, "{key:?}");
    // A superuser is not held to the rows of one tenant, so it is refused; the composed services have another role.
    let refused = scrollback_in(
        &folder("operating-refused"),
        &["serve", "--listen", "127.0.0.1:0", "--json", "--store", &format!("{}/scrollback", of("postgres"))],
        b"",
    );
    assert_ne!(refused.code, 0, "{refused:?}");
    let server = Server::with("operating", &Setup { store: Some(store.clone()), ..Setup::default() });
    let authorization = format!("Bearer {}", key.stdout.trim());
    let headers = [("authorization", authorization.as_str()), ("x-scrollback-recipient", "anna")];
    let body = chat(
        "offline:echo",
        &json!([{ "role": "user", "content": format!("keep this {}", "word ".repeat(2_000)) }]),
    );
    let answer = server.call("POST", "/v1/chat/completions", &headers, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let export = |store: &str| {
        let args = ["export", "--all", "--format", "scrollback", "--store", store];
        let run = scrollback_in(&server.folder, &args, b"");
        assert_eq!(run.code, 0, "{run:?}");
        run.stdout
    };
    let before = export(&store);
    assert!(before.contains("keep this"));

    let variables = [("ADMIN", of("postgres")), ("STORE", of("scrollback"))];
    let restored = shell(&database, &lines_of_the_page("pg_restore"), &variables);
    let said = String::from_utf8_lossy(&restored.stdout).into_owned();
    assert!(restored.status.success(), "{said}{}", String::from_utf8_lossy(&restored.stderr));
    let copy = format!("{}/restored", of("scrollback"));
    assert_eq!(export(&copy), before, "the copy says what the store says");
    // It serves, and knows the same key.
    let again = Server::with("operating-restored", &Setup { store: Some(copy), ..Setup::default() });
    let answer = again.call("POST", "/v1/chat/completions", &headers, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(again.call("POST", "/v1/chat/completions", &[], &body).status, 401);
}
