//! What a redacted text was: the closed list of kinds.

use std::fmt;

/// What kind of secret a hit is.
///
/// The declaration order is the precedence: where hits overlap they become one redaction, named by the kind
/// that comes first here. A known value says more than a provider's prefix, a prefix more than the header or
/// name around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
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

impl Kind {
    /// Every kind, in order of precedence.
    pub const ALL: [Kind; 23] = [
        Kind::Configured,
        Kind::PrivateKey,
        Kind::Anthropic,
        Kind::Openai,
        Kind::Google,
        Kind::Aws,
        Kind::Github,
        Kind::Gitlab,
        Kind::Slack,
        Kind::Stripe,
        Kind::Huggingface,
        Kind::Groq,
        Kind::Xai,
        Kind::Npm,
        Kind::Jwt,
        Kind::UrlPassword,
        Kind::Basic,
        Kind::Bearer,
        Kind::Custom,
        Kind::Assignment,
        Kind::Email,
        Kind::Card,
        Kind::Phone,
    ];

    /// The name that appears in `[redacted:NAME]`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Configured => "configured",
            Kind::PrivateKey => "private_key",
            Kind::Anthropic => "anthropic",
            Kind::Openai => "openai",
            Kind::Google => "google",
            Kind::Aws => "aws",
            Kind::Github => "github",
            Kind::Gitlab => "gitlab",
            Kind::Slack => "slack",
            Kind::Stripe => "stripe",
            Kind::Huggingface => "huggingface",
            Kind::Groq => "groq",
            Kind::Xai => "xai",
            Kind::Npm => "npm",
            Kind::Jwt => "jwt",
            Kind::UrlPassword => "url_password",
            Kind::Basic => "basic",
            Kind::Bearer => "bearer",
            Kind::Custom => "custom",
            Kind::Assignment => "assignment",
            Kind::Email => "email",
            Kind::Card => "card",
            Kind::Phone => "phone",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_every_kind_once_in_order_of_precedence() {
        assert!(Kind::ALL.is_sorted());
        assert_eq!(Kind::ALL.last(), Some(&Kind::Phone));
        assert_eq!(Kind::ALL.len(), Kind::Phone as usize + 1);
    }
}
