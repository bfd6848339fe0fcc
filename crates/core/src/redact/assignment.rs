//! Secrets known by the name they are assigned to: `password=…`, `api_key: …`, `"token": "…"`.
//!
//! A name is the weakest evidence there is, so the value has to convince too: code, types, references and
//! placeholders stand in the same place far more often than secrets do.

use std::ops::Range;

use super::SecretKind;
use super::rules::{Find, Rule};
use super::scan::{Alphabet, FoundSecret, byte, byte_before, distinct, run_back, run_within};
use super::value::{Sort, ValueText};

pub(super) const NAMED: Rule = Rule {
    kind: SecretKind::Assignment,
    keywords: &[
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "token",
        "api_key",
        "api-key",
        "apikey",
        "access_key",
        "access-key",
        "accesskey",
        "private_key",
        "privatekey",
        "auth_key",
        "authkey",
        "account_key",
        "accountkey",
        "encryption_key",
        "encryptionkey",
        "signing_key",
        "signingkey",
        "master_key",
        "masterkey",
    ],
    find: Find::Around(named),
    hits: &[
        "password=«hunter2»",
        "password=«swordfish» user=x",
        r#"{"password": "«swordfish»"}"#,
        "DB_PASSWORD=«0a1B2c3D!»\nDB_HOST=x",
        "password: «s3same-0pen»",
        r#"{"api_key": "«0a1B2c3D4e5F6g7H»", "n": 1}"#,
        r#"{\"client_secret\": \"«0a1B2c3D4e5F6g7H»\"}"#,
        r#""{\\\"dbPassword\\\":\\\"«s3same/open»\\\"}""#,
        "https://api.example.com/v1?token=«0a1b2c3d4e5f»&page=2",
        "X-Api-Key: «0a1B2c3D4e5F6g7H»",
        "api_key = '«0a1B2c3D4e5F6g7H»'",
        "let token: &str = \"«0a1B2c3D4e5F6g7H»\";",
        "config[\"password\"] = \"«tr0ub4dor&3»\"",
        "AccountName=x;AccountKey=«0a1B2c3D4e5F6g7H8i9J+/==»;EndpointSuffix=y",
        "SECRET_KEY_BASE=«0123456789abcdef0123456789abcdef»",
        "password: '«correct-horse-battery-staple»'",
        "password=«hunter2»\\nuser=x",
    ],
    misses: &[
        "password=****",
        "connect(user=user, password=password, passwd=dbPasswd)",
        "\"password\": \"string\"",
        "password=${DB_PASSWORD_2}",
        "password=$DB_PASSWORD_2",
        "api_key=<your-key-1>",
        "token: String",
        "token: Option<SecretString64>",
        "token = get_token2()",
        "password = os.environ[\"DB_PASSWORD_2\"]",
        "password=None, token=null",
        "self.password = self.settings.password2",
        "max_tokens: 128000, token_count=4096",
        "\"next_page_token\": \"CAUQAA0a1B2c3D4e\"",
        "PWD=/home/nobody/src2",
        "\"password\": \"Must have 8 characters\"",
        "\"password\": \"Password*\"",
        "password: uint256",
        "PASSWORD: WIN32_ERROR",
        "clienttoken : super::Win32::Foundation",
        "InheritPrivateKey: X509RequestInheritOptions",
        "\"AWS::IAM::AccessKey\": \"62d91b17309e76c8\"",
        "\"ChangePassword\": \"arn:aws:iam::aws:policy/Change2\"",
        "\"token\": \"step-2-done\"",
        "password == \"hunter2\"",
        "<input type=\"password\" id=\"pw1\">",
        "password: \"{{ vault_password_1 }}\"",
        "password=[redacted:assignment]",
    ],
};

fn named(text: &str, keyword: Range<usize>) -> Option<FoundSecret> {
    let end = name_end(text, keyword.end)?;
    // Most names are only mentioned: no need to look at them closer.
    if !byte(text, end).is_some_and(|next| b" \t:=\"'`\\".contains(&next)) {
        return None;
    }
    let start = run_back(text, keyword.start, LONGEST_BEFORE, |byte| Alphabet::Base64Url.has(byte));
    // `Vault::Secret` is a type, and what it is assigned belongs to the type.
    if text.as_bytes().get(..start)?.ends_with(b"::") {
        return None;
    }
    let sort = promise(text.get(start..keyword.start)?, text.get(keyword)?)?;
    let value = ValueText::after(text, end, sort)?;
    Some(FoundSecret { secret: value.secret, read: start..value.read_to })
}

/// Names are not longer; what stands before does not matter.
const LONGEST_BEFORE: usize = 32;

/// Where the name around a keyword ends, if it still means the secret: `secret_key`, `password2`, `token_1`.
fn name_end(text: &str, keyword_end: usize) -> Option<usize> {
    const ENDINGS: [&str; 9] =
        ["_access_key", "accesskey", "_key_base", "_key", "-key", "key", "_value", "value", "_base64"];
    let goes_on = |at| byte(text, at).is_some_and(|next| Alphabet::Base64Url.has(next));
    if !goes_on(keyword_end) {
        return Some(keyword_end);
    }
    let rest = text.as_bytes().get(keyword_end..)?;
    let begins = |ending: &&&str| {
        rest.get(..ending.len()).is_some_and(|rest| rest.eq_ignore_ascii_case(ending.as_bytes()))
    };
    let end = keyword_end + ENDINGS.iter().find(begins).map_or(0, |ending| ending.len());
    let number = run_within(text, end, 1, |byte| byte == b'_');
    let numbered = run_within(text, number, 2, |byte| byte.is_ascii_digit());
    let end = if numbered > number { numbered } else { end };
    (!goes_on(end)).then_some(end)
}

/// What a name promises, given its keyword and what stands before it; nothing if it names something harmless.
fn promise(before: &str, keyword: &str) -> Option<Sort> {
    /// Tokens that are words of a language or places in a list.
    const HARMLESS: [&str; 15] = [
        "page",
        "next",
        "previous",
        "continuation",
        "cancellation",
        "eos",
        "bos",
        "pad",
        "unk",
        "sep",
        "cls",
        "mask",
        "max",
        "num",
        "stop",
    ];
    match keyword.to_ascii_lowercase().as_str() {
        "token" => {
            let before = before.trim_end_matches(['_', '-']).to_ascii_lowercase();
            (!HARMLESS.iter().any(|word| before.ends_with(word))).then_some(Sort::Key)
        }
        // `cpwd` is a word, `db_pwd` is a name.
        "pwd" => (!before.ends_with(|last: char| last.is_ascii_alphanumeric())).then_some(Sort::Password),
        "password" | "passwd" | "passphrase" => Some(Sort::Password),
        _ => Some(Sort::Key),
    }
}

pub(super) const AWS_SECRET: Rule = Rule {
    kind: SecretKind::Aws,
    keywords: &[
        "secret_access_key",
        "secretaccesskey",
        "secret-access-key",
        "secret access key",
        "aws_secret_key",
    ],
    find: Find::Around(aws_secret),
    hits: &[
        concat!("aws_secret_access_key = «0a1B2c3D4e5F6g7H8i9J", "/a1B2c3D4e+F6g7H8i9J»"),
        concat!("AWS_SECRET_ACCESS_KEY=«0a1B2c3D4e5F6g7H8i9J", "0a1B2c3D4e5F6g7H8i9J»"),
        concat!(r#"{"SecretAccessKey": "«0a1B2c3D4e5F6g7H8i9J"#, r#"/a1B2c3D4e+F6g7H8i9J»"}"#),
        concat!(r#"{\"secretAccessKey\":\"«0a1B2c3D4e5F6g7H8i9J"#, r#"/a1B2c3D4e+F6g7H8i9J»\"}"#),
        concat!("<SecretAccessKey>«0a1B2c3D4e5F6g7H8i9J", "/a1B2c3D4e+F6g7H8i9J»</SecretAccessKey>"),
        concat!("Secret access key:\n«0a1B2c3D4e5F6g7H8i9J", "/a1B2c3D4e+F6g7H8i9J»"),
    ],
    misses: &[
        "aws_secret_access_key = 0a1B2c3D4e5F6g7H8i9J",
        "aws_secret_access_key = ****************************************",
        "aws_secret_access_key: 0123456789abcdef0123456789abcdef01234567",
        concat!("sha = 0a1B2c3D4e5F6g7H8i9J", "/a1B2c3D4e+F6g7H8i9J"),
        "AWS_SECRET_ACCESS_KEY=${SECRET_ACCESS_KEY_OF_THE_BUILD_ACCOUNT_1}",
        concat!("aws_secret_access_key = 0a1B2c3D4e5F6g7H8i9J", "/a1B2c3D4e+F6g7H8i9J0a1B"),
    ],
};

/// Every secret access key has this length.
const AWS_SECRET_LENGTH: usize = 40;

/// Quotes, blanks, colons and tags between a name and its value.
const LONGEST_BETWEEN: usize = 16;

fn aws_secret(text: &str, keyword: Range<usize>) -> Option<FoundSecret> {
    let is_between = |byte: u8| {
        byte.is_ascii_whitespace()
            || matches!(byte, b':' | b'=' | b'"' | b'\'' | b'\\' | b'>' | b',' | b'|' | b'`')
    };
    let start = run_within(text, keyword.end, LONGEST_BETWEEN, is_between);
    let end = run_within(text, start, AWS_SECRET_LENGTH + 1, |byte| Alphabet::Base64.has(byte));
    let secret = text.get(start..end)?;
    let separate = byte_before(text, start).is_some_and(is_between);
    let random = secret.bytes().any(|byte| byte.is_ascii_lowercase())
        && secret.bytes().any(|byte| byte.is_ascii_uppercase())
        && distinct(secret) >= 8;
    (separate && secret.len() == AWS_SECRET_LENGTH && random)
        .then_some(FoundSecret { secret: start..end, read: keyword.start..end })
}
