//! PEM private keys: everything from the begin line to the end line.

use std::ops::Range;

use memchr::memmem;

use super::SecretKind;
use super::rules::{Find, Rule};
use super::scan::{Alphabet, FoundSecret, run, run_within};

pub(super) const PRIVATE_KEY: Rule = Rule {
    kind: SecretKind::PrivateKey,
    keywords: &["-----BEGIN "],
    find: Find::Around(private_key),
    hits: &[
        "«-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAAAAAA\n-----END PRIVATE KEY-----»\n",
        "a «-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----» b",
        r#"{"private_key":"«-----BEGIN PRIVATE KEY-----\nAAAABBBBCCCCDDDDEEEE\n-----END PRIVATE KEY-----»\n"}"#,
        "key: |\n  «-----BEGIN OPENSSH PRIVATE KEY-----\n  b3BlbnNzaC1rZXktdjEAAAAA\n  cut off»",
        "«-----BEGIN EC PRIVATE KEY----- AAAABBBBCCCCDDDDEEEE -----END EC PRIVATE KEY-----»",
        "«-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\nAAAA\n-----END PGP PRIVATE KEY BLOCK-----»",
    ],
    misses: &[
        "-----BEGIN CERTIFICATE-----\nAAAABBBBCCCCDDDDEEEE\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nAAAABBBBCCCCDDDDEEEE\n-----END PUBLIC KEY-----",
        "if text.contains(\"-----BEGIN PRIVATE KEY-----\") { return Err(Leak) }",
        "A PEM file starts with -----BEGIN PRIVATE KEY----- and then has lines of base64.",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY",
    ],
};

/// `PGP PRIVATE KEY BLOCK` and the like are far shorter.
const LONGEST_TITLE: usize = 40;

/// Fewer characters than this after the begin line are talk about keys, not a key.
const SHORTEST_BODY: usize = 16;

const END: &str = "-----END ";

fn private_key(text: &str, keyword: Range<usize>) -> Option<FoundSecret> {
    let body = after_title(text, keyword.end)?;
    if !holds_key(text, body) {
        return None;
    }
    let mut ends = memmem::find_iter(text.as_bytes().get(body..)?, END);
    let end = ends.find_map(|end| after_title(text, body + end + END.len()));
    Some(FoundSecret::bare(keyword.start..end.unwrap_or(text.len())))
}

/// Where the line goes on after `… PRIVATE KEY-----`.
fn after_title(text: &str, from: usize) -> Option<usize> {
    let is_title = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ';
    let end = run_within(text, from, LONGEST_TITLE, is_title);
    let title = text.get(from..end)?;
    let private = title.ends_with("PRIVATE KEY") || title.ends_with("PRIVATE KEY BLOCK");
    (private && text.get(end..)?.starts_with("-----")).then_some(end + 5)
}

/// Whether what follows the begin line is the inside of a key: base64, or the headers of an encrypted one.
fn holds_key(text: &str, from: usize) -> bool {
    // Line ends come as they are, or escaped once or more often in JSON: `\n`, `\\r\\n`.
    let mut at = run(text, from, |byte| byte.is_ascii_whitespace() || byte == b'\\');
    while matches!(text.as_bytes().get(at.saturating_sub(1)..=at), Some([b'\\', b'n' | b'r'])) {
        at = run(text, at + 1, |byte| byte.is_ascii_whitespace() || byte == b'\\');
    }
    let rest = text.get(at..).unwrap_or_default();
    let base64 = run_within(text, at, SHORTEST_BODY, |byte| Alphabet::Base64.has(byte)) - at;
    at > from
        && (base64 == SHORTEST_BODY
            || ["Proc-Type:", "DEK-Info:", "Version:", "Comment:"]
                .iter()
                .any(|header| rest.starts_with(header)))
}
