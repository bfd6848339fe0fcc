//! PostgreSQL over TLS, several hosts, and passwords from where libpq looks for them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Server, block_on, free_port, required, victim};
use scrollback_core::Time;
use scrollback_store::{ErrorKind, Listing, Postgres, Records};

fn openssl(folder: &Path, args: &str) {
    let output = Command::new("openssl").args(args.split(' ')).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, a certificate it signed for the name `localhost`, and another authority.
fn certificates(folder: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    for name in ["root", "other"] {
        openssl(folder, &format!("req -x509 {key} -keyout {name}.key -out {name}.crt -subj /CN={name}"));
    }
    openssl(
        folder,
        &format!(
            "req {} -keyout server.key -out server.csr -subj /CN=localhost",
            key.replace(" -days 2", "")
        ),
    );
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(
        folder,
        "x509 -req -in server.csr -CA root.crt -CAkey root.key -CAcreateserial -days 2 -extfile names -out server.crt",
    );
    std::fs::set_permissions(folder.join("server.key"), PermissionsExt::from_mode(0o600)).unwrap();
}

const SECURED: &str = "-c ssl=on -c ssl_cert_file=FOLDER/server.crt -c ssl_key_file=FOLDER/server.key";

fn secured_server() -> Option<Server> {
    required::program(&["openssl"], "PostgreSQL over TLS")?;
    Server::start_with(SECURED, certificates)
}

/// Whether a store can be opened there; if so, whether its connection is encrypted.
fn encrypted(server: &Server, host: &str, options: &str) -> Result<bool, String> {
    let url = format!("postgres://app@{host}:{}/app?{options}", server.port());
    block_on(async {
        match Postgres::open(&url, Time(0)).await {
            Ok(_open) => {
                let sql = "select bool_and(s.ssl) from pg_stat_ssl s join pg_stat_activity a using (pid) \
                           where a.application_name = 'scrollback'";
                Ok(server.ask("app", sql) == "t")
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OpenFailed, "{error}");
                Err(error.to_string())
            }
        }
    })
}

#[test]
fn every_sslmode_means_what_libpq_means_by_it() {
    let Some(server) = secured_server() else { return };
    let file = |name: &str| format!("sslrootcert={}", server.folder().join(name).display());
    let (root, other) = (file("root.crt"), file("other.crt"));
    let own = file("server.crt");
    let cases = [
        ("localhost", "sslmode=disable".to_string(), Ok(false)),
        ("localhost", String::new(), Ok(true)),
        ("localhost", "sslmode=prefer".into(), Ok(true)),
        ("127.0.0.1", "sslmode=require".into(), Ok(true)),
        ("127.0.0.1", format!("sslmode=require&{root}"), Ok(true)),
        ("127.0.0.1", format!("sslmode=require&{other}"), Err("certificate")),
        ("127.0.0.1", format!("sslmode=verify-ca&{root}"), Ok(true)),
        ("127.0.0.1", format!("sslmode=verify-ca&{own}"), Ok(true)),
        ("localhost", format!("sslmode=verify-ca&{other}"), Err("certificate")),
        ("localhost", "sslmode=verify-ca".into(), Err("certificate")),
        ("localhost", format!("sslmode=verify-full&{root}"), Ok(true)),
        ("localhost", format!("sslmode=verify-full&{own}"), Ok(true)),
        ("127.0.0.1", format!("sslmode=verify-full&{root}"), Err("certificate")),
        ("localhost", "sslmode=verify-full&sslrootcert=system".into(), Err("certificate")),
        ("localhost", "sslmode=verify-full&sslrootcert=/no/such/file".into(), Err("/no/such/file")),
    ];
    for (host, options, wanted) in cases {
        let found = encrypted(&server, host, &options);
        match (&found, wanted) {
            (Ok(found), Ok(wanted)) => assert_eq!(*found, wanted, "{host} {options}"),
            (Err(found), Err(wanted)) => {
                assert!(found.to_lowercase().contains(wanted), "{host} {options}: {found}");
            }
            _ => panic!("{host} {options}: {found:?}, and not {wanted:?}"),
        }
    }
}

#[test]
fn a_server_without_tls_is_used_only_where_that_is_allowed() {
    let Some(server) = Server::start() else { return };
    assert_eq!(encrypted(&server, "localhost", "sslmode=prefer"), Ok(false));
    for mode in ["require", "verify-ca", "verify-full"] {
        assert!(encrypted(&server, "localhost", &format!("sslmode={mode}")).is_err(), "{mode}");
    }
}

#[test]
fn of_several_hosts_the_one_that_can_be_written_is_used() {
    let Some(standby) = Server::start() else { return };
    standby.sql("alter database app set default_transaction_read_only = on");
    let Some(primary) = Server::start() else { return };
    let (dead, standby_port, port) = (free_port(), standby.port(), primary.port());
    let url = format!("postgres://app@127.0.0.1:{dead},127.0.0.1:{standby_port},127.0.0.1:{port}/app");
    for attributes in ["", "?target_session_attrs=read-write"] {
        let store = block_on(Postgres::open(&format!("{url}{attributes}"), Time(0))).unwrap();
        assert!(block_on(store.list(None, Listing { limit: 1, ..Listing::default() })).is_ok());
    }
    let made = |server: &Server| {
        server.ask("app", "select count(*) from information_schema.schemata where schema_name = 'scrollback'")
    };
    assert_eq!((made(&standby).as_str(), made(&primary).as_str()), ("0", "1"));
}

#[test]
fn variables_and_files_of_passwords_are_used_as_libpq_uses_them() {
    let Some(server) = Server::start() else { return };
    server.sql("create role careful login password 'pass:word'");
    server.sql("grant all on database app to careful");
    let rules =
        "local all all trust\nhost all careful 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    std::fs::write(server.folder().join("data/pg_hba.conf"), rules).unwrap();
    server.sql("select pg_reload_conf()");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passwords");
    std::fs::write(&file, format!("127.0.0.1:{}:app:careful:pass\\:word\n", server.port())).unwrap();
    let run = |mode: u32| {
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        let mut command = Command::new(victim());
        command.args(["few", "postgres://?schema=careful", "1"]).env_remove("PGPASSWORD");
        command.env("PGHOST", "127.0.0.1").env("PGPORT", server.port().to_string());
        command.env("PGUSER", "careful").env("PGDATABASE", "app").env("PGPASSFILE", &file);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(run(0o600), "the password is found");
    assert_eq!(server.ask("app", "select count(*) from careful.entries"), "36");
    assert!(!run(0o644), "a file that others may read is not used");
}
