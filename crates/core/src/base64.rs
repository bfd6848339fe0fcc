//! Base64 as messages hold it: written in the standard form, read leniently.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Padded when it is written. Read with or without padding and whatever the unused bits say: providers take both.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Bytes as base64, padded.
pub(crate) fn encode(bytes: &[u8]) -> String {
    LENIENT.encode(bytes)
}

/// The bytes behind base64, padded or not; none if it is not base64.
pub(crate) fn decode(encoded: &str) -> Option<Vec<u8>> {
    LENIENT.decode(encoded).ok()
}

/// At most the first `max` bytes behind base64 in either alphabet. White space is skipped; padding, or anything else that is
/// not base64, ends it.
pub(crate) fn head(text: &str, max: usize) -> Vec<u8> {
    let standard = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).map_while(|byte| match byte {
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        b'+' | b'/' | b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => Some(byte),
        _ => None,
    });
    let mut digits: Vec<u8> = standard.take(max.saturating_mul(4).div_ceil(3)).collect();
    if digits.len() % 4 == 1 {
        // Six bits are no byte.
        digits.pop();
    }
    let mut bytes = LENIENT.decode(&digits).unwrap_or_default();
    bytes.truncate(max);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_again() {
        for (decoded, encoded) in
            [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("ab\u{ff}~", "YWLDv34=")]
        {
            assert_eq!(encode(decoded.as_bytes()), encoded);
            assert_eq!(decode(encoded).as_deref(), Some(decoded.as_bytes()), "{encoded}");
        }
    }

    #[test]
    fn padding_may_be_absent_and_nothing_else() {
        assert_eq!(decode("YQ").as_deref(), Some(&b"a"[..]));
        for broken in ["Y", "YWJjZ", "Y!==", "=YQ="] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
