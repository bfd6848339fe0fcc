//! Standard base64.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as base64, padded.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |number: usize| u32::from(group.get(number).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let letter = ALPHABET.get((bits >> (18 - 6 * place) & 63) as usize).copied().unwrap_or(b'=');
            out.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// The bytes behind base64, padded or not; none if it is not base64.
pub(crate) fn decode(encoded: &str) -> Option<Vec<u8>> {
    let encoded = encoded.strip_suffix("==").or(encoded.strip_suffix('=')).unwrap_or(encoded);
    let mut out = Vec::with_capacity(encoded.len() * 3 / 4);
    for group in encoded.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for &byte in group {
            let value = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        let [_, a, b, c] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        match group.len() {
            4 => out.extend([a, b, c]),
            3 => out.extend([a, b]),
            2 => out.push(a),
            _ => return None,
        }
    }
    Some(out)
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
