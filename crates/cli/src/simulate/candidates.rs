//! Who competes: the managers that were given, or the usual field.

use scrollback_core::manager;
use scrollback_core::replay::{Entrant, Field};

use super::args::SimulateArgs;
use crate::failure::{Failure, USAGE};

/// What the command line asks to compare.
pub(crate) fn field(args: &SimulateArgs) -> Result<Field, Failure> {
    Ok(Field { managers: args.managers.clone(), budgets: read_budgets(&args.budgets)? })
}

/// The managers of these texts.
pub(crate) fn entrants(texts: Vec<String>) -> Result<Vec<Entrant>, Failure> {
    texts.into_iter().map(|name| Ok(Entrant { manager: manager::parse(&name)?, name })).collect()
}

fn read_budgets(texts: &[String]) -> Result<Vec<u64>, Failure> {
    let read = |text: &String| {
        let plain = text.trim().replace('_', "");
        let number = match plain.strip_suffix('k') {
            Some(thousands) => thousands.parse::<u64>().ok().and_then(|number| number.checked_mul(1000)),
            None => plain.parse::<u64>().ok(),
        };
        number.filter(|number| *number > 0).ok_or_else(|| {
            Failure::new(USAGE, "usage", format!("{text:?} is not a budget; write 8000, 8_000 or 8k"))
        })
    };
    texts.iter().map(read).collect()
}
