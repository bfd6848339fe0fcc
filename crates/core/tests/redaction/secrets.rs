//! Generated secrets, plain and in the wrappings they travel in.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::random::{ALNUM, BASE64, BASE64_URL, DIGITS, HEX, LOWER, Random};

/// A text with one secret in it.
pub(crate) struct Sample {
    pub(crate) text: String,
    /// The part that must not be seen any more, spelled as in the text.
    pub(crate) secret: String,
}

impl Sample {
    fn alone(secret: String) -> Sample {
        Sample { text: secret.clone(), secret }
    }

    fn within(before: &str, secret: String, after: &str) -> Sample {
        Sample { text: format!("{before}{secret}{after}"), secret }
    }

    /// Whether neither end of the secret, nor the whole, is left in what is shown.
    pub(crate) fn is_hidden_in(&self, shown: &str) -> bool {
        let chars: Vec<char> = self.secret.chars().collect();
        let tail: String = chars[chars.len() - 6..].iter().collect();
        let middle: String = chars[chars.len() / 2 - 3..chars.len() / 2 + 3].iter().collect();
        !shown.contains(&tail) && !shown.contains(&middle)
    }

    fn spelled(&self, spell: impl Fn(&str) -> String) -> Sample {
        Sample { text: spell(&self.text), secret: spell(&self.secret) }
    }
}

/// Whether a secret is recognised by its own form or by the name before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Prefix,
    Name,
}

type Make = fn(&mut Random) -> Sample;

/// Every kind that is always redacted, and how to make one.
pub(crate) const KINDS: &[(&str, Sign, Make)] = &[
    ("openai", Sign::Prefix, |r| {
        let (head, alphabet, length) = match r.below(4) {
            0 => ("", ALNUM, 48),
            1 => ("proj-", BASE64_URL, 120),
            2 => ("svcacct-", BASE64_URL, 100),
            _ => ("or-v1-", HEX, 64),
        };
        Sample::alone(format!("sk-{head}{}", r.text(alphabet, length)))
    }),
    ("anthropic", Sign::Prefix, |r| {
        Sample::alone(format!(
            "sk-ant-{}-{}AA",
            r.pick(&["api03", "admin01", "sid01"]),
            r.text(BASE64_URL, 93)
        ))
    }),
    ("google", Sign::Prefix, |r| {
        let (head, length) = if r.below(2) == 0 { ("AIza", 35) } else { ("ya29.", r.between(60, 200)) };
        Sample::alone(format!("{head}{}", r.text(BASE64_URL, length)))
    }),
    ("aws", Sign::Prefix, |r| {
        if r.below(2) == 0 {
            let head = r.pick(&["AKIA", "ASIA"]);
            return Sample::alone(format!("{head}{}", r.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)));
        }
        let before = r.pick(&["aws_secret_access_key = ", "AWS_SECRET_ACCESS_KEY=", "SecretAccessKey: "]);
        Sample::within(before, r.text(BASE64, 40), "")
    }),
    ("github", Sign::Prefix, |r| {
        if r.below(3) == 0 {
            return Sample::alone(format!("github_pat_{}_{}", r.text(ALNUM, 22), r.text(ALNUM, 59)));
        }
        let head = r.pick(&["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]);
        Sample::alone(format!("{head}{}", r.text(ALNUM, 36)))
    }),
    ("gitlab", Sign::Prefix, |r| Sample::alone(format!("glpat-{}", r.text(BASE64_URL, 20)))),
    ("slack", Sign::Prefix, |r| {
        let prefix = r.pick(&["xoxb-", "xoxp-", "xoxa-", "xoxs-", "xoxr-"]);
        Sample::alone(format!("{prefix}{}-{}-{}", r.text(DIGITS, 12), r.text(DIGITS, 13), r.text(ALNUM, 24)))
    }),
    ("stripe", Sign::Prefix, |r| {
        let length = r.pick(&["24", "99"]).parse().unwrap_or(24);
        Sample::alone(format!("{}{}", r.pick(&["sk_live_", "rk_live_"]), r.text(ALNUM, length)))
    }),
    ("huggingface", Sign::Prefix, |r| {
        Sample::alone(format!("hf_{}", r.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 34)))
    }),
    ("groq", Sign::Prefix, |r| {
        Sample::alone(format!("gsk_{}WGdyb3FY{}", r.text(ALNUM, 20), r.text(ALNUM, 24)))
    }),
    ("xai", Sign::Prefix, |r| Sample::alone(format!("xai-{}", r.text(ALNUM, 80)))),
    ("npm", Sign::Prefix, |r| Sample::alone(format!("npm_{}", r.text(ALNUM, 36)))),
    ("jwt", Sign::Prefix, |r| {
        let (payload, signature) = (r.between(40, 300), r.pick(&["43", "86", "342"]).parse().unwrap_or(43));
        let header = r.pick(&["hbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9"]);
        Sample::alone(format!(
            "eyJ{header}.eyJ{}.{}",
            r.text(BASE64_URL, payload),
            r.text(BASE64_URL, signature)
        ))
    }),
    ("private_key", Sign::Prefix, |r| {
        let title = r.pick(&["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "]);
        let lines: Vec<String> = (0..r.between(1, 25)).map(|_| r.text(BASE64, 64)).collect();
        let end = if r.below(4) == 0 { String::new() } else { format!("\n-----END {title}PRIVATE KEY-----") };
        let text = format!("-----BEGIN {title}PRIVATE KEY-----\n{}{end}", lines.join("\n"));
        Sample { text, secret: lines.last().cloned().unwrap_or_default() }
    }),
    ("url_password", Sign::Prefix, |r| {
        let scheme = r.pick(&["postgres", "mysql", "redis", "mongodb+srv", "https", "amqp"]);
        let user = r.pick(&["app", "root", "svc-deploy", "nobody", ""]);
        let length = r.between(6, 24);
        let before = format!("{scheme}://{user}:");
        Sample::within(
            &before,
            r.text("ABCDEFGHabcdefghijkmnpqrstuvwxyz23456789-_.~!", length),
            "@db.internal:5432/app",
        )
    }),
    ("bearer", Sign::Name, |r| {
        let length = r.between(16, 64);
        let alphabet = if r.below(2) == 0 { HEX } else { BASE64_URL };
        let before = r.pick(&["Authorization: Bearer ", "authorization: bearer ", "Bearer "]);
        Sample::within(before, r.text(alphabet, length), "")
    }),
    ("basic", Sign::Name, |r| {
        let (user, password) = (r.between(3, 10), r.between(6, 20));
        let pair = format!("{}:{}", r.text(LOWER, user), r.text(ALNUM, password));
        Sample::within("Authorization: Basic ", STANDARD.encode(pair), "")
    }),
    ("assignment", Sign::Name, |r| {
        let (name, value) = match r.below(2) {
            0 => (
                r.pick(&[
                    "password",
                    "DB_PASSWORD",
                    "passwd",
                    "userPassword",
                    "db_pwd",
                    "passphrase",
                    "smtp.password",
                ]),
                password(r),
            ),
            _ => (
                r.pick(&[
                    "api_key",
                    "API_KEY",
                    "apiKey",
                    "x-api-key",
                    "secret",
                    "client_secret",
                    "SECRET_KEY",
                    "token",
                    "auth_token",
                    "ACCESS_TOKEN",
                    "refreshToken",
                    "AccountKey",
                    "signing_key",
                ]),
                key(r),
            ),
        };
        let (before, after) = match r.below(7) {
            0 => (format!("{name}="), "\n"),
            1 => (format!("{name}: "), "\n"),
            2 => (format!("\"{name}\": \""), "\""),
            3 => (format!("{name} = \""), "\""),
            4 => (format!("{name}='"), "'"),
            5 => (format!("https://api.example.com/v1/items?{name}="), "&page=2"),
            _ => (format!("\\\"{name}\\\": \\\""), "\\\""),
        };
        Sample::within(&before, value, after)
    }),
];

/// As people choose them.
fn password(r: &mut Random) -> String {
    let words = ["dragon", "summer", "monkey", "sesame", "castle", "purple", "winter", "garden"];
    match r.below(5) {
        0 => format!("{}{}", r.pick(&words), r.text(DIGITS, 2)),
        1 => format!("{}-{}-{}-{}", r.pick(&words), r.pick(&words), r.pick(&words), r.pick(&words)),
        2 => {
            let length = r.between(8, 20);
            r.text(ALNUM, length)
        }
        _ => {
            let length = r.between(8, 20);
            r.text("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789!@#$%^*-_+=?&", length)
        }
    }
}

/// As services make them.
fn key(r: &mut Random) -> String {
    let length = r.between(16, 64);
    match r.below(4) {
        0 => r.text(HEX, length),
        1 => uuid(r),
        2 => r.text(BASE64, 43) + "=",
        _ => r.text(BASE64_URL, length),
    }
}

pub(crate) fn uuid(r: &mut Random) -> String {
    [8, 4, 4, 4, 12].map(|length| r.text(HEX, length)).join("-")
}

type Wrap = fn(&Sample) -> Sample;

/// The wrappings; a text of several lines or with a header of its own is not put in every one of them.
pub(crate) const WRAPPINGS: &[(&str, Wrap)] = &[
    ("JSON string", |sample| {
        let wrapped = sample.spelled(json_escaped);
        Sample { text: format!(r#"{{"role":"tool","content":"{}"}}"#, wrapped.text), secret: wrapped.secret }
    }),
    ("JSON in JSON", |sample| {
        let wrapped = sample.spelled(json_escaped).spelled(json_escaped);
        let text = format!(r#"{{"body":"{{\"id\":1,\"content\":\"{}\"}}"}}"#, wrapped.text);
        Sample { text, secret: wrapped.secret }
    }),
    ("YAML", |sample| Sample {
        text: format!("server:\n  value: |\n    {}\n  next: 1\n", sample.text.replace('\n', "\n    ")),
        secret: sample.secret.clone(),
    }),
    ("Markdown", |sample| Sample {
        text: format!("Use this one:\n\n```\n{}\n```\n\nand not the old one.", sample.text),
        secret: sample.secret.clone(),
    }),
    (".env", |sample| Sample {
        text: format!("PORT=8080\nSERVICE_VALUE=\"{}\"\nDEBUG=1\n", sample.text),
        secret: sample.secret.clone(),
    }),
    ("header", |sample| Sample {
        text: format!("Accept: */*\r\nX-Service: {}\r\nHost: example.com\r\n", sample.text),
        secret: sample.secret.clone(),
    }),
    ("URL query", |sample| {
        let wrapped = sample.spelled(url_encoded);
        Sample {
            text: format!("https://api.example.com/v1?q=1&v={}&page=2", wrapped.text),
            secret: wrapped.secret,
        }
    }),
];

/// Which of the wrappings a kind is found in outside of riddles: `://` and line ends do not survive a URL.
pub(crate) fn wrappings(kind: &str, sign: Sign) -> &'static [(&'static str, Wrap)] {
    match (kind, sign) {
        ("private_key", _) | (_, Sign::Name) => &WRAPPINGS[..4],
        ("url_password" | "aws", _) => &WRAPPINGS[..6],
        _ => WRAPPINGS,
    }
}

fn json_escaped(text: &str) -> String {
    let quoted = json!(text).to_string();
    quoted[1..quoted.len() - 1].to_string()
}

fn url_encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
