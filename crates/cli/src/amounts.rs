//! Numbers as people say them.

use scrollback_flow::MicroDollars;

/// `1 call`, `2 calls`, `2 entries`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    match what.strip_suffix("try") {
        _ if number == 1 => format!("1 {what}"),
        Some(stem) => format!("{number} {stem}tries"),
        None => format!("{number} {what}s"),
    }
}

/// An amount with as many digits as it needs, two at least.
pub(crate) fn dollars(amount: MicroDollars) -> String {
    let text = format!("${}.{:06}", amount.0 / 1_000_000, amount.0 % 1_000_000);
    let cents = text.len() - 4;
    let kept = text.trim_end_matches('0').len().max(cents);
    text.get(..kept).unwrap_or(&text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_digits_they_need() {
        let shown = [0, 500_000, 2_150, 12_345_678].map(|micros| dollars(MicroDollars(micros)));
        assert_eq!(shown, ["$0.00", "$0.50", "$0.00215", "$12.345678"]);
        assert_eq!((counted(1, "call"), counted(0, "call")), ("1 call".into(), "0 calls".into()));
        assert_eq!((counted(1, "entry"), counted(2, "entry")), ("1 entry".into(), "2 entries".into()));
    }
}
