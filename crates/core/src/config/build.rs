//! From a configuration tree to managers.

use std::sync::Arc;

use super::options::{ManagerOptions, unknown};
use super::syntax::{ConfigNode, MAX_NESTING, read};
use super::{ConfigError, ConfigErrorKind};
use crate::decision::SummaryPlace;
use crate::entry::Role;
use crate::manager::sticky::default_low;
use crate::manager::{
    ActiveTools, Auto, ClearToolResults, Compose, Extent, Fit, Keep, Observed, Passthrough, Pin, Relevant,
    SharedManager, SlidingWindow, Sticky, StickyInner, Summarize, TokenBudget, ToolResultTruncator,
    TrajectoryWindow, TurnWindow, Weights, Where, WithNotice,
};
use crate::model::ModelName;

/// Every manager with its options in positional order.
const MANAGERS: [(&str, &[&str]); 16] = [
    ("passthrough", &[]),
    ("sliding_window", &["window_size", "notice"]),
    ("turn_window", &["max_turns", "notice"]),
    ("token_budget", &["max_tokens", "reserve", "notice"]),
    ("tool_result_truncator", &["max_length", "suffix", "keep"]),
    ("clear_tool_results", &["keep_recent", "exclude_tools", "placeholder"]),
    ("active_tools", &["tools"]),
    ("pin", &["first", "last", "where"]),
    ("trajectory_window", &["max_steps", "preserve_first", "preserve_last", "notice"]),
    (
        "summarize",
        &[
            "keep_recent",
            "ratio",
            "place",
            "summarizer",
            "max_turns",
            "max_tokens",
            "max_entries",
            "max_chars",
        ],
    ),
    ("relevant", &["max_tokens", "weights", "reserve", "notice"]),
    ("auto", &["max_tokens", "need", "notice", "version"]),
    ("sticky", &["inner", "high", "low", "notice"]),
    ("fit", &["model", "window", "reserve", "notice"]),
    ("compose", &["managers"]),
    ("observed", &["inner", "prompt_name"]),
];
const NAMES: [&str; MANAGERS.len()] = {
    let mut names = [""; MANAGERS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = MANAGERS[at].0;
        at += 1;
    }
    names
};
/// The managers `sticky` can wrap.
const STICKY_INNER: [&str; 5] =
    ["sliding_window", "turn_window", "token_budget", "trajectory_window", "clear_tool_results"];

/// The manager a tree stands for.
pub(super) fn manager(node: &ConfigNode, path: &str, depth: usize) -> Result<SharedManager, ConfigError> {
    let owned;
    let node = match node {
        ConfigNode::Text(text) => {
            owned = read(text, path)?;
            &owned
        }
        node => node,
    };
    if let ConfigNode::List(items) = node {
        return compose(items, path, depth);
    }
    let parts = ManagerParts::of(node, path, depth)?;
    build(&parts, depth)
}

/// A name and what it is given.
struct ManagerParts<'n> {
    name: &'static str,
    known: &'static [&'static str],
    positional: &'n [ConfigNode],
    named: &'n [(String, ConfigNode)],
    path: String,
}

impl<'n> ManagerParts<'n> {
    fn of(node: &'n ConfigNode, path: &str, depth: usize) -> Result<Self, ConfigError> {
        let bad = |message: String| Err(ConfigError::new(ConfigErrorKind::BadSyntax, path, message));
        if depth > MAX_NESTING {
            return bad(format!("managers are nested deeper than {MAX_NESTING}"));
        }
        let (name, positional, named): (&str, &'n [ConfigNode], &'n [(String, ConfigNode)]) = match node {
            ConfigNode::Word(name) => (name, &[], &[]),
            ConfigNode::Call { name, positional, named } => (name, positional, named),
            ConfigNode::Object(members) => match members.as_slice() {
                [(name, ConfigNode::Null)] => (name, &[], &[]),
                [(name, ConfigNode::Object(options))] if !is_manager_for_first(name, options) => {
                    (name, &[], options)
                }
                [(name, value)] => (name, std::slice::from_ref(value), &[]),
                _ => {
                    return bad(format!(
                        "an object with one key, the manager's name, was expected; this one has {}",
                        members.len()
                    ));
                }
            },
            other => return bad(format!("a manager was expected, found {}", other.describe())),
        };
        match MANAGERS.iter().find(|(known, _)| *known == name) {
            Some(&(name, known)) => {
                Ok(ManagerParts { name, known, positional, named, path: format!("{path}/{name}") })
            }
            None => Err(unknown(ConfigErrorKind::UnknownManager, path, name, "", &NAMES)),
        }
    }

    fn options(&self) -> Result<ManagerOptions<'n>, ConfigError> {
        ManagerOptions::new(self.name, self.known, self.positional, self.named, self.path.clone())
    }
}

/// Whether `options` is not options but the inner manager itself: `{"sticky": {"sliding_window": 20}}`.
fn is_manager_for_first(name: &str, options: &[(String, ConfigNode)]) -> bool {
    let Some((_, known)) = MANAGERS.iter().find(|(known, _)| *known == name) else { return false };
    let takes_manager = matches!(known.first(), Some(&("inner" | "managers")));
    takes_manager && matches!(options, [(only, _)] if !known.contains(&only.as_str()))
}

fn compose(items: &[ConfigNode], path: &str, depth: usize) -> Result<SharedManager, ConfigError> {
    let managers = items
        .iter()
        .enumerate()
        .map(|(index, item)| manager(item, &format!("{path}/{index}"), depth + 1))
        .collect::<Result<_, _>>()?;
    Ok(Arc::new(Compose { managers }))
}

fn build(parts: &ManagerParts<'_>, depth: usize) -> Result<SharedManager, ConfigError> {
    // As text, `compose` takes any number of managers.
    if parts.name == "compose"
        && parts.named.is_empty()
        && !matches!(parts.positional, [ConfigNode::List(_)] | [])
    {
        return compose(parts.positional, &parts.path, depth);
    }
    let options = parts.options()?;
    let inner = |name: &str| {
        let node = options.manager(name)?;
        manager(node, &format!("{}/{name}", options.path), depth + 1)
    };
    let built: SharedManager = match parts.name {
        "sliding_window" => Arc::new(sliding_window(&options)?),
        "turn_window" => Arc::new(turn_window(&options)?),
        "token_budget" => Arc::new(token_budget(&options)?),
        "tool_result_truncator" => Arc::new(tool_result_truncator(&options)?),
        "clear_tool_results" => Arc::new(clear_tool_results(&options)?),
        "active_tools" => Arc::new(ActiveTools { tools: options.texts("tools")? }),
        "pin" => Arc::new(pin(&options)?),
        "trajectory_window" => Arc::new(trajectory_window(&options)?),
        "summarize" => Arc::new(summarize(&options)?),
        "relevant" => Arc::new(relevant(&options)?),
        "auto" => Arc::new(auto(&options)?),
        "sticky" => Arc::new(sticky(&options, depth)?),
        "fit" => Arc::new(fit(&options)?),
        "compose" => match options.get("managers") {
            None => Arc::new(Compose::default()),
            Some(ConfigNode::List(items)) => compose(items, &format!("{}/managers", options.path), depth)?,
            Some(_) => Arc::new(Compose { managers: vec![inner("managers")?] }),
        },
        "observed" => {
            Arc::new(Observed { inner: inner("inner")?, prompt_name: options.text("prompt_name")? })
        }
        _ => Arc::new(Passthrough),
    };
    let notice = if parts.known.contains(&"notice") { options.flag("notice")? } else { None };
    Ok(match notice {
        Some(notice) => Arc::new(WithNotice { inner: built, notice }),
        None => built,
    })
}

fn sliding_window(options: &ManagerOptions<'_>) -> Result<SlidingWindow, ConfigError> {
    Ok(SlidingWindow { window_size: options.required_whole("window_size", 0)? })
}

fn turn_window(options: &ManagerOptions<'_>) -> Result<TurnWindow, ConfigError> {
    Ok(TurnWindow { max_turns: options.required_whole("max_turns", 0)? })
}

fn token_budget(options: &ManagerOptions<'_>) -> Result<TokenBudget, ConfigError> {
    let (max_tokens, reserve) = budget(options)?;
    Ok(TokenBudget { max_tokens, reserve })
}

/// A number of tokens of which something is left when the reserve is taken off.
fn budget(options: &ManagerOptions<'_>) -> Result<(usize, usize), ConfigError> {
    let max_tokens = options.required_whole("max_tokens", 1)?;
    let reserve = options.whole("reserve", 0)?.unwrap_or(0);
    if reserve >= max_tokens {
        return Err(options
            .bad("reserve", format_args!("a reserve of {reserve} leaves nothing of {max_tokens} tokens")));
    }
    Ok((max_tokens, reserve))
}

fn tool_result_truncator(options: &ManagerOptions<'_>) -> Result<ToolResultTruncator, ConfigError> {
    let default = ToolResultTruncator::default();
    let keep = options.choice("keep", &[("head", Keep::Head), ("tail", Keep::Tail), ("both", Keep::Both)])?;
    Ok(ToolResultTruncator {
        max_length: options.whole("max_length", 0)?.unwrap_or(default.max_length),
        suffix: options.text("suffix")?.unwrap_or(default.suffix),
        keep: keep.unwrap_or(default.keep),
    })
}

fn clear_tool_results(options: &ManagerOptions<'_>) -> Result<ClearToolResults, ConfigError> {
    let default = ClearToolResults::default();
    Ok(ClearToolResults {
        keep_recent: options.whole("keep_recent", 0)?.unwrap_or(default.keep_recent),
        exclude_tools: options.texts("exclude_tools")?.unwrap_or_default(),
        placeholder: options.text("placeholder")?.unwrap_or(default.placeholder),
    })
}

fn pin(options: &ManagerOptions<'_>) -> Result<Pin, ConfigError> {
    if options.is_empty() {
        return Err(options.missing_one_of(&["first", "last", "where"]));
    }
    let matching = match options.object("where", &["role", "tool", "contains"])? {
        None => None,
        Some(wanted) if wanted.is_empty() => {
            return Err(options.bad("where", "`where` says nothing; give role, tool or contains"));
        }
        Some(wanted) => Some(Where {
            role: wanted.choice(
                "role",
                &[
                    ("system", Role::System),
                    ("user", Role::User),
                    ("assistant", Role::Assistant),
                    ("tool", Role::Tool),
                ],
            )?,
            tool: wanted.text("tool")?,
            contains: wanted.text("contains")?,
        }),
    };
    Ok(Pin {
        first: options.whole("first", 0)?.unwrap_or(0),
        last: options.whole("last", 0)?.unwrap_or(0),
        matching,
    })
}

fn trajectory_window(options: &ManagerOptions<'_>) -> Result<TrajectoryWindow, ConfigError> {
    let default = TrajectoryWindow::default();
    let max_steps = options.whole("max_steps", 1)?.unwrap_or(default.max_steps);
    let given_first = options.whole("preserve_first", 0)?;
    let given_last = options.whole("preserve_last", 0)?;
    // What was not given shrinks to fit what was.
    let preserve_first = given_first
        .unwrap_or_else(|| default.preserve_first.min(max_steps.saturating_sub(given_last.unwrap_or(0))));
    let preserve_last =
        given_last.unwrap_or_else(|| default.preserve_last.min(max_steps.saturating_sub(preserve_first)));
    if preserve_first.saturating_add(preserve_last) > max_steps {
        let name = if given_last.is_some() { "preserve_last" } else { "preserve_first" };
        let message = format_args!(
            "{preserve_first} first and {preserve_last} last steps are more than max_steps = {max_steps}"
        );
        return Err(options.bad(name, message));
    }
    Ok(TrajectoryWindow { max_steps, preserve_first, preserve_last })
}

fn summarize(options: &ManagerOptions<'_>) -> Result<Summarize, ConfigError> {
    let default = Summarize::default();
    let extent = match (options.whole("keep_recent", 0)?, options.decimal("ratio")?) {
        (Some(_), Some(_)) => {
            return Err(options.bad("ratio", "`keep_recent` and `ratio` exclude each other"));
        }
        (Some(turns), None) => Extent::KeepRecent(turns),
        (None, Some(ratio)) if ratio > 0.0 && ratio < 1.0 => Extent::Ratio(ratio),
        (None, Some(ratio)) => {
            return Err(options.bad("ratio", format_args!("`ratio` must lie between 0 and 1, not {ratio}")));
        }
        (None, None) => default.extent,
    };
    let summarizer = options.text("summarizer")?.unwrap_or(default.summarizer);
    if summarizer != "offline" {
        ModelName::parse(&summarizer)
            .map_err(|error| options.bad("summarizer", format_args!("{error}, or `offline`")))?;
    }
    Ok(Summarize {
        extent,
        place: options
            .choice("place", &[("system", SummaryPlace::System), ("assistant", SummaryPlace::Assistant)])?
            .unwrap_or_default(),
        summarizer,
        max_turns: options.whole("max_turns", 0)?,
        max_tokens: options.whole("max_tokens", 1)?,
        max_entries: options.whole("max_entries", 0)?,
        max_chars: options.whole("max_chars", 1)?.unwrap_or(default.max_chars),
        after_failure: default.after_failure,
    })
}

fn relevant(options: &ManagerOptions<'_>) -> Result<Relevant, ConfigError> {
    let (max_tokens, reserve) = budget(options)?;
    let mut weights = Weights::default();
    if let Some(given) = options.object("weights", &["match", "recency", "need"])? {
        let weight = |name: &str, default: f64| match given.decimal(name)? {
            Some(weight) if weight < 0.0 => Err(given.bad(name, "a weight must not be negative")),
            weight => Ok(weight.unwrap_or(default)),
        };
        weights = Weights {
            matching: weight("match", weights.matching)?,
            recency: weight("recency", weights.recency)?,
            // Who weighs only words and place asks for nothing else.
            need: weight("need", 0.0)?,
        };
    }
    Ok(Relevant { max_tokens, weights, reserve })
}

fn auto(options: &ManagerOptions<'_>) -> Result<Auto, ConfigError> {
    let default = Auto::default();
    let version = options.whole("version", 1)?.unwrap_or(1);
    if version != 1 {
        return Err(options.bad("version", format_args!("unsupported version {version}; use 1")));
    }
    let max_tokens = options.whole("max_tokens", 1)?;
    Ok(Auto { max_tokens, need: options.whole("need", 0)?.unwrap_or(default.need), ..default })
}

fn sticky(options: &ManagerOptions<'_>, depth: usize) -> Result<Sticky, ConfigError> {
    let inner = sticky_inner(options, depth)?;
    let bound = inner.bound();
    if bound == 0 {
        return Err(options.bad("inner", "`sticky` needs an inner bound of at least 1"));
    }
    let high = options.whole("high", 1)?.unwrap_or(bound);
    if high > bound {
        return Err(
            options.bad("high", format_args!("`high` is {high}, above the inner manager's bound of {bound}"))
        );
    }
    let low = options.whole("low", 1)?.unwrap_or_else(|| default_low(high));
    if low > high {
        return Err(options.bad("low", format_args!("`low` is {low}, above `high`, which is {high}")));
    }
    Ok(Sticky { inner, high, low })
}

fn sticky_inner(options: &ManagerOptions<'_>, depth: usize) -> Result<StickyInner, ConfigError> {
    let node = options.manager("inner")?;
    let path = format!("{}/inner", options.path);
    let owned;
    let node = match node {
        ConfigNode::Text(text) => {
            owned = read(text, &path)?;
            &owned
        }
        node => node,
    };
    let unwrappable = |what: &str| {
        let message = format_args!("`sticky` wraps one of {}, not {what}", STICKY_INNER.join(", "));
        options.bad("inner", message).with_known(&STICKY_INNER)
    };
    if let ConfigNode::List(_) = node {
        return Err(unwrappable("a list"));
    }
    let parts = ManagerParts::of(node, &path, depth + 1)?;
    let inner = parts.options()?;
    if parts.known.contains(&"notice") && inner.flag("notice")?.is_some() {
        return Err(inner.bad("notice", "`notice` belongs to `sticky`, not to the manager that it wraps"));
    }
    Ok(match parts.name {
        "sliding_window" => StickyInner::SlidingWindow(sliding_window(&inner)?),
        "turn_window" => StickyInner::TurnWindow(turn_window(&inner)?),
        "token_budget" => StickyInner::TokenBudget(token_budget(&inner)?),
        "trajectory_window" => StickyInner::TrajectoryWindow(trajectory_window(&inner)?),
        "clear_tool_results" => StickyInner::ClearToolResults(clear_tool_results(&inner)?),
        other => return Err(unwrappable(other)),
    })
}

fn fit(options: &ManagerOptions<'_>) -> Result<Fit, ConfigError> {
    let model = match options.text("model")? {
        None => None,
        Some(name) => Some(ModelName::parse(&name).map_err(|error| options.bad("model", error))?),
    };
    let window = options.whole("window", 1)?.map(|window| window as u64);
    let reserve = options.whole("reserve", 0)?.map(|reserve| reserve as u64);
    if let (Some(window), Some(reserve)) = (window, reserve)
        && reserve >= window
    {
        return Err(options
            .bad("reserve", format_args!("a reserve of {reserve} leaves nothing of a window of {window}")));
    }
    Ok(Fit { model, window, reserve })
}
