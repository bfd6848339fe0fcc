//! What a PostgreSQL URL and the variables of libpq say together. Pure: files and variables come from the caller.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::password_file;
use crate::error::{ErrorKind, StoreError};

/// How long connecting to one host may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long one statement may take, if the URL does not say it.
const STATEMENT: Duration = Duration::from_secs(60);

/// Where settings come from that are not in the URL.
pub(super) trait ConnectionVariables {
    /// An environment variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<String>;
    /// The text of a file of passwords; none if it may not be used.
    fn password_file(&self, path: &str) -> Option<String>;
}

/// How far a connection is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server can. The server's certificate is not looked at.
    Prefer,
    /// Always encrypted. The certificate is checked only if `sslrootcert` names who must have signed it.
    Require,
    /// The certificate must be signed by a trusted authority.
    VerifyCa,
    /// The same, and it must be the certificate of this host.
    VerifyFull,
}

/// Whom a certificate must be signed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Roots {
    /// The authorities the system trusts.
    System,
    /// Those in a file.
    File(String),
}

/// Everything about how a store is reached and used.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) config: Config,
    pub(super) security: Security,
    /// None if nothing was said: then `require` does not check, and the `verify-` modes trust the system's authorities.
    pub(super) roots: Option<Roots>,
    pub(super) schema: String,
    /// The value every transaction sets.
    pub(super) synchronous_commit: Option<String>,
    /// Whether a server without fsync is accepted.
    pub(super) accepts_no_fsync: bool,
    /// Whether a server is accepted that cannot repair a page which was written in half: on a file system that never does that.
    pub(super) accepts_torn_pages: bool,
    pub(super) statement_timeout: Duration,
}

/// Words of `synchronous_commit` under which an acknowledged commit is on the server's disk.
pub(super) const DURABLE: [&str; 4] = ["on", "local", "remote_write", "remote_apply"];

fn bad(message: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::BadUrl, message)
}

impl Settings {
    /// Reads a URL and what it leaves open.
    pub(super) fn read(url: &str, around: &dyn ConnectionVariables) -> Result<Settings, StoreError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut settings = Settings {
            config: Config::new(),
            security: Security::Prefer,
            roots: None,
            schema: "scrollback".into(),
            synchronous_commit: None,
            accepts_no_fsync: false,
            accepts_torn_pages: false,
            statement_timeout: STATEMENT,
        };
        let (mut mode, mut attributes, mut others) = (None, None, Vec::new());
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let value = decoded(value)?;
            match name {
                "schema" => settings.schema = schema(value)?,
                "synchronous_commit" => settings.synchronous_commit = Some(commit(value)?),
                "fsync" => settings.accepts_no_fsync = accepts_off(name, &value)?,
                "full_page_writes" => settings.accepts_torn_pages = accepts_off(name, &value)?,
                "statement_timeout" => settings.statement_timeout = duration(&value)?,
                "sslmode" => mode = Some(value),
                "sslrootcert" => settings.roots = Some(roots(value)),
                "target_session_attrs" => attributes = Some(value),
                _ => others.push(option),
            }
        }
        let rest = if others.is_empty() { base.into() } else { format!("{base}?{}", others.join("&")) };
        settings.config = rest.parse().map_err(|error: tokio_postgres::Error| {
            use std::error::Error;
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            bad(format!("not a PostgreSQL URL: {why}"))
        })?;
        let mode = mode.or_else(|| around.variable("PGSSLMODE"));
        settings.security = mode.as_deref().map_or(Ok(Security::Prefer), security)?;
        settings.roots = settings.roots.or_else(|| around.variable("PGSSLROOTCERT").map(roots));
        settings.complete(attributes, around)?;
        Ok(settings)
    }

    /// Fills what the URL left open.
    fn complete(
        &mut self,
        attributes: Option<String>,
        around: &dyn ConnectionVariables,
    ) -> Result<(), StoreError> {
        let config = &mut self.config;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            let hosts = around.variable("PGHOST").unwrap_or_else(|| "localhost".into());
            for host in hosts.split(',') {
                config.host(host);
            }
        }
        if config.get_ports().is_empty()
            && let Some(ports) = around.variable("PGPORT")
        {
            for port in ports.split(',') {
                let port = port.parse().map_err(|_| bad(format!("PGPORT: {port:?} is not a port")))?;
                config.port(port);
            }
        }
        if config.get_user().is_none()
            && let Some(user) = around.variable("PGUSER").or_else(|| around.variable("USER"))
        {
            config.user(user);
        }
        if config.get_dbname().is_none()
            && let Some(name) = around.variable("PGDATABASE").or_else(|| config.get_user().map(String::from))
        {
            config.dbname(name);
        }
        if config.get_application_name().is_none() {
            config.application_name(around.variable("PGAPPNAME").unwrap_or_else(|| "scrollback".into()));
        }
        match attributes.or_else(|| around.variable("PGTARGETSESSIONATTRS")).as_deref() {
            // A standby cannot be written, so of several hosts the one that can is wanted.
            None if config.get_hosts().len() > 1 => {
                config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
            None | Some("any") => {}
            Some("read-write" | "primary") => {
                config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
            Some(other) => {
                return Err(bad(format!(
                    "target_session_attrs={other}: a store must be writable; use read-write or any"
                )));
            }
        }
        if config.get_connect_timeout().is_none() {
            let seconds = around.variable("PGCONNECT_TIMEOUT").and_then(|text| text.parse().ok());
            config.connect_timeout(seconds.map_or(CONNECT, Duration::from_secs));
        }
        if config.get_password().is_none()
            && let Some(password) = password(config, around)
        {
            config.password(password);
        }
        // The server offers no encryption on a socket of the machine.
        if config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_))) {
            self.security = Security::Disable;
        }
        self.config.ssl_mode(match self.security {
            Security::Disable => SslMode::Disable,
            Security::Prefer => SslMode::Prefer,
            Security::Require | Security::VerifyCa | Security::VerifyFull => SslMode::Require,
        });
        Ok(())
    }
}

/// The password of the variable, else of the file of passwords.
fn password(config: &Config, around: &dyn ConnectionVariables) -> Option<String> {
    if let Some(password) = around.variable("PGPASSWORD") {
        return Some(password);
    }
    let named = around.variable("PGPASSFILE");
    let path = named.or_else(|| around.variable("HOME").map(|home| format!("{home}/.pgpass")))?;
    let text = around.password_file(&path)?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.as_str(),
        _ => "localhost",
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    password_file::find(&text, [host, &port, config.get_dbname().unwrap_or(user), user])
}

fn security(word: &str) -> Result<Security, StoreError> {
    Ok(match word {
        "disable" => Security::Disable,
        "allow" | "prefer" => Security::Prefer,
        "require" => Security::Require,
        "verify-ca" => Security::VerifyCa,
        "verify-full" => Security::VerifyFull,
        other => {
            return Err(bad(format!(
                "sslmode={other}: expected disable, prefer, require, verify-ca or verify-full"
            )));
        }
    })
}

fn roots(value: String) -> Roots {
    if value == "system" { Roots::System } else { Roots::File(value) }
}

fn schema(name: String) -> Result<String, StoreError> {
    let letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let begins = name.starts_with(|first: char| !first.is_ascii_digit());
    if begins && name.len() <= 63 && name.chars().all(letter) {
        return Ok(name);
    }
    Err(bad("a schema is named by lower-case letters, digits and underscores"))
}

fn commit(value: String) -> Result<String, StoreError> {
    if value == "off" || DURABLE.contains(&value.as_str()) {
        return Ok(value);
    }
    Err(bad(format!("synchronous_commit={value}: expected off, {}", DURABLE.join(", "))))
}

fn accepts_off(name: &str, value: &str) -> Result<bool, StoreError> {
    match value {
        "off" => Ok(true),
        "on" => Ok(false),
        other => Err(bad(format!("{name}={other}: expected off, to accept a server without it, or on"))),
    }
}

/// A time as PostgreSQL writes it: `500ms`, `30s`, `2min`; a bare number is milliseconds.
fn duration(text: &str) -> Result<Duration, StoreError> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..).unwrap_or_default() {
        "" | "ms" => Some(1),
        "s" => Some(1_000),
        "min" => Some(60_000),
        _ => None,
    };
    let millis = factor.zip(digits.parse::<u64>().ok()).map(|(factor, number)| factor * number.min(1 << 31));
    let millis = millis.filter(|millis| i32::try_from(*millis).is_ok());
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| bad(format!("statement_timeout={text}: expected a time such as 500ms, 30s or 2min")))
}

/// A value of a URL without its percent escapes.
fn decoded(text: &str) -> Result<String, StoreError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let pair = digit(rest.next()).zip(digit(rest.next()));
        let (high, low) = pair.ok_or_else(|| bad("a % in a URL is followed by two hexadecimal digits"))?;
        bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
    }
    String::from_utf8(bytes).map_err(|_| bad("an option of the URL is not UTF-8"))
}

/// A URL that can be shown.
pub(super) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "postgres://…".into() };
    let rest = rest.split('?').next().unwrap_or_default();
    match rest.rsplit_once('@') {
        Some((who, place)) => {
            let name = who.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}@{place}")
        }
        None => format!("{scheme}://{rest}"),
    }
}

/// Where settings come from in a running program.
pub(super) struct Process;

impl ConnectionVariables for Process {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    /// As libpq does, a file that others may read is not used.
    fn password_file(&self, path: &str) -> Option<String> {
        let file = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        if std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o077 != 0 {
            return None;
        }
        if file.is_file() { std::fs::read_to_string(path).ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashMap;

    use super::*;

    struct Given(HashMap<&'static str, &'static str>, &'static str);

    impl ConnectionVariables for Given {
        fn variable(&self, name: &str) -> Option<String> {
            self.0.get(name).map(ToString::to_string)
        }

        fn password_file(&self, path: &str) -> Option<String> {
            (path == "/passwords").then(|| self.1.into())
        }
    }

    fn read(url: &str, variables: &[(&'static str, &'static str)]) -> Result<Settings, StoreError> {
        let file = "# mine\nother:*:*:*:wrong\ndb.example:5433:*:anna:p\\:w\n";
        Settings::read(url, &Given(variables.iter().copied().collect(), file))
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("postgres://u:se:c@ret@h:5/db?x=1"), "postgres://u@h:5/db");
        assert_eq!(without_password("postgres://h/db"), "postgres://h/db");
    }

    #[test]
    fn options_of_a_url_mean_what_they_say() {
        let url = "postgres://h/db?schema=mine&sslmode=verify-full&sslrootcert=%2Fa%20b.pem&statement_timeout=2min\
                   &synchronous_commit=remote_apply&application_name=x";
        let read = read(url, &[]).unwrap();
        assert_eq!((read.schema.as_str(), read.security), ("mine", Security::VerifyFull));
        assert_eq!(read.roots, Some(Roots::File("/a b.pem".into())));
        assert_eq!(read.synchronous_commit.as_deref(), Some("remote_apply"));
        assert_eq!(read.statement_timeout, Duration::from_secs(120));
        assert_eq!(read.config.get_application_name(), Some("x"));
        assert!(!read.accepts_no_fsync);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_before_anything_is_opened() {
        let options = [
            "schema=",
            "schema=a;b",
            "schema=A",
            "sslmode=sometimes",
            "synchronous_commit=maybe",
            "fsync=1",
            "statement_timeout=soon",
            "statement_timeout=9999999min",
            "target_session_attrs=read-only",
            "sslrootcert=%2",
            "nonsense=1",
        ];
        for option in options {
            let error = read(&format!("postgres://h/db?{option}"), &[]).err();
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::BadUrl), "{option}");
        }
    }

    #[test]
    fn variables_fill_what_the_url_leaves_open_and_nothing_else() {
        let variables = [
            ("PGHOST", "db.example,second"),
            ("PGPORT", "5433"),
            ("PGUSER", "anna"),
            ("PGDATABASE", "notes"),
            ("PGSSLMODE", "require"),
            ("PGPASSFILE", "/passwords"),
            ("PGSSLROOTCERT", "system"),
        ];
        let filled = read("postgres://", &variables).unwrap();
        assert_eq!(filled.config.get_hosts().len(), 2);
        assert_eq!(filled.config.get_ports(), [5433]);
        assert_eq!((filled.config.get_user(), filled.config.get_dbname()), (Some("anna"), Some("notes")));
        assert_eq!(filled.config.get_password(), Some(b"p:w".as_slice()));
        assert_eq!(filled.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!((filled.security, filled.roots), (Security::Require, Some(Roots::System)));
        let named = read("postgres://u:x@h:1/d?sslmode=disable", &variables).unwrap();
        assert_eq!((named.config.get_user(), named.config.get_ports()), (Some("u"), [1].as_slice()));
        assert_eq!((named.config.get_password(), named.security), (Some(b"x".as_slice()), Security::Disable));
    }
}
