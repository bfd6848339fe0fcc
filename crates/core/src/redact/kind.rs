//! What a redacted text was: the closed list of kinds.

use std::fmt;

/// What kind of secret a hit is.
///
/// The declaration order is the precedence: where hits overlap they become one redaction, named by the kind
/// that comes first here. A known value says more than a provider's prefix, a prefix more than the header or
/// name around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretKind {
    /// The exact value of a key the configuration knows.
    Configured,
    /// A PEM private key block.
    PrivateKey,
    /// `sk-ant-…`
    Anthropic,
    /// `sk-…`, and the many services that copied the form.
    Openai,
    /// `AIza…` and `ya29.…`
    Google,
    /// Access key ids, and the secret next to a secret-access-key name.
    Aws,
    /// `ghp_…` and its siblings, `github_pat_…`
    Github,
    /// `glpat-…`
    Gitlab,
    /// `xoxb-…` and its siblings.
    Slack,
    /// `sk_live_…`, `rk_live_…`
    Stripe,
    /// `hf_…`
    Huggingface,
    /// `gsk_…`
    Groq,
    /// `xai-…`
    Xai,
    /// `npm_…`
    Npm,
    /// Three base64url parts, the first an encoded `{"`.
    Jwt,
    /// The password in `scheme://user:password@host`.
    UrlPassword,
    /// The base64 of `user:password` after `Basic`.
    Basic,
    /// The token after `Bearer`.
    Bearer,
    /// A pattern of the configuration.
    Custom,
    /// The value of a name such as `password` or `api_key`.
    Assignment,
    /// An e-mail address; off unless asked for.
    Email,
    /// A payment card number; off unless asked for.
    Card,
    /// A telephone number; off unless asked for.
    Phone,
}

impl SecretKind {
    /// Every kind, in order of precedence.
    pub const ALL: [SecretKind; 23] = [
        SecretKind::Configured,
        SecretKind::PrivateKey,
        SecretKind::Anthropic,
        SecretKind::Openai,
        SecretKind::Google,
        SecretKind::Aws,
        SecretKind::Github,
        SecretKind::Gitlab,
        SecretKind::Slack,
        SecretKind::Stripe,
        SecretKind::Huggingface,
        SecretKind::Groq,
        SecretKind::Xai,
        SecretKind::Npm,
        SecretKind::Jwt,
        SecretKind::UrlPassword,
        SecretKind::Basic,
        SecretKind::Bearer,
        SecretKind::Custom,
        SecretKind::Assignment,
        SecretKind::Email,
        SecretKind::Card,
        SecretKind::Phone,
    ];

    /// The name that appears in `[redacted:NAME]`.
    pub const fn name(self) -> &'static str {
        match self {
            SecretKind::Configured => "configured",
            SecretKind::PrivateKey => "private_key",
            SecretKind::Anthropic => "anthropic",
            SecretKind::Openai => "openai",
            SecretKind::Google => "google",
            SecretKind::Aws => "aws",
            SecretKind::Github => "github",
            SecretKind::Gitlab => "gitlab",
            SecretKind::Slack => "slack",
            SecretKind::Stripe => "stripe",
            SecretKind::Huggingface => "huggingface",
            SecretKind::Groq => "groq",
            SecretKind::Xai => "xai",
            SecretKind::Npm => "npm",
            SecretKind::Jwt => "jwt",
            SecretKind::UrlPassword => "url_password",
            SecretKind::Basic => "basic",
            SecretKind::Bearer => "bearer",
            SecretKind::Custom => "custom",
            SecretKind::Assignment => "assignment",
            SecretKind::Email => "email",
            SecretKind::Card => "card",
            SecretKind::Phone => "phone",
        }
    }
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_every_kind_once_in_order_of_precedence() {
        assert!(SecretKind::ALL.is_sorted());
        assert_eq!(SecretKind::ALL.last(), Some(&SecretKind::Phone));
        assert_eq!(SecretKind::ALL.len(), SecretKind::Phone as usize + 1);
    }
}
