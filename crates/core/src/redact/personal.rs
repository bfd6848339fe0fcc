//! Personal data, redacted on request: e-mail addresses, telephone and card numbers.

use std::ops::Range;

use super::SecretKind;
use super::rules::{Find, Rule};
use super::scan::{FoundSecret, byte, run_back, run_within};

pub(super) const EMAIL: Rule = Rule {
    kind: SecretKind::Email,
    keywords: &["@"],
    find: Find::Around(email),
    hits: &[
        "«nobody@example.com»",
        "Write to «first.last+tag@mail.example.co.uk».",
        "From: Nobody <«nobody@example.org»>",
        r#"{"email":"«a_b-c@sub.example.io»"}"#,
        "mailto:«x@y.dev»?subject=hi",
    ],
    misses: &[
        "icon@2x.png",
        "npm install left-pad@1.3.0",
        "git@github.com:a/b.git",
        "@decorator.method",
        "user@localhost",
        "a @ b.com",
    ],
};

/// The limits of RFC 5321 for the part before the `@` and for the domain.
const LONGEST_LOCAL: usize = 64;
const LONGEST_DOMAIN: usize = 255;

fn email(text: &str, keyword: Range<usize>) -> Option<FoundSecret> {
    let is_local =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-');
    let is_domain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let from = run_back(text, keyword.start, LONGEST_LOCAL + 1, is_local);
    let to = run_within(text, keyword.end, LONGEST_DOMAIN + 1, is_domain);
    let local = text.get(from..keyword.start)?;
    let domain = text.get(keyword.end..to)?.trim_end_matches(['.', '-']);
    let (name, top) = domain.rsplit_once('.')?;
    let files = ["png", "jpg", "jpeg", "gif", "svg", "webp", "js", "mjs", "css", "ts"];
    let address = (1..=LONGEST_LOCAL).contains(&local.len())
        && domain.len() <= LONGEST_DOMAIN
        && local.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && !name.split('.').any(str::is_empty)
        && top.len() >= 2
        && top.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !files.contains(&top)
        && local != "git";
    address.then(|| FoundSecret { secret: from..keyword.end + domain.len(), read: from..to })
}

pub(super) const CARD: Rule = Rule {
    kind: SecretKind::Card,
    keywords: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
    find: Find::Around(card),
    hits: &[
        "«4111111111111111»",
        "Card: «5555 5555 5555 4444», exp 12/30",
        "«3782-822463-10005»",
        r#"{"pan":"«6011111111111117»"}"#,
        "«4012-8888-8888-1881».",
    ],
    misses: &[
        "4111111111111112",
        "1700000000000",
        "41111111111111111111111",
        "id-a4111111111111111",
        "4111 11 1111 1111 11",
        "0.4111111111111111",
    ],
};

fn card(text: &str, keyword: Range<usize>) -> Option<FoundSecret> {
    const LAYOUTS: [&[usize]; 4] = [&[4, 4, 4, 4, 3], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4]];
    let start = keyword.start;
    if !begins_number(text, start) {
        return None;
    }
    let solid = run_within(text, start, LONGEST_CARD + 1, |byte| byte.is_ascii_digit());
    let end = if solid - start > 4 {
        Some(solid).filter(|&end| ends_number(text, end))
    } else {
        LAYOUTS.iter().find_map(|layout| grouped(text, start, layout, b" -"))
    }?;
    let digits: Vec<u8> =
        text.get(start..end)?.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
    (issued(&digits) && luhn(&digits)).then(|| around(start..end))
}

/// The longest card numbers in use.
const LONGEST_CARD: usize = 19;

/// Whether a card network hands out numbers that begin like this, at this length.
fn issued(digits: &[u8]) -> bool {
    let head =
        |length: usize| digits.iter().take(length).fold(0u32, |sum, &digit| sum * 10 + u32::from(digit));
    match digits.len() {
        13 | 19 if head(1) == 4 => true,
        14 => matches!(head(2), 30 | 36 | 38 | 39),
        15 => matches!(head(2), 34 | 37),
        16 => {
            head(1) == 4
                || matches!(head(2), 51..=55 | 62 | 65)
                || matches!(head(4), 2221..=2720 | 3528..=3589 | 6011)
                || matches!(head(3), 644..=649)
        }
        17..=19 => head(2) == 62,
        _ => false,
    }
}

/// The checksum of card numbers: every second digit from the right counts double, and the sum ends in zero.
fn luhn(digits: &[u8]) -> bool {
    let weigh = |(place, &digit): (usize, &u8)| {
        let weight = u32::from(digit) * if place % 2 == 1 { 2 } else { 1 };
        weight / 10 + weight % 10
    };
    digits.iter().rev().enumerate().map(weigh).sum::<u32>() % 10 == 0
}

pub(super) const PHONE: Rule = Rule {
    kind: SecretKind::Phone,
    keywords: &["+", "(", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
    find: Find::Around(phone),
    hits: &[
        "«+49 30 1234567»",
        "call «(555) 010-4477» now",
        "«555-010-4477»",
        r#"{"tel":"«+1-555-010-4477»"}"#,
        "Tel.: «+41 44 555 01 23».",
        "«+15550104477»",
    ],
    misses: &[
        "2024-01-15",
        "192.168.100.200",
        "1700000000",
        "555-0104",
        "v1.555.010.4477",
        "x+1",
        "123-45-6789",
    ],
};

/// The shortest and longest numbers after a `+`; shorter ones are sums and offsets.
const INTERNATIONAL: std::ops::RangeInclusive<usize> = 9..=15;

fn phone(text: &str, keyword: Range<usize>) -> Option<FoundSecret> {
    let start = keyword.start;
    if !begins_number(text, start) {
        return None;
    }
    let end = match byte(text, start)? {
        b'+' => international(text, keyword.end),
        b'(' => grouped(text, keyword.end, &[3, 3, 4], b") -."),
        _ => grouped(text, start, &[3, 3, 4], b" -.").or_else(|| grouped(text, start, &[1, 3, 3, 4], b" -.")),
    }?;
    Some(around(start..end))
}

/// Where a number after `+` ends: groups of any length, as every country has its own.
fn international(text: &str, start: usize) -> Option<usize> {
    let (mut digits, mut end, mut at) = (0, start, start);
    while byte(text, at).is_some_and(|digit| digit.is_ascii_digit() && (digits > 0 || digit != b'0')) {
        let group = run_within(text, at, INTERNATIONAL.end() + 1, |byte| byte.is_ascii_digit());
        if digits + group - at > *INTERNATIONAL.end() {
            break;
        }
        digits += group - at;
        end = group;
        at = run_within(text, end, 2, |byte| matches!(byte, b' ' | b'-' | b'.' | b'(' | b')'));
    }
    (INTERNATIONAL.contains(&digits) && ends_number(text, end)).then_some(end)
}

/// Where digits in exactly these groups end, with one or two separators between.
fn grouped(text: &str, start: usize, layout: &[usize], separators: &[u8]) -> Option<usize> {
    let mut end = start;
    for (place, &length) in layout.iter().enumerate() {
        let at = if place == 0 { end } else { run_within(text, end, 2, |byte| separators.contains(&byte)) };
        if place > 0 && at == end || run_within(text, at, length, |byte| byte.is_ascii_digit()) != at + length
        {
            return None;
        }
        end = at + length;
    }
    ends_number(text, end).then_some(end)
}

/// What joins digits to longer things: versions, dates, addresses, identifiers.
fn joins(byte: u8) -> bool {
    matches!(byte, b'.' | b'-' | b'_' | b'/' | b':')
}

/// Whether a number can begin here, rather than go on.
fn begins_number(text: &str, start: usize) -> bool {
    let mut before = text.as_bytes().get(..start).unwrap_or_default().iter().rev().copied();
    match (before.next(), before.next()) {
        (Some(last), _) if last.is_ascii_alphanumeric() => false,
        (Some(last), Some(previous)) => !(joins(last) && previous.is_ascii_alphanumeric()),
        _ => true,
    }
}

/// Whether a number can end here.
fn ends_number(text: &str, end: usize) -> bool {
    match (byte(text, end), byte(text, end + 1)) {
        (Some(next), _) if next.is_ascii_alphanumeric() => false,
        (Some(next), Some(second)) => !(joins(next) && second.is_ascii_alphanumeric()),
        _ => true,
    }
}

/// A number as a hit: what stands close on either side was looked at.
fn around(secret: Range<usize>) -> FoundSecret {
    FoundSecret { read: secret.start.saturating_sub(2)..secret.end + 3, secret }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_catches_any_single_wrong_digit() {
        let number = [4, 0, 1, 2, 8, 8, 8, 8, 8, 8, 8, 8, 1, 8, 8, 1];
        assert!(luhn(&number));
        for place in 0..number.len() {
            let mut wrong = number;
            wrong[place] = (wrong[place] + 1) % 10;
            assert!(!luhn(&wrong), "digit {place}");
        }
    }
}
