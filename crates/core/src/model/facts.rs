//! The built-in table of windows and prices: text, and its lines sorted at the first lookup.

use std::sync::LazyLock;

use super::{ModelName, Provider};

const TABLE: &str = include_str!("../../data/models.csv");

/// What the built-in table says about a model; a field that is `None` is not known and never means zero.
///
/// Prices are US dollars per million tokens at the standard tier for short prompts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelFacts {
    /// Most input the model takes, in tokens.
    pub context_window: u64,
    /// Most output it writes, in tokens.
    pub max_output: Option<u64>,
    /// Price of input that is neither read from nor written to a cache.
    pub input_per_mtok: Option<f64>,
    /// Price of output, reasoning included.
    pub output_per_mtok: Option<f64>,
    /// Price of input read from a cache.
    pub cache_read_per_mtok: Option<f64>,
    /// Price of input written to a cache at the provider's shortest lifetime.
    pub cache_write_per_mtok: Option<f64>,
}

/// Looks a model up in the built-in table: its exact name first, then the same name without what only pins or
/// follows a release.
///
/// That is a trailing date (`-20251001`, `-2025-10-01`), `-latest`, `@version`, and what follows the base of
/// a fine-tune. A Bedrock profile of an area the table does not list has its model's window and no prices,
/// because prices differ by area. Nothing else is guessed.
///
/// ```
/// use scrollback_core::model::{ModelName, facts};
/// let model = ModelName::parse("openai:gpt-4o")?;
/// assert_eq!(facts(&model).map(|facts| facts.context_window), Some(128_000));
/// # Ok::<(), scrollback_core::model::BadModel>(())
/// ```
pub fn facts(model: &ModelName) -> Option<ModelFacts> {
    let (provider, name) = (model.provider(), model.model());
    let listed = |name: &str| ModelFacts::parse(row(&ROWS, provider.name(), name)?);
    let spellings = [
        Some(name),
        fine_tune_base(name),
        name.rsplit_once('@').map(|(base, _)| base),
        name.strip_suffix("-latest"),
        undated(name),
    ];
    spellings.into_iter().flatten().find_map(listed).or_else(|| match provider {
        Provider::Bedrock => {
            let (_area, name) = name.split_once('.')?;
            listed(name).map(ModelFacts::without_prices)
        }
        _ => None,
    })
}

/// The names of a provider's models in the built-in table, in alphabetical order.
///
/// ```
/// use scrollback_core::model::{Provider, names};
/// assert!(names(Provider::OpenAi).any(|name| name == "gpt-4o"));
/// ```
pub fn names(provider: Provider) -> impl Iterator<Item = &'static str> {
    ROWS.iter().filter(move |((of, _), _)| *of == provider.name()).map(|((_, name), _)| *name)
}

impl ModelFacts {
    /// Reads a row after its name.
    fn parse(row: &str) -> Option<ModelFacts> {
        let mut cells = row.split(',');
        let context_window = cells.next()?.parse().ok()?;
        let max_output = cells.next()?.parse().ok();
        let mut price = || cells.next().and_then(|cell| cell.parse().ok());
        Some(ModelFacts {
            context_window,
            max_output,
            input_per_mtok: price(),
            output_per_mtok: price(),
            cache_read_per_mtok: price(),
            cache_write_per_mtok: price(),
        })
    }

    fn without_prices(self) -> ModelFacts {
        ModelFacts {
            input_per_mtok: None,
            output_per_mtok: None,
            cache_read_per_mtok: None,
            cache_write_per_mtok: None,
            ..self
        }
    }
}

/// `ft:BASE` of `ft:BASE:org:name:id`.
fn fine_tune_base(name: &str) -> Option<&str> {
    let tail = name.strip_prefix("ft:")?.split_once(':')?.1;
    name.strip_suffix(tail)?.strip_suffix(':')
}

/// The name without a final `-YYYYMMDD` or `-YYYY-MM-DD`.
fn undated(name: &str) -> Option<&str> {
    let shapes = ["-dddddddd", "-dddd-dd-dd"];
    shapes.into_iter().find_map(|shape| {
        let (base, tail) = name.split_at_checked(name.len().checked_sub(shape.len())?)?;
        let fits = |(c, want): (u8, u8)| if want == b'd' { c.is_ascii_digit() } else { c == want };
        tail.bytes().zip(shape.bytes()).all(fits).then_some(base)
    })
}

/// Provider and model of each line, and what follows them.
type FactRows = Vec<((&'static str, &'static str), &'static str)>;

static ROWS: LazyLock<FactRows> = LazyLock::new(|| rows_of(TABLE));

/// The lines of a table, sorted by whose model it is and its name. Lines that begin with `#` are comments.
fn rows_of(table: &'static str) -> FactRows {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let (name, facts) = line.split_once(',')?;
        Some((name.split_once(':')?, facts))
    };
    let mut rows: FactRows = lines.filter_map(row).collect();
    rows.sort_unstable();
    rows
}

fn row(rows: &FactRows, provider: &str, model: &str) -> Option<&'static str> {
    let at = rows.binary_search_by(|(name, _)| name.cmp(&(provider, model))).ok()?;
    rows.get(at).map(|(_, facts)| *facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: &str) -> Option<ModelFacts> {
        ModelName::parse(raw).ok().and_then(|model| facts(&model))
    }

    fn rows() -> impl Iterator<Item = &'static str> {
        TABLE.lines().skip_while(|line| line.starts_with('#'))
    }

    #[test]
    fn the_table_is_ascii_sorted_and_every_row_is_found_and_reads_whole() {
        assert!(TABLE.is_ascii());
        assert!(rows().count() > 400);
        let names: Vec<&str> = rows().map(|row| row.split(',').next().unwrap_or_default()).collect();
        assert!(names.is_sorted_by(|a, b| a < b));
        for line in rows() {
            let (name, rest) = line.split_once(',').unwrap_or_default();
            let (provider, model) = name.split_once(':').unwrap_or_default();
            assert_eq!(row(&ROWS, provider, model), Some(rest), "{name}");
            let cells: Vec<&str> = rest.split(',').collect();
            assert_eq!(cells.len(), 6, "{name}");
            assert!(
                cells.iter().all(|cell| cell.is_empty() || cell.parse::<f64>().is_ok_and(|n| n > 0.0)),
                "{name}"
            );
            assert_eq!(of(name), ModelFacts::parse(rest), "{name}");
            assert!(of(name).is_some_and(|facts| facts.context_window >= 1000), "{name}");
        }
    }

    #[test]
    fn a_row_gives_window_output_and_prices() {
        let haiku = ModelFacts {
            context_window: 200_000,
            max_output: Some(64_000),
            input_per_mtok: Some(1.0),
            output_per_mtok: Some(5.0),
            cache_read_per_mtok: Some(0.1),
            cache_write_per_mtok: Some(1.25),
        };
        assert_eq!(of("anthropic:claude-haiku-4-5"), Some(haiku));
        assert_eq!(of("gemini:gemini-2.5-pro").and_then(|facts| facts.cache_write_per_mtok), None);
    }

    #[test]
    fn only_what_pins_or_follows_a_release_is_taken_off_a_name() {
        for (variant, listed) in [
            ("openai:gpt-4.1-2030-01-31", "openai:gpt-4.1"),
            ("anthropic:claude-sonnet-4-6-20300131", "anthropic:claude-sonnet-4-6"),
            ("anthropic:claude-sonnet-4-6-latest", "anthropic:claude-sonnet-4-6"),
            ("anthropic:claude-sonnet-4-5@20250929", "anthropic:claude-sonnet-4-5"),
            ("openai:ft:gpt-4o-2024-08-06:org:name:id", "openai:ft:gpt-4o-2024-08-06"),
        ] {
            assert!(of(variant).is_some(), "{variant}");
            assert_eq!(of(variant), of(listed), "{variant}");
        }
        for unknown in [
            "openai:gpt-4o-0101",
            "openai:gpt-4o-turbo",
            "openai:GPT-4o",
            "openai:ft:no-such-base:org",
            "anthropic:gpt-4o",
            "anthropic:claude-sonnet-4-6-latest-20300131",
            "openai-compatible:gpt-4o",
            "offline:echo",
            "gemini:é-latest",
            "openai:-2030-01-31",
            "openai:#",
        ] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_bedrock_profile_has_its_own_prices_or_none() {
        let input = |raw| of(raw).and_then(|facts| facts.input_per_mtok);
        assert_eq!(input("bedrock:anthropic.claude-opus-5"), Some(5.0));
        assert_eq!(input("bedrock:us.anthropic.claude-opus-5"), Some(5.5));
        assert_eq!(input("bedrock:mars.anthropic.claude-opus-5"), None);
        let window = |raw| of(raw).map(|facts| facts.context_window);
        assert_eq!(window("bedrock:mars.anthropic.claude-opus-5"), Some(1_000_000));
    }

    #[test]
    fn any_text_is_a_table() {
        for table in ["", "\n", "\n\n", "a", "a,1", "a:,1\n", "# b\na,1\nb:é,2", "é,1\n:,"] {
            for (provider, model) in [("", ""), ("a", ""), ("b", "é"), ("zz", "z")] {
                let _ = row(&rows_of(table), provider, model);
            }
        }
        assert_eq!(row(&rows_of("# b\nb:x-y,2\na:x,1\na-b:x,3"), "a", "x"), Some("1"));
    }
}
