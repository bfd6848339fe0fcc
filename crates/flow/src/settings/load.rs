//! From the files of the configuration to settings, each value judged where it stands.

use std::path::Path;

use scrollback_agent::config::{BadConfig, Config, FlowLayer};
use scrollback_core::nearest::nearest_key;
use serde_json::Value;

use super::{FlowSettings, Located, Set, SettingOrigin};
use crate::model::{HistoryMode, Strategy};
use crate::read::{callable_model, configured_agents};

impl FlowSettings {
    /// What the configuration says about flows. The nearest file that says something wins, field by field.
    pub fn of(config: &Config) -> Result<Self, BadConfig> {
        let mut settings = FlowSettings::default();
        for layer in config.flow_layers() {
            settings.fill(layer).map_err(|problem| BadConfig::in_file(&layer.file, &problem))?;
        }
        configured_agents(&settings, &config.catalog())?;
        Ok(settings)
    }

    /// Fills what is open from a file of lower rank.
    fn fill(&mut self, layer: &FlowLayer) -> Result<(), String> {
        let file = &layer.file;
        let folder = file.parent().unwrap_or(Path::new(""));
        let located = |said: Value| Located { said, folder: folder.into() };
        let flow = &layer.flow;
        if let Some(model) = &flow.default_model {
            callable_model(model).map_err(|refused| format!("[flow] default_model: {}", refused.message))?;
            let value = Located { said: model.clone(), folder: folder.into() };
            set(&mut self.default_model, Some(value), file);
        }
        let loops = checked("[flow] max_loops", flow.max_loops, 1..=100_000)?;
        set(&mut self.max_loops, loops.map(|count| count as u32), file);
        let strategy = flow.history.strategy.as_deref().map(strategy).transpose()?;
        set(&mut self.history.strategy, strategy, file);
        let tokens = checked("[flow.history] max_tokens", flow.history.max_tokens, 1..=u64::MAX)?;
        set(&mut self.history.max_tokens, tokens, file);
        let turns = checked("[flow.history] max_turns", flow.history.max_turns, 1..=u64::MAX)?;
        set(&mut self.history.max_turns, turns, file);
        set(&mut self.history.summarizer_agent, flow.history.summarizer_agent.clone(), file);
        let ratio = flow.history.summarize_ratio;
        if ratio.is_some_and(|ratio| !(ratio > 0.0 && ratio < 1.0)) {
            return Err("[flow.history] summarize_ratio: must be between 0 and 1, both excluded".into());
        }
        set(&mut self.history.summarize_ratio, ratio, file);
        let tokens = checked("[flow.limits] max_tokens", flow.limits.max_tokens, 1..=u64::MAX)?;
        set(&mut self.limits.max_tokens, tokens, file);
        let cost = flow.limits.max_cost_usd;
        if cost.is_some_and(|cost| !(0.000_001..=1e6).contains(&cost)) {
            return Err("[flow.limits] max_cost_usd: must be from 0.000001 to 1000000 dollars".into());
        }
        set(&mut self.limits.max_cost_usd, cost, file);
        for (name, fields) in &layer.agents {
            let agent = self.agents.entry(name.clone()).or_default();
            for (field, value) in fields {
                let from = || Set { value: located(value.clone()), from: SettingOrigin::File(file.clone()) };
                agent.entry(field.clone()).or_insert_with(from);
            }
        }
        for (model, mode) in &layer.modes {
            let value = if mode == "prompt" { HistoryMode::Prompt } else { HistoryMode::Chat };
            let from = SettingOrigin::File(file.clone());
            self.modes.entry(model.clone()).or_insert(Set { value, from });
        }
        Ok(())
    }
}

/// Sets what is open and was said.
fn set<T>(place: &mut Option<Set<T>>, value: Option<T>, file: &Path) {
    if let (None, Some(value)) = (&place, value) {
        *place = Some(Set { value, from: SettingOrigin::File(file.into()) });
    }
}

fn checked(
    name: &str,
    value: Option<u64>,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, String> {
    match value {
        Some(value) if !range.contains(&value) => {
            let most = if *range.end() == u64::MAX {
                String::new()
            } else {
                format!(" and at most {}", range.end())
            };
            Err(format!("{name}: must be at least {}{most}, not {value}", range.start()))
        }
        value => Ok(value),
    }
}

fn strategy(word: &str) -> Result<Strategy, String> {
    Strategy::named(word).ok_or_else(|| {
        let hint = nearest_key(word, Strategy::WORDS)
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let known = Strategy::WORDS.join(", ");
        format!("[flow.history] strategy: must be one of {known}, not {word:?}{hint}")
    })
}
