//! Tokens that announce themselves: a provider's prefix, then characters of an alphabet.
//!
//! The samples are assembled from pieces, so that no scanner takes this file for a leak.

use std::ops::Range;

use super::SecretKind;
use super::rules::{Find, Rule};
use super::scan::{Alphabet, FoundSecret, byte, distinct, opens, run};

/// What follows a prefix.
#[derive(Clone, Copy)]
pub(super) struct TokenShape {
    alphabet: Alphabet,
    /// How long the part after the prefix may be.
    least: usize,
    most: usize,
    /// What tells a key from a placeholder or a name.
    looks: fn(&str) -> bool,
}

impl TokenShape {
    /// The token whose prefix stands here.
    pub(super) fn find(&self, text: &str, prefix: Range<usize>) -> Option<FoundSecret> {
        if !opens(text, prefix.start, self.alphabet) {
            return None;
        }
        let end = run(text, prefix.end, |byte| self.alphabet.has(byte));
        let body = text.get(prefix.end..end)?;
        let whole = byte(text, end).is_none_or(|next| !next.is_ascii_alphanumeric());
        let fits = (self.least..=self.most).contains(&body.len());
        (whole && fits && (self.looks)(body)).then(|| FoundSecret::bare(prefix.start..end))
    }
}

/// For the kinds whose keys have no fixed length.
const ANY: usize = usize::MAX;

/// A placeholder such as `ghp_xxxx…` repeats itself.
fn varied(body: &str) -> bool {
    distinct(body) >= 6
}

/// Letters of both cases: no word or constant is written so.
fn mixed_case(body: &str) -> bool {
    varied(body)
        && body.bytes().any(|b| b.is_ascii_lowercase())
        && body.bytes().any(|b| b.is_ascii_uppercase())
}

/// Several digits: `xoxb-your-token-goes-here` has none.
fn numbered(body: &str) -> bool {
    varied(body) && body.bytes().filter(u8::is_ascii_digit).count() >= 4
}

/// One part without `-` and `_` is long and mixes letters with digits: kebab-case names never do.
fn random(body: &str) -> bool {
    let random_part = |part: &str| {
        part.len() >= 16
            && part.bytes().any(|b| b.is_ascii_digit())
            && part.bytes().any(|b| b.is_ascii_alphabetic())
    };
    varied(body) && body.split(['-', '_']).any(random_part)
}

/// Ten characters that no generator would produce.
macro_rules! ten {
    () => {
        "0a1B2c3D4e"
    };
}

/// Twenty of the same sort.
macro_rules! twenty {
    () => {
        "0a1B2c3D4e5F6g7H8i9J"
    };
}

const OPENAI_SHAPE: TokenShape =
    TokenShape { alphabet: Alphabet::Base64Url, least: 20, most: ANY, looks: random };

/// Keys of one provider begin like keys of another: `sk-ant-` is not `OpenAI`'s.
fn openai(text: &str, prefix: Range<usize>) -> Option<FoundSecret> {
    let theirs = text.get(prefix.end..)?.starts_with("ant-") || text.get(prefix.clone())? != "sk-";
    if theirs { None } else { OPENAI_SHAPE.find(text, prefix) }
}

pub(super) const ANTHROPIC: Rule = Rule {
    kind: SecretKind::Anthropic,
    keywords: &["sk-ant-"],
    find: Find::Token(OPENAI_SHAPE),
    hits: &[
        concat!("«sk-", "ant-api03-", twenty!(), twenty!(), "_", twenty!(), "-AA»"),
        concat!("ANTHROPIC_API_KEY=«sk-", "ant-api03-", twenty!(), twenty!(), "»"),
        concat!("{\"key\":\"«sk-", "ant-admin01-", twenty!(), ten!(), "»\"}"),
        concat!("x-api-key: «sk-", "ant-sid01-", twenty!(), "»"),
        concat!("line\\n«sk-", "ant-oat01-", twenty!(), ten!(), "»\\nline"),
    ],
    misses: &[
        concat!("sk-", "ant-your-api-key-goes-right-here"),
        concat!("sk-", "ant-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        concat!("sk-", "ant-api03-..."),
        concat!("task-sk-", "ant-", twenty!()),
        concat!("SK-", "ANT-", twenty!()),
        "the prefix is sk-ant- followed by api03",
    ],
};

pub(super) const OPENAI: Rule = Rule {
    kind: SecretKind::Openai,
    keywords: &["sk-"],
    find: Find::Around(openai),
    hits: &[
        concat!("«sk-", twenty!(), twenty!(), "5F6g7H8i»"),
        concat!("«sk-", "proj-", twenty!(), "_", twenty!(), "-", twenty!(), "»"),
        concat!("OPENAI_API_KEY='«sk-", "svcacct-", twenty!(), twenty!(), "»'"),
        concat!("Incorrect API key provided: «sk-", "0123456789abcdef0123456789abcdef»."),
        concat!("?api-key%3D«sk-", "or-v1-", "0123456789abcdef0123456789abcdef", "»&x=1"),
    ],
    misses: &[
        "sk-estimator-doc-link-fitted-and-then-some",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-your-openai-key-2024-goes-here",
        "the disk-0a1B2c3D4e5F6g7H8i9J0a1B is full",
        concat!("sk-", "ant-api03-", twenty!(), twenty!()),
        "sk-0a1B2c3D4e",
    ],
};

pub(super) const GOOGLE_KEY: Rule = Rule {
    kind: SecretKind::Google,
    keywords: &["AIza"],
    find: Find::Token(TokenShape { alphabet: Alphabet::Base64Url, least: 35, most: 35, looks: varied }),
    hits: &[
        concat!("«AI", "za", twenty!(), ten!(), "5F6g7»"),
        concat!("https://maps.example/api?key=«AI", "za", "-_", twenty!(), ten!(), "5F6»&v=3"),
        concat!("\"current_key\": \"«AI", "za", "Sy", twenty!(), ten!(), "5F6»\""),
        concat!("key: «AI", "za", "Sy", ten!(), "_", ten!(), "-", ten!(), "5»"),
        concat!("\\\"«AI", "za", "Sy", twenty!(), ten!(), "5F6»\\\""),
    ],
    misses: &[
        concat!("AI", "za", twenty!()),
        concat!("AI", "za", twenty!(), twenty!()),
        concat!("xAI", "za", twenty!(), ten!(), "5F6g7"),
        concat!("AI", "ZA", twenty!(), ten!(), "5F6g7"),
        "AIzaxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ],
};

pub(super) const GOOGLE_TOKEN: Rule = Rule {
    kind: SecretKind::Google,
    keywords: &["ya29."],
    find: Find::Token(TokenShape { alphabet: Alphabet::Base64Url, least: 20, most: ANY, looks: mixed_case }),
    hits: &[
        concat!("«ya", "29.", twenty!(), twenty!(), "»"),
        concat!("access_token=«ya", "29.a0", twenty!(), "_", twenty!(), "»"),
        concat!("{\"access_token\": \"«ya", "29.", ten!(), "_", twenty!(), "»\"}"),
        concat!("Authorization: Bearer «ya", "29.A0", twenty!(), "-", ten!(), "»"),
        concat!("token='«ya", "29.Gl", twenty!(), "»'"),
    ],
    misses: &[
        "ya29.",
        "ya29.example",
        "ya29.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        concat!("maya", "29.", twenty!(), twenty!()),
        "ya29.your-access-token-goes-here",
    ],
};

pub(super) const AWS_ID: Rule = Rule {
    kind: SecretKind::Aws,
    keywords: &["AKIA", "ASIA"],
    find: Find::Token(TokenShape { alphabet: Alphabet::Upper, least: 16, most: 16, looks: varied }),
    hits: &[
        concat!("«AK", "IA", "2B4D6F3C5E7G2B4D", "»"),
        concat!("aws_access_key_id = «AK", "IA", "2345672345ABCDEF", "»"),
        concat!("{\"AccessKeyId\":\"«AS", "IA", "ABCDEFGH23456723", "»\"}"),
        concat!("X-Amz-Credential=«AK", "IA", "2B4D6F3C5E7G2B4D", "»%2F20240101%2Fus-east-1"),
        concat!("«AS", "IA", "7Q6P5O4N3M2L7Q6P", "» is the id"),
    ],
    misses: &[
        "AKIA0000000000000000",
        concat!("AK", "IA", "2B4D6F3C5E7G"),
        concat!("AK", "IA", "2B4D6F3C5E7G2B4D6F"),
        concat!("AK", "IA", "2B4D6F3C5E7G2B4Dx"),
        concat!("ak", "ia", "2B4D6F3C5E7G2B4D"),
        "THE CONTINENT OF ASIA",
    ],
};

const GITHUB_SHAPE: TokenShape =
    TokenShape { alphabet: Alphabet::Alnum, least: 36, most: 255, looks: varied };

pub(super) const GITHUB: Rule = Rule {
    kind: SecretKind::Github,
    keywords: &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
    find: Find::Token(GITHUB_SHAPE),
    hits: &[
        concat!("«gh", "p_", twenty!(), ten!(), "5F6g7H", "»"),
        concat!("https://x-access-token:«gh", "s_", twenty!(), ten!(), "5F6g7H", "»@github.com/a/b"),
        concat!("GITHUB_TOKEN=«gh", "o_", twenty!(), ten!(), "5F6g7H", "»"),
        concat!("\\n«gh", "u_", twenty!(), ten!(), "5F6g7H", "»\\n"),
        concat!("Authorization: token «gh", "r_", twenty!(), twenty!(), twenty!(), "»"),
    ],
    misses: &[
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        concat!("gh", "p_", twenty!()),
        concat!("gh", "x_", twenty!(), twenty!()),
        concat!("gh", "p_", twenty!(), "_", twenty!()),
        concat!("xgh", "p_", twenty!(), twenty!()),
        "tokens start with ghp_ or gho_",
    ],
};

pub(super) const GITHUB_FINE: Rule = Rule {
    kind: SecretKind::Github,
    keywords: &["github_pat_"],
    find: Find::Token(TokenShape { alphabet: Alphabet::Word, least: 60, most: 255, looks: varied }),
    hits: &[
        concat!("«github", "_pat_", twenty!(), "22_", twenty!(), twenty!(), ten!(), "123456789»"),
        concat!("token: «github", "_pat_", "11", twenty!(), "_", twenty!(), twenty!(), ten!(), "123456789»"),
        concat!("\"«github", "_pat_", twenty!(), "22_", twenty!(), twenty!(), ten!(), "123456789»\""),
        concat!("GH_TOKEN=«github", "_pat_", twenty!(), "22_", twenty!(), twenty!(), ten!(), "123456789»;"),
        concat!("(«github", "_pat_", twenty!(), "22_", twenty!(), twenty!(), ten!(), "123456789»)"),
    ],
    misses: &[
        "github_pat_",
        "github_pat_your_token_here",
        concat!("github", "_pat_", twenty!(), "22"),
        "github_pat_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        concat!("my_github", "_pat_", twenty!(), "22_", twenty!(), twenty!(), ten!(), "123456789"),
    ],
};

pub(super) const GITLAB: Rule = Rule {
    kind: SecretKind::Gitlab,
    keywords: &["glpat-"],
    find: Find::Token(TokenShape { alphabet: Alphabet::Base64Url, least: 20, most: ANY, looks: mixed_case }),
    hits: &[
        concat!("«gl", "pat-", twenty!(), "»"),
        concat!("PRIVATE-TOKEN: «gl", "pat-", ten!(), "_", ten!(), "»"),
        concat!("https://oauth2:«gl", "pat-", twenty!(), "»@gitlab.com/a/b.git"),
        concat!("{\"token\":\"«gl", "pat-", "-", twenty!(), "»\"}"),
        concat!("glab auth login --token «gl", "pat-", twenty!(), ten!(), "»"),
    ],
    misses: &[
        "glpat-xxxxxxxxxxxxxxxxxxxx",
        "glpat-your-token-goes-here",
        concat!("gl", "pat-", ten!()),
        concat!("agl", "pat-", twenty!()),
        "a glpat- prefix marks personal tokens",
    ],
};

pub(super) const SLACK: Rule = Rule {
    kind: SecretKind::Slack,
    keywords: &["xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"],
    find: Find::Token(TokenShape { alphabet: Alphabet::Base64Url, least: 20, most: ANY, looks: numbered }),
    hits: &[
        concat!("«xo", "xb-", "012345678901-0123456789012-", twenty!(), "0a1B»"),
        concat!("SLACK_TOKEN=«xo", "xp-", "0123456789-0123456789-", ten!(), "»"),
        concat!("token=«xo", "xa-", "2-0123456789-", twenty!(), "»&channel=general"),
        concat!("{'token': '«xo", "xs-", "0123456789-", ten!(), "»'}"),
        concat!("\\\"«xo", "xr-", "0123456789-", ten!(), "»\\\""),
    ],
    misses: &[
        "xoxb-your-token-goes-here-please",
        "xoxb-000000000000-000000000000-0000",
        "xoxb-",
        concat!("xo", "xz-", "012345678901-0123456789012-", twenty!()),
        concat!("fo", "xoxb-", "012345678901-0123456789012-", twenty!()),
    ],
};

pub(super) const STRIPE: Rule = Rule {
    kind: SecretKind::Stripe,
    keywords: &["sk_live_", "rk_live_"],
    find: Find::Token(TokenShape { alphabet: Alphabet::Alnum, least: 16, most: ANY, looks: varied }),
    hits: &[
        concat!("«sk_", "live_", twenty!(), "0a1B»"),
        concat!("curl -u «rk_", "live_", twenty!(), "»:"),
        concat!("STRIPE_KEY=\"«sk_", "live_", "51", twenty!(), twenty!(), twenty!(), "»\""),
        concat!("stripe: { key: '«sk_", "live_", twenty!(), "0a1B»' }"),
        concat!("%22«rk_", "live_", twenty!(), "0a1B»%22"),
    ],
    misses: &[
        concat!("sk_", "test_", twenty!(), "0a1B"),
        concat!("pk_", "live_", twenty!(), "0a1B"),
        "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx",
        "sk_live_mode_is_enabled_for_this",
        concat!("task_", "live_", twenty!()),
    ],
};

pub(super) const HUGGINGFACE: Rule = Rule {
    kind: SecretKind::Huggingface,
    keywords: &["hf_"],
    find: Find::Token(TokenShape { alphabet: Alphabet::Alnum, least: 30, most: 40, looks: mixed_case }),
    hits: &[
        concat!("«hf", "_", "aBcDeFgHiJaBcDeFgHiJaBcDeFgHiJaBcD»"),
        concat!("HF_TOKEN=«hf", "_", twenty!(), ten!(), "5F6g»"),
        concat!("login(token=\"«hf", "_", "aBcDeFgHiJaBcDeFgHiJaBcDeFgHiJaBcD»\")"),
        concat!("Bearer «hf", "_", twenty!(), ten!(), "5F6g»"),
        concat!("\\t«hf", "_", twenty!(), ten!(), "5F6g»"),
    ],
    misses: &[
        "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "hf_hub_download_and_cache_everything_here",
        "hf_abcdefghijabcdefghijabcdefghijabcd",
        concat!("shelf", "_", twenty!(), ten!(), "5F6g"),
        concat!("hf", "_", twenty!()),
    ],
};

pub(super) const GROQ: Rule = Rule {
    kind: SecretKind::Groq,
    keywords: &["gsk_"],
    find: Find::Token(TokenShape { alphabet: Alphabet::Alnum, least: 40, most: ANY, looks: mixed_case }),
    hits: &[
        concat!("«gs", "k_", twenty!(), "WGdyb3FY", twenty!(), "0a1B»"),
        concat!("GROQ_API_KEY=«gs", "k_", twenty!(), twenty!(), ten!(), "»"),
        concat!("groq: «gs", "k_", twenty!(), twenty!(), ten!(), "5F»"),
        concat!("Authorization: Bearer «gs", "k_", twenty!(), twenty!(), ten!(), "5F»"),
        concat!("\\\"«gs", "k_", twenty!(), twenty!(), ten!(), "5F»\\\""),
    ],
    misses: &[
        "gsk_your_api_key_here",
        "gsk_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        concat!("gs", "k_", twenty!()),
        concat!("ags", "k_", twenty!(), twenty!(), ten!()),
        "struct gsk_render_node *node",
    ],
};

pub(super) const XAI: Rule = Rule {
    kind: SecretKind::Xai,
    keywords: &["xai-"],
    find: Find::Token(TokenShape { alphabet: Alphabet::Alnum, least: 40, most: ANY, looks: mixed_case }),
    hits: &[
        concat!("«xa", "i-", twenty!(), twenty!(), twenty!(), twenty!(), "»"),
        concat!("XAI_API_KEY=«xa", "i-", twenty!(), twenty!(), twenty!(), twenty!(), "»"),
        concat!("key = \"«xa", "i-", twenty!(), twenty!(), twenty!(), twenty!(), "»\""),
        concat!("Bearer «xa", "i-", twenty!(), twenty!(), twenty!(), ten!(), "»"),
        concat!("- «xa", "i-", twenty!(), twenty!(), "»"),
    ],
    misses: &[
        "xai-your-api-key",
        "xai-grok-2-vision-1212",
        "xai-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        concat!("xa", "i-", twenty!()),
        concat!("mxa", "i-", twenty!(), twenty!(), twenty!(), twenty!()),
    ],
};

pub(super) const NPM: Rule = Rule {
    kind: SecretKind::Npm,
    keywords: &["npm_"],
    find: Find::Token(TokenShape { alphabet: Alphabet::Alnum, least: 36, most: 36, looks: varied }),
    hits: &[
        concat!("«np", "m_", twenty!(), ten!(), "5F6g7H»"),
        concat!("//registry.example.com/:_authToken=«np", "m_", twenty!(), ten!(), "5F6g7H»"),
        concat!("NPM_TOKEN: \"«np", "m_", twenty!(), ten!(), "5F6g7H»\""),
        concat!("`«np", "m_", twenty!(), ten!(), "5F6g7H»`"),
        concat!("npm config set token «np", "m_", twenty!(), ten!(), "5F6g7H»"),
    ],
    misses: &[
        "npm_config_registry_and_other_variables",
        "npm_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        concat!("np", "m_", twenty!()),
        concat!("np", "m_", twenty!(), twenty!()),
        concat!("anp", "m_", twenty!(), ten!(), "5F6g7H"),
    ],
};
