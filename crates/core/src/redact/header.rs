//! Credentials as they travel in headers: `Bearer`, `Basic`, and JSON web tokens.

use std::ops::Range;

use super::SecretKind;
use super::rules::{Find, Rule};
use super::scan::{Alphabet, FoundSecret, byte, distinct, opens, run, run_within};
use crate::base64;

pub(super) const JWT: Rule = Rule {
    kind: SecretKind::Jwt,
    keywords: &["eyJ"],
    find: Find::Around(jwt),
    hits: &[
        concat!("«eyJ", "hbGciOiJub25lIn0.eyJ", "zdWIiOiJub2JvZHkifQ.0a1B2c3D4e5F»"),
        concat!("Bearer «eyJ", "hbGciOiJub25lIn0.eyJ", "zdWIiOiJub2JvZHkifQ.0a1B2c3D4e5F»"),
        concat!("{\"id_token\":\"«eyJ", "hbGciOiJub25lIn0.eyJ", "zdWIiOiJub2JvZHkifQ.0a1B2-3D4e_F»\"}"),
        concat!("?jwt=«eyJ", "hbGciOiJub25lIn0.eyJ", "zdWIiOiJub2JvZHkifQ.0a1B2c3D4e5F»&next=1"),
        concat!("jwe: «eyJ", "hbGciOiJub25lIn0.0a1B2c3D4e.0a1B2c3D4e.0a1B2c3D4e.0a1B2c3D4e»"),
    ],
    misses: &[
        concat!("eyJ", "hbGciOiJub25lIn0"),
        concat!("eyJ", "hbGciOiJub25lIn0.eyJ", "zdWIiOiJub2JvZHkifQ"),
        "eyJ.eyJ.eyJ",
        concat!("keyJ", "hbGciOiJub25lIn0.eyJ", "zdWIiOiJub2JvZHkifQ.0a1B2c3D4e5F"),
        "eyJust.kidding.here",
    ],
};

/// The shortest header, `{"alg":"x"}`, encodes to 15 characters; payload and signature are never tiny.
const SHORTEST_PART: usize = 8;

fn jwt(text: &str, keyword: Range<usize>) -> Option<FoundSecret> {
    if text.get(keyword.clone())? != "eyJ" || !opens(text, keyword.start, Alphabet::Base64Url) {
        return None;
    }
    let part = |from| run(text, from, |byte| Alphabet::Base64Url.has(byte));
    let mut end = part(keyword.end);
    let mut parts = usize::from(end - keyword.start >= SHORTEST_PART);
    // An encrypted token has five parts; a dot that ends a sentence begins no part.
    while parts > 0 && parts < 5 && byte(text, end) == Some(b'.') {
        let next = part(end + 1);
        if next - (end + 1) < SHORTEST_PART {
            break;
        }
        end = next;
        parts += 1;
    }
    (parts >= 3).then(|| FoundSecret::bare(keyword.start..end))
}

pub(super) const BEARER: Rule = Rule {
    kind: SecretKind::Bearer,
    keywords: &["bearer"],
    find: Find::Around(bearer),
    hits: &[
        "Authorization: Bearer «0a1B2c3D4e5F6g7H»",
        "authorization: bearer «0a1b2c3d4e5f6a7b8c9d0a1b2c3d4e5f»",
        r#"{"Authorization": "Bearer «0a1B2c3D.4e5F~6g7H+8i/9J==»"}"#,
        r#"-H \"Authorization: Bearer «0a1B2c3D4e5F6g7H8i9J»\""#,
        "Bearer%20«0a1B2c3D4e5F6g7H8i9J»",
        "It said Bearer «0a1B2c3D4e5F6g7H8i9J».",
    ],
    misses: &[
        "Bearer authentication-required",
        "Bearer YOUR_ACCESS_TOKEN_GOES_HERE_1",
        "Bearer 0a1B2c3D4e",
        "Bearer ${ACCESS_TOKEN_NUMBER_1}",
        "Bearer <token-of-at-least-16-characters>",
        "Bearer xxxxxxxxxxxxxxxxxxxxxxx1",
        "the standard-bearer 0a1B2c3D",
    ],
};

/// Shorter ones are words or examples.
const SHORTEST_BEARER: usize = 16;

fn bearer(text: &str, keyword: Range<usize>) -> Option<FoundSecret> {
    let start = after_scheme(text, &keyword)?;
    let end = run(text, start, |byte| Alphabet::Token68.has(byte));
    let token = text.get(start..end)?.trim_end_matches('.');
    let random = token.len() >= SHORTEST_BEARER
        && token.bytes().any(|byte| byte.is_ascii_digit())
        && distinct(token) >= 6
        && !is_placeholder(token);
    random.then(|| FoundSecret { secret: start..start + token.len(), read: keyword.start..end })
}

/// Words that people write where a secret goes, and that no generator writes.
pub(super) fn is_placeholder(value: &str) -> bool {
    const WORDS: [&str; 12] = [
        "your",
        "example",
        "changeme",
        "change_me",
        "change-me",
        "placeholder",
        "xxxx",
        "****",
        "....",
        "insert",
        "redacted",
        "_here",
    ];
    let value = value.to_ascii_lowercase();
    WORDS.iter().any(|word| value.contains(word))
}

/// Where the credential after `Bearer` or `Basic` begins.
fn after_scheme(text: &str, scheme: &Range<usize>) -> Option<usize> {
    if !opens(text, scheme.start, Alphabet::Alnum) {
        return None;
    }
    let rest = text.get(scheme.end..)?;
    if rest.starts_with("%20") {
        return Some(scheme.end + 3);
    }
    // More blanks than this are a table, not a header.
    let end = run_within(text, scheme.end, 4, |byte| matches!(byte, b' ' | b'\t'));
    (end > scheme.end).then_some(end)
}

pub(super) const BASIC: Rule = Rule {
    kind: SecretKind::Basic,
    keywords: &["basic"],
    find: Find::Around(basic),
    hits: &[
        "Authorization: Basic «bm9ib2R5Om5vdGhpbmc=»",
        "authorization: basic «bm9ib2R5OnNlc2FtZQ==»",
        r#"{"Authorization":"Basic «bm9ib2R5OnNlc2FtZQ»"}"#,
        r#"-H \"Authorization: Basic «bm9ib2R5Om5vdGhpbmc=»\""#,
        "Basic%20«OnBhc3N3b3JkLW9ubHk=»",
    ],
    misses: &[
        "Basic authentication",
        "Basic bm8gY29sb24gaGVyZQ==",
        "Basic training for new users",
        "Basic 0a1B2c3D4e5F6g7H8i9J",
        "a basic dXNlcg== name",
        "Visual Basic 6",
    ],
};

/// `user:password` fits well below this; a longer run is a document.
const LONGEST_BASIC: usize = 1024;

fn basic(text: &str, keyword: Range<usize>) -> Option<FoundSecret> {
    let start = after_scheme(text, &keyword)?;
    let end = run_within(text, start, LONGEST_BASIC, |byte| Alphabet::Base64.has(byte));
    let decoded = String::from_utf8(base64::decode(text.get(start..end)?)?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    let readable = decoded.len() >= 4 && !decoded.chars().any(char::is_control);
    (readable && !(user.is_empty() && password.is_empty()))
        .then_some(FoundSecret { secret: start..end, read: keyword.start..end })
}
