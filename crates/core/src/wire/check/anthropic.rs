//! Anthropic Messages: rules AN-1 to AN-57.

use super::{Report, Rule};
use crate::json::Raw;

/// The rules, in order.
pub(super) const RULES: &[Rule] = &[];

/// Looks for every breach in a body.
pub(super) fn check(body: Raw<'_>, report: &mut Report<'_>) {
    let _ = (body, report);
}
