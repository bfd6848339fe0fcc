//! The table of builtins, and how names find their way into it.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{
    aggregate, compare, dates, fold, functions, interop, json, mapping, maps, numbers, output, predicates,
    regex, search, sequence, sets, slices, sort, strings, tree, where_,
};
use crate::error::{Error, Fault, Reason};
use crate::hashing::BuildSpread;
use crate::run::Context;
use crate::run::work::WorkNext;
use crate::value::{Text, Value};

/// Which builtin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BuiltinId(pub(crate) u16);

/// How many arguments a builtin takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arity {
    /// At least so many.
    pub least: usize,
    /// At most so many, if there is a limit.
    pub most: Option<usize>,
}

/// What a builtin is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is the heading of its part of the reference")]
pub enum Family {
    Sequences,
    Aggregates,
    Maps,
    Sets,
    Functions,
    Numbers,
    Math,
    Comparison,
    Predicates,
    Strings,
    Regex,
    Walk,
    Json,
    Dates,
    Methods,
    Output,
}

impl Family {
    /// The heading of the family.
    pub fn title(self) -> &'static str {
        match self {
            Family::Sequences => "Sequences",
            Family::Aggregates => "Aggregates",
            Family::Maps => "Maps",
            Family::Sets => "Sets",
            Family::Functions => "Functions",
            Family::Numbers => "Numbers",
            Family::Math => "Math",
            Family::Comparison => "Comparison",
            Family::Predicates => "Predicates",
            Family::Strings => "Strings",
            Family::Regex => "Regular expressions",
            Family::Walk => "Walk",
            Family::Json => "JSON",
            Family::Dates => "Dates",
            Family::Methods => "Methods",
            Family::Output => "Output and reflection",
        }
    }
}

/// A function that every program has.
pub struct Builtin {
    /// Its name, with its namespace if it needs one.
    pub name: &'static str,
    /// What it takes, in words.
    pub parameters: &'static str,
    /// How many arguments it takes.
    pub arity: Arity,
    /// What it does, in one line.
    pub doc: &'static str,
    /// A program and its value, as `program ; => value`. Empty where none would say more.
    pub example: &'static str,
    pub(crate) implementation: Implementation,
}

/// What a builtin does.
#[derive(Clone, Copy)]
pub(crate) enum Implementation {
    /// Computes from its arguments alone.
    Pure(fn(&mut Context, &mut [Value]) -> Result<Value, Fault>),
    /// Calls functions.
    Higher(fn(&mut Context, Vec<Value>) -> Result<WorkNext, Fault>),
    /// Asks about definitions.
    Reflecting(fn(&Definitions, &[Value]) -> Value),
    /// Is a number.
    Constant(f64),
}

/// The docstring of a definition, and the parameters if it is a function.
pub(crate) type Documentation = (Option<Text>, Option<String>);

/// Finds the documentation of a definition by its name.
pub(crate) type Definitions<'d> = dyn Fn(&str) -> Option<Documentation> + 'd;

/// Any number of arguments.
pub(super) const MANY: usize = usize::MAX;

const fn arity(least: usize, most: usize) -> Arity {
    Arity { least, most: if most == MANY { None } else { Some(most) } }
}

/// A row of the table for a builtin that computes from its arguments alone.
pub(super) const fn pure(
    name: &'static str,
    (least, most): (usize, usize),
    parameters: &'static str,
    doc: &'static str,
    example: &'static str,
    run: fn(&mut Context, &mut [Value]) -> Result<Value, Fault>,
) -> Builtin {
    Builtin {
        name,
        parameters,
        arity: arity(least, most),
        doc,
        example,
        implementation: Implementation::Pure(run),
    }
}

/// A row of the table for a builtin that calls functions.
pub(super) const fn higher(
    name: &'static str,
    (least, most): (usize, usize),
    parameters: &'static str,
    doc: &'static str,
    example: &'static str,
    run: fn(&mut Context, Vec<Value>) -> Result<WorkNext, Fault>,
) -> Builtin {
    Builtin {
        name,
        parameters,
        arity: arity(least, most),
        doc,
        example,
        implementation: Implementation::Higher(run),
    }
}

/// A row of the table for a number with a name.
pub(super) const fn constant(name: &'static str, doc: &'static str, value: f64) -> Builtin {
    Builtin {
        name,
        parameters: "",
        arity: arity(0, 0),
        doc,
        example: "",
        implementation: Implementation::Constant(value),
    }
}

static FAMILIES: &[(Family, &[Builtin])] = &[
    (Family::Sequences, mapping::TABLE),
    (Family::Sequences, fold::TABLE),
    (Family::Sequences, sequence::TABLE),
    (Family::Sequences, slices::TABLE),
    (Family::Sequences, sort::TABLE),
    (Family::Sequences, search::TABLE),
    (Family::Aggregates, aggregate::TABLE),
    (Family::Maps, maps::TABLE),
    (Family::Sets, sets::TABLE),
    (Family::Functions, functions::TABLE),
    (Family::Functions, where_::TABLE),
    (Family::Numbers, numbers::TABLE),
    (Family::Math, numbers::MATH),
    (Family::Comparison, compare::TABLE),
    (Family::Predicates, predicates::TABLE),
    (Family::Strings, strings::TABLE),
    (Family::Regex, regex::TABLE),
    (Family::Walk, tree::TABLE),
    (Family::Json, json::TABLE),
    (Family::Dates, dates::TABLE),
    (Family::Methods, interop::TABLE),
    (Family::Output, output::TABLE),
];

struct BuiltinIndex {
    rows: Vec<(Family, &'static Builtin)>,
    by_name: HashMap<&'static str, BuiltinId, BuildSpread>,
}

static INDEX: LazyLock<BuiltinIndex> = LazyLock::new(|| {
    let rows: Vec<_> =
        FAMILIES.iter().flat_map(|(family, rows)| rows.iter().map(|row| (*family, row))).collect();
    let by_name = rows.iter().enumerate().map(|(at, (_, row))| (row.name, BuiltinId(at as u16))).collect();
    BuiltinIndex { rows, by_name }
});

/// Every builtin with its family, in the order of the reference.
pub(crate) fn table() -> &'static [(Family, &'static Builtin)] {
    &INDEX.rows
}

/// A builtin by its id.
#[inline]
pub(crate) fn get(id: BuiltinId) -> &'static Builtin {
    static NONE: Builtin = constant("", "", 0.0);
    INDEX.rows.get(usize::from(id.0)).map_or(&NONE, |(_, row)| row)
}

/// Namespaces, with the one their builtins are listed under, and the families whose members need no namespace.
const NAMESPACES: &[(&str, &str, &[Family])] = &[
    ("str", "str/", &[Family::Strings, Family::Regex]),
    ("string", "str/", &[Family::Strings, Family::Regex]),
    ("clojure.string", "str/", &[Family::Strings, Family::Regex]),
    ("set", "", &[Family::Sets]),
    ("clojure.set", "", &[Family::Sets]),
    ("walk", "", &[Family::Walk]),
    ("clojure.walk", "", &[Family::Walk]),
    ("json", "json/", &[]),
    ("cheshire.core", "json/", &[]),
    ("clojure.data.json", "json/", &[]),
    ("math", "Math/", &[]),
    ("clojure.math", "Math/", &[]),
    ("Math", "Math/", &[]),
    ("regex", "", &[Family::Regex]),
    ("LocalDate", "LocalDate/", &[]),
    ("java.time.LocalDate", "LocalDate/", &[]),
    ("Instant", "Instant/", &[]),
    ("java.time.Instant", "Instant/", &[]),
    ("Duration", "Duration/", &[]),
    ("java.time.Duration", "Duration/", &[]),
    ("System", "System/", &[]),
    ("core", "", &[]),
    ("clojure.core", "", &[]),
];

/// Members of set/ that are about maps.
const SET_EXTRAS: &[&str] = &["rename-keys", "map-invert"];

/// Whether builtins can be written with this namespace.
pub(crate) fn is_namespace(space: &str) -> bool {
    NAMESPACES.iter().any(|(name, ..)| *name == space)
}

/// The builtin of a name as written.
pub(crate) fn find(written: &str) -> Option<BuiltinId> {
    if let Some(id) = INDEX.by_name.get(written) {
        return Some(*id);
    }
    let (space, member) = written.split_once('/')?;
    let (_, prefix, families) = NAMESPACES.iter().find(|(name, ..)| *name == space)?;
    if !prefix.is_empty()
        && let Some(id) = INDEX.by_name.get(format!("{prefix}{member}").as_str())
    {
        return Some(*id);
    }
    let id = *INDEX.by_name.get(member)?;
    let (family, _) = INDEX.rows.get(usize::from(id.0))?;
    let core = space.ends_with("core") && *prefix != "json/" && !member.contains('/');
    let extra = space.ends_with("set") && SET_EXTRAS.contains(&member);
    (core || extra || families.contains(family)).then_some(id)
}

/// The members of a namespace, without it.
pub(crate) fn members(space: &str) -> Vec<&'static str> {
    let Some((_, prefix, families)) = NAMESPACES.iter().find(|(name, ..)| *name == space) else {
        return Vec::new();
    };
    let mut members: Vec<&str> = INDEX
        .rows
        .iter()
        .filter_map(|(family, row)| match row.name.strip_prefix(prefix) {
            Some(member) if !prefix.is_empty() => Some(member),
            _ if families.contains(family) && !row.name.contains('/') => Some(row.name),
            _ => None,
        })
        .collect();
    members.sort_unstable();
    members.dedup();
    members
}

/// The names of all builtins.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    INDEX.rows.iter().map(|(_, row)| row.name)
}

impl Builtin {
    /// Whether it takes so many arguments.
    #[inline]
    pub(crate) fn takes(&self, count: usize) -> bool {
        count >= self.arity.least && self.arity.most.is_none_or(|most| count <= most)
    }

    pub(crate) fn constant(&self) -> Option<f64> {
        if let Implementation::Constant(value) = self.implementation { Some(value) } else { None }
    }

    /// How it is called: `(take n coll)`.
    pub fn usage(&self) -> String {
        match (self.parameters, self.implementation) {
            (_, Implementation::Constant(_)) => self.name.to_string(),
            ("", _) => format!("({})", self.name),
            (parameters, _) => format!("({} {parameters})", self.name),
        }
    }

    pub(crate) fn arity_error(&self, count: usize) -> Fault {
        let Arity { least, most } = self.arity;
        let expected = match most {
            None => format!("at least {least}"),
            Some(most) if most == least => least.to_string(),
            Some(most) if most == least + 1 => format!("{least} or {most}"),
            Some(most) => format!("{least} to {most}"),
        };
        let plural = if expected == "1" || expected == "at least 1" { "" } else { "s" };
        let message = format!("{} expects {expected} argument{plural}, got {count}", self.name);
        let transducers = [
            "map",
            "filter",
            "remove",
            "keep",
            "mapcat",
            "take",
            "drop",
            "take-while",
            "drop-while",
            "distinct",
        ];
        let hint = if count == 1 && transducers.contains(&self.name) {
            format!("transducers are not supported, pass the collection: {}", self.usage())
        } else {
            format!("it is called {}", self.usage())
        };
        Box::new(Error::new(Reason::ArityError, message).hint(hint))
    }
}

/// Adds to an error of a builtin what its arguments tell.
pub(crate) fn explain(builtin: &Builtin, mut error: Fault, arguments: &[Value]) -> Fault {
    let callable = |value: &Value| matches!(value, Value::Function(_) | Value::Keyword(_));
    let function_first = builtin.parameters.starts_with('f') || builtin.parameters.starts_with("pred");
    if matches!(error.reason, Reason::TypeError | Reason::NotCallable)
        && error.hint.is_none()
        && function_first
        && arguments.first().is_some_and(|first| first.is_collection() || matches!(first, Value::Nil))
        && arguments.iter().skip(1).any(callable)
    {
        error.hint = Some(format!("arguments look swapped: {}", builtin.usage()));
    }
    error
}
