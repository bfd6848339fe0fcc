//! `format`: Java's directives, as far as models use them.

use num_bigint::BigInt;
use unicode_segmentation::UnicodeSegmentation;

use super::collect::{arg, runtime, text};
use crate::error::Fault;
use crate::run::Context;
use crate::value::{Value, number};

/// One directive: `%-08,.2f`.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each flag of a directive is there or not")]
struct Directive {
    left: bool,
    zeros: bool,
    grouped: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

pub(super) fn format(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let pattern = text(cx, "format", args, 0)?;
    let mut out = String::new();
    let mut next = 1;
    let mut rest = pattern.as_str();
    while let Some(at) = rest.find('%') {
        cx.meter.tick()?;
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        let (directive, index, letter) = parse(&mut rest)?;
        cx.meter
            .reserve(directive.width.saturating_add(directive.precision.unwrap_or(0)).saturating_mul(4))?;
        cx.meter.visit(directive.width / 16)?;
        let filled = match letter {
            '%' => pad("%".into(), &directive),
            'n' => "\n".into(),
            _ => {
                let position = index.unwrap_or(next);
                if index.is_none() {
                    next += 1;
                }
                if position == 0 || position >= args.len() {
                    return runtime(format!("format: %{letter} has no argument"));
                }
                fill(cx, &directive, letter, args, position)?
            }
        };
        if out.len() + filled.len() > cx.meter.room() / 2 {
            cx.meter.out_of_memory()?;
        }
        out.push_str(&filled);
    }
    out.push_str(rest);
    cx.text(out)
}

/// Reads one directive after its `%`: what it says, the argument it names, its letter.
fn parse(rest: &mut &str) -> Result<(Directive, Option<usize>, char), Fault> {
    let mut directive = Directive::default();
    let chars = rest.char_indices();
    let mut digits = String::new();
    let mut index = None;
    let mut in_precision = false;
    for (at, c) in chars {
        match c {
            '-' if digits.is_empty() => directive.left = true,
            '+' if digits.is_empty() => directive.plus = true,
            ',' if digits.is_empty() => directive.grouped = true,
            '0' if digits.is_empty() && !in_precision => directive.zeros = true,
            '0'..='9' if digits.len() < 9 => digits.push(c),
            '$' if !in_precision => index = std::mem::take(&mut digits).parse().ok(),
            '.' if !in_precision => {
                directive.width = std::mem::take(&mut digits).parse().unwrap_or(0);
                in_precision = true;
            }
            's' | 'd' | 'f' | 'e' | 'x' | 'X' | 'o' | 'b' | 'c' | 'n' | '%' => {
                if in_precision {
                    directive.precision = Some(digits.parse().unwrap_or(0));
                } else {
                    directive.width = digits.parse().unwrap_or(0);
                }
                *rest = rest.get(at + c.len_utf8()..).unwrap_or_default();
                return Ok((directive, index, c));
            }
            _ => {
                return runtime(format!(
                    "format: %{c} is not a directive; known are %s %d %f %.2f %e %x %o %b %c %n %%"
                ));
            }
        }
    }
    runtime("format: the pattern ends inside a directive")
}

fn fill(
    cx: &mut Context,
    directive: &Directive,
    letter: char,
    args: &[Value],
    at: usize,
) -> Result<String, Fault> {
    let value = arg(args, at);
    Ok(match letter {
        's' => {
            let text = if matches!(value, Value::Nil) { String::new() } else { cx.display(value)? };
            let text = match directive.precision {
                Some(most) => text.graphemes(true).take(most).collect(),
                None => text,
            };
            pad(text, directive)
        }
        'b' => pad(value.is_truthy().to_string(), directive),
        _ if matches!(value, Value::Nil) => pad(String::new(), directive),
        'c' => match value {
            Value::Str(text) if text.count() == 1 => pad(text.as_str().into(), directive),
            other => return cx.wrong("format", "string of one character", other, at + 1),
        },
        'd' => {
            let Some(n) = integer(value) else { return cx.wrong("format", "integer for %d", value, at + 1) };
            cx.meter.charge(number::limbs(value).saturating_mul(number::limbs(value)) / 64)?;
            signed(&n.to_string(), directive)
        }
        'x' | 'X' | 'o' => {
            let Some(n) = integer(value) else { return cx.wrong("format", "integer", value, at + 1) };
            cx.meter.charge(number::limbs(value).saturating_mul(number::limbs(value)) / 64)?;
            // A negative number shows the bits it has in 64.
            let n = match i64::try_from(&n) {
                Ok(small) => BigInt::from(small.cast_unsigned()),
                Err(_) => n,
            };
            let text = n.to_str_radix(if letter == 'o' { 8 } else { 16 });
            let text = if letter == 'X' { text.to_uppercase() } else { text };
            if directive.zeros { zero_filled("", &text, directive) } else { pad(text, directive) }
        }
        _ => {
            let Some(x) = number::float(value) else { return cx.wrong("format", "number", value, at + 1) };
            let digits = directive.precision.unwrap_or(6);
            let text = match (letter, x.is_finite()) {
                (_, false) => return Ok(pad(special(x, directive), directive)),
                ('e', _) => scientific(x, digits),
                // An integer beyond the precision of floats keeps all its digits.
                _ => match value {
                    Value::Big(n) if digits == 0 => n.to_string(),
                    Value::Big(n) => format!("{n}.{}", "0".repeat(digits)),
                    _ => fixed(x, digits, Half::Away),
                },
            };
            signed(&text, directive)
        }
    })
}

/// An integer, also from a float without fraction.
fn integer(value: &Value) -> Option<BigInt> {
    match value {
        Value::Float(x) if x.fract() == 0.0 => number::integer(&number::whole(*x)?),
        _ => number::integer(value),
    }
}

fn special(x: f64, directive: &Directive) -> String {
    if x.is_nan() {
        "NaN".into()
    } else if x < 0.0 {
        "-Infinity".into()
    } else if directive.plus {
        "+Infinity".into()
    } else {
        "Infinity".into()
    }
}

/// A number's text with its sign, groups and zeros.
fn signed(text: &str, directive: &Directive) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None if directive.plus => ("+", text),
        None => ("", text),
    };
    let digits = if directive.grouped { group(digits) } else { digits.to_string() };
    if directive.zeros && !directive.left {
        return zero_filled(sign, &digits, directive);
    }
    pad(format!("{sign}{digits}"), directive)
}

fn zero_filled(sign: &str, digits: &str, directive: &Directive) -> String {
    let missing = directive.width.saturating_sub(sign.len() + digits.len());
    format!("{sign}{}{digits}", "0".repeat(missing))
}

/// Thousands parted by commas.
fn group(digits: &str) -> String {
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, ""), |(whole, fraction)| (whole, fraction));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if digits.contains('.') {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

fn pad(text: String, directive: &Directive) -> String {
    let missing = directive.width.saturating_sub(text.graphemes(true).count());
    match (missing, directive.left) {
        (0, _) => text,
        (_, true) => text + &" ".repeat(missing),
        (_, false) => " ".repeat(missing) + &text,
    }
}

/// Where a half goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    /// Away from zero.
    Away,
    /// Towards plus infinity.
    Up,
}

/// A float's shortest digits: without point, and how many stand before it.
fn shortest(x: f64) -> (String, i32) {
    let text = format!("{:e}", x.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse::<i32>().unwrap_or(0) + 1)
}

/// Digits rounded to so many, on their decimal text; whether a digit was carried out at the front.
fn round_digits(digits: &str, keep: usize, up: impl Fn(u8, bool) -> bool) -> (String, bool) {
    let bytes = digits.as_bytes();
    let mut kept: Vec<u8> = bytes.iter().copied().chain(std::iter::repeat(b'0')).take(keep).collect();
    let next = bytes.get(keep).copied().unwrap_or(b'0');
    let more = bytes.get(keep + 1..).is_some_and(|rest| rest.iter().any(|digit| *digit != b'0'));
    let mut carry = up(next, more);
    for digit in kept.iter_mut().rev() {
        if !carry {
            break;
        }
        carry = *digit == b'9';
        *digit = if carry { b'0' } else { *digit + 1 };
    }
    if carry {
        kept.insert(0, b'1');
    }
    (String::from_utf8(kept).unwrap_or_default(), carry)
}

/// A float with so many decimals, rounded on its shortest decimal digits.
pub(super) fn fixed(x: f64, decimals: usize, half: Half) -> String {
    let negative = x.is_sign_negative();
    let up = move |next: u8, more: bool| match next.cmp(&b'5') {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => more || half == Half::Away || !negative,
    };
    let (digits, point) = if x == 0.0 { ("0".into(), 1) } else { shortest(x) };
    // Leading zeros, so that there is at least one digit before the point.
    let zeros = usize::try_from(1 - point).unwrap_or(0);
    let digits = format!("{}{digits}", "0".repeat(zeros));
    let point = usize::try_from(point).unwrap_or(0).max(1);
    let (rounded, carried) = round_digits(&digits, point + decimals, up);
    let point = point + usize::from(carried);
    let (whole, fraction) = rounded.split_at_checked(point).unwrap_or((&rounded, ""));
    let sign = if negative { "-" } else { "" };
    if decimals == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// `1.234560e+01`.
fn scientific(x: f64, decimals: usize) -> String {
    let (digits, point) = if x == 0.0 { ("0".into(), 1) } else { shortest(x) };
    let (rounded, carried) = round_digits(&digits, decimals + 1, |next, _| next >= b'5');
    let exponent = point - 1 + i32::from(carried);
    let (first, fraction) = rounded.split_at_checked(1).unwrap_or((&rounded, ""));
    let fraction = fraction.get(..decimals).unwrap_or(fraction);
    let sign = if x.is_sign_negative() { "-" } else { "" };
    let direction = if exponent < 0 { '-' } else { '+' };
    let point = if decimals == 0 { "" } else { "." };
    format!("{sign}{first}{point}{fraction}e{direction}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_rounded_as_people_round() {
        for (x, decimals, text) in [
            (2.5, 2, "2.50"),
            (1.005, 2, "1.01"),
            (-1.005, 2, "-1.01"),
            (0.5, 0, "1"),
            (999.999, 2, "1000.00"),
            (0.000_1, 2, "0.00"),
            (0.05, 1, "0.1"),
            (1e20, 1, "100000000000000000000.0"),
            (0.0, 3, "0.000"),
        ] {
            assert_eq!(fixed(x, decimals, Half::Away), text, "{x}");
        }
        assert_eq!(fixed(-2.5, 0, Half::Up), "-2");
        assert_eq!(scientific(12.3456, 6), "1.234560e+01");
        assert_eq!(scientific(9.999_999_9, 2), "1.00e+01");
        assert_eq!(scientific(0.0, 1), "0.0e+00");
    }
}
