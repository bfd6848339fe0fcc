//! API keys: made once, shown once, kept as a hash.

use scrollback_core::Time;
use scrollback_store::{Key, KeyLimits, Tenant, hex};

use crate::auth::KeyScope;

/// What every key begins with, so that people and redaction know one when they see it.
pub const PREFIX: &str = "sb_";

/// Longest name of a key, in bytes.
const MAX_NAME: usize = 64;

/// A new key: what is kept, and what is shown once.
///
/// ```
/// use scrollback_server::{KeyScope, keys};
/// let (kept, shown) = keys::new("ci", &Default::default(), KeyScope::Proxy, scrollback_core::Time(0))?;
/// assert!(shown.starts_with("sb_"));
/// assert!(keys::is_of(&shown, &kept));
/// # Ok::<(), keys::BadKeyName>(())
/// ```
pub fn new(name: &str, tenant: &Tenant, scope: KeyScope, now: Time) -> Result<(Key, String), BadKeyName> {
    let fits = !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte));
    if !fits {
        return Err(BadKeyName(name.into()));
    }
    let mut random = [0; 24];
    getrandom::fill(&mut random).map_err(|_| BadKeyName("no randomness".into()))?;
    let shown = format!("{PREFIX}{}", hex(&random));
    let kept = Key {
        name: name.into(),
        tenant: tenant.clone(),
        scope: scope.as_str().into(),
        hash: hash(&shown).as_bytes().to_vec(),
        created_at: now,
        revoked_at: None,
        limits: KeyLimits::default(),
    };
    Ok((kept, shown))
}

/// What a key and those that take its place are called together: `laptop` for `laptop` and `laptop@2`. Quotas and
/// conversations belong to this name, so that both go on when a key is replaced.
pub fn family(name: &str) -> &str {
    match name.rsplit_once('@') {
        Some((family, number)) if number.parse::<u32>().is_ok_and(|number| number > 1) => family,
        _ => name,
    }
}

/// The name of the key that takes the place of all of its family so far.
pub fn successor(name: &str, all: &[Key]) -> String {
    let number = |key: &Key| match key.name.rsplit_once('@') {
        Some((_, number)) if family(&key.name) != key.name => number.parse::<u32>().unwrap_or(1),
        _ => 1,
    };
    let family_of_it = family(name);
    let highest = all.iter().filter(|key| family(&key.name) == family_of_it).map(number).max().unwrap_or(1);
    format!("{family_of_it}@{}", highest + 1)
}

/// Whether a presented key is the stored one. Takes as long for a wrong one as for the right one.
pub fn is_of(shown: &str, kept: &Key) -> bool {
    let kept: Result<[u8; 32], _> = kept.hash.as_slice().try_into();
    // The comparison of hashes is in constant time.
    kept.is_ok_and(|kept| hash(shown) == blake3::Hash::from(kept))
}

/// A key has 192 random bits, so a plain hash cannot be turned back.
fn hash(shown: &str) -> blake3::Hash {
    blake3::hash(shown.as_bytes())
}

/// A name no key can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKeyName(String);

impl std::fmt::Display for BadKeyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is not a name for a key: 1 to 64 letters, digits, - _ . @", self.0)
    }
}

impl std::error::Error for BadKeyName {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_key_that_takes_the_place_of_another_has_the_next_number() {
        let key = |name: &str| new(name, &Tenant::default(), KeyScope::Proxy, Time(0)).unwrap().0;
        assert_eq!(successor("laptop", &[key("laptop"), key("other@7")]), "laptop@2");
        assert_eq!(successor("laptop@2", &[key("laptop"), key("laptop@2")]), "laptop@3");
        for (name, wanted) in [("ci", "ci"), ("ci@2", "ci"), ("ci@host", "ci@host"), ("ci@1", "ci@1")] {
            assert_eq!(family(name), wanted);
        }
    }
}
