//! The password in `scheme://user:password@host`.

use std::ops::Range;

use super::SecretKind;
use super::header::is_placeholder;
use super::rules::{Find, Rule};
use super::scan::{FoundSecret, byte, byte_before, run_within};

pub(super) const PASSWORD: Rule = Rule {
    kind: SecretKind::UrlPassword,
    keywords: &["://"],
    find: Find::Around(url_password),
    hits: &[
        "postgres://app:«s3same-open»@db.internal:5432/app",
        "redis://:«0a1B2c3D»@cache:6379/0",
        "DATABASE_URL=\"mysql+pymysql://root:«p%40ss»@localhost/x?ssl=1\"",
        "https://nobody:«open-sesame»@host",
        "amqp://guest:«gu@st»@rabbit",
        r#"{\"url\": \"mongodb+srv://u:«0a1B2c3D»@cluster0.example.net\"}"#,
    ],
    misses: &[
        "https://example.com:8080/a@b",
        "postgres://user:password@localhost/db",
        "https://user@host/path:x",
        "postgres://app:${DB_PASSWORD}@db/app",
        "https://<user>:<password>@host",
        "redis://:****@cache:6379",
        "http://a:b/c@d",
        "https://{user}:{pass}@host",
    ],
};

/// A password longer than this is not in a URL; every database driver refuses earlier.
const LONGEST_PART: usize = 512;

fn url_password(text: &str, keyword: Range<usize>) -> Option<FoundSecret> {
    if !byte_before(text, keyword.start).is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let in_authority = |byte: u8| {
        !byte.is_ascii_whitespace()
            && !matches!(
                byte,
                b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>' | b'[' | b']' | b'|'
            )
    };
    let start = keyword.end;
    let colon =
        run_within(text, start, LONGEST_PART, |byte| in_authority(byte) && !matches!(byte, b':' | b'@'));
    if byte(text, colon) != Some(b':') {
        return None;
    }
    // A password may hold an unescaped `@`: the last one before the host ends it.
    let end = run_within(text, colon + 1, LONGEST_PART, in_authority);
    let at = colon + 1 + text.get(colon + 1..end)?.rfind('@')?;
    let password = text.get(colon + 1..at)?;
    let literal = !password.is_empty()
        && !password.starts_with(['$', '{', '%', '*'])
        && !matches!(
            password.to_ascii_lowercase().as_str(),
            "password" | "passwd" | "pass" | "pwd" | "pw" | "secret"
        )
        && !is_placeholder(password);
    literal.then_some(FoundSecret { secret: colon + 1..at, read: keyword.start..end })
}
