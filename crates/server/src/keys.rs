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
/// use scrollback_server::{Scope, keys};
/// let (kept, shown) = keys::new("ci", &Default::default(), Scope::Proxy, scrollback_core::Time(0))?;
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
