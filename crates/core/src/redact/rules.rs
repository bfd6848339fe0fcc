//! The shape of a rule, the list of all of them, and the test that every rule knows its own samples.

use std::ops::Range;

use super::scan::FoundSecret;
use super::{Options, SecretKind, assignment, header, key_block, personal, token, url};

/// One way to recognise one kind of secret.
pub(super) struct Rule {
    pub(super) kind: SecretKind,
    /// The rule is tried only where one of these stands, whatever its case.
    pub(super) keywords: &'static [&'static str],
    pub(super) find: Find,
    /// Texts with a secret, marked `«like this»`.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test below"))]
    pub(super) hits: &'static [&'static str],
    /// Texts that look alike and hold no secret of this kind.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test below"))]
    pub(super) misses: &'static [&'static str],
}

/// How a rule decides about one keyword, given where it stands.
pub(super) enum Find {
    /// The keyword, spelled exactly so, is the prefix of a token.
    Token(token::TokenShape),
    /// The text around the keyword decides.
    Around(fn(&str, Range<usize>) -> Option<FoundSecret>),
}

impl Find {
    /// The secret at this keyword, if there is one.
    pub(super) fn at(&self, text: &str, keyword: &str, place: Range<usize>) -> Option<FoundSecret> {
        match self {
            Find::Token(shape) if text.get(place.clone()) == Some(keyword) => shape.find(text, place),
            Find::Token(_) => None,
            Find::Around(find) => find(text, place),
        }
    }
}

/// The rules in force under these options.
pub(super) fn enabled(options: &Options) -> impl Iterator<Item = &'static Rule> {
    let Options { email, phone, card, .. } = *options;
    ALL.iter().copied().filter(move |rule| match rule.kind {
        SecretKind::Email => email,
        SecretKind::Phone => phone,
        SecretKind::Card => card,
        _ => true,
    })
}

const ALL: &[&Rule] = &[
    &token::ANTHROPIC,
    &token::OPENAI,
    &token::GOOGLE_KEY,
    &token::GOOGLE_TOKEN,
    &token::AWS_ID,
    &token::GITHUB,
    &token::GITHUB_FINE,
    &token::GITLAB,
    &token::SLACK,
    &token::STRIPE,
    &token::HUGGINGFACE,
    &token::GROQ,
    &token::XAI,
    &token::NPM,
    &header::JWT,
    &header::BEARER,
    &header::BASIC,
    &key_block::PRIVATE_KEY,
    &url::PASSWORD,
    &assignment::AWS_SECRET,
    &assignment::NAMED,
    &personal::EMAIL,
    &personal::PHONE,
    &personal::CARD,
];

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::super::Redactor;
    use super::*;

    /// Personal data is looked for only by its own rules.
    fn redactor(rule: &Rule) -> Redactor {
        let on = |kind| rule.kind == kind;
        let (email, phone, card) = (on(SecretKind::Email), on(SecretKind::Phone), on(SecretKind::Card));
        Redactor::new(&Options { email, phone, card, ..Options::default() }).unwrap()
    }

    #[test]
    fn every_rule_brings_five_hits_and_five_misses() {
        for rule in ALL {
            assert!(rule.hits.len() >= 5, "{} has {} hits: {:?}", rule.kind, rule.hits.len(), rule.keywords);
            assert!(
                rule.misses.len() >= 5,
                "{} has {} misses: {:?}",
                rule.kind,
                rule.misses.len(),
                rule.keywords
            );
        }
    }

    #[test]
    fn every_hit_is_found_exactly_where_it_is_marked() {
        for rule in ALL {
            let redactor = redactor(rule);
            for marked in rule.hits {
                let start = marked.find('«').unwrap();
                let end = marked.find('»').unwrap() - '«'.len_utf8();
                let text = marked.replace(['«', '»'], "");
                let spans = redactor.text(&text).spans;
                let found =
                    spans.iter().any(|span| span.kind == rule.kind && (span.start, span.end) == (start, end));
                assert!(found, "{} in {marked:?} gave {spans:?}", rule.kind);
            }
        }
    }

    #[test]
    fn no_miss_is_found() {
        for rule in ALL {
            let redactor = redactor(rule);
            for text in rule.misses {
                let spans = redactor.text(text).spans;
                assert!(
                    spans.iter().all(|span| span.kind != rule.kind),
                    "{} in {text:?} gave {spans:?}",
                    rule.kind
                );
            }
        }
    }
}
