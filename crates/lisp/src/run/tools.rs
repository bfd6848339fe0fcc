//! Calling tools: from arguments as programs write them to the one map a tool gets.

use super::Machine;
use super::fiber::Fiber;
use crate::error::{Fault, Reason, fault};
use crate::outcome::ToolRecord;
use crate::signature::Signature;
use crate::value::{Map, Value, json};

impl Machine {
    /// Hands a call to the host; the fiber waits for its answer.
    pub(super) fn call_tool(
        &mut self,
        fiber: &mut Fiber,
        name: &str,
        arguments: Vec<Value>,
    ) -> Result<(), Fault> {
        let signature = self.env.tools.get(name).and_then(|tool| tool.signature.clone());
        let args = self.tool_args(name, signature.as_ref(), arguments)?;
        self.context.meter.tool_call()?;
        for (key, value) in args.iter() {
            let parts = self.context.parts(value)?;
            self.context.meter.reserve(parts as usize * 32 + json::name(key).len())?;
        }
        let record = ToolRecord { name: name.into(), args, result: Err("no answer".into()), duration: None };
        self.context.meter.reserve(256)?;
        fiber.calls.push(record);
        Ok(())
    }

    fn tool_args(
        &mut self,
        name: &str,
        signature: Option<&Signature>,
        arguments: Vec<Value>,
    ) -> Result<Map, Fault> {
        let parameters = signature.map(|signature| signature.parameters.as_slice());
        let named = match arguments.as_slice() {
            [] => Some(Vec::new()),
            [Value::Map(map)] => {
                Some(map.iter().map(|(key, value)| (json::name(key), value.clone())).collect())
            }
            _ => pairs(&arguments, parameters),
        };
        let entries: Vec<(String, Value)> = match (named, parameters) {
            (Some(entries), Some(parameters)) => {
                entries.into_iter().map(|(key, value)| (parameter_name(&key, parameters), value)).collect()
            }
            (Some(entries), None) => {
                entries.into_iter().map(|(key, value)| (key.replace('-', "_"), value)).collect()
            }
            (None, None) => {
                let message = format!(
                    "Tool '{name}' failed: it has no signature, so its arguments go in one map: (tool/{name} {{:key value}})"
                );
                return fault(Reason::ToolError, message);
            }
            (None, Some(parameters)) if arguments.len() > parameters.len() => {
                let message = format!(
                    "Tool '{name}' failed: it takes {} arguments, got {}",
                    parameters.len(),
                    arguments.len()
                );
                return fault(Reason::ToolError, message);
            }
            (None, Some(parameters)) => {
                parameters.iter().map(|(name, _)| name.clone()).zip(arguments).collect()
            }
        };
        let map: Map = entries.into_iter().map(|(key, value)| (Value::str(key), value)).collect();
        match signature {
            Some(signature) => self.check_args(name, signature, &map),
            None => Ok(map),
        }
    }

    fn check_args(&mut self, name: &str, signature: &Signature, args: &Map) -> Result<Map, Fault> {
        match signature.accept(self.env.validation, args) {
            Ok(accepted) => {
                for warning in accepted.warnings {
                    self.context.warn(format!("tool/{name}: {warning}"));
                }
                Ok(accepted.args)
            }
            Err(wrong) => {
                let wrong: Vec<String> = wrong.iter().take(10).map(ToString::to_string).collect();
                let message =
                    format!("Tool '{name}' failed: {}; it is tool/{name}{signature}", wrong.join("; "));
                fault(Reason::ToolError, message)
            }
        }
    }
}

/// Arguments written `:key value …`; with a signature all keys have to be parameters.
fn pairs(
    arguments: &[Value],
    parameters: Option<&[(String, crate::signature::Type)]>,
) -> Option<Vec<(String, Value)>> {
    if arguments.len() % 2 == 1 {
        return None;
    }
    let mut entries = Vec::new();
    for pair in arguments.chunks_exact(2) {
        let [Value::Keyword(key), value] = pair else { return None };
        let known = |parameters: &[(String, _)]| {
            let name = parameter_name(key.as_str(), parameters);
            parameters.iter().any(|(parameter, _)| *parameter == name)
        };
        if !parameters.is_none_or(known) {
            return None;
        }
        entries.push((key.as_str().to_string(), value.clone()));
    }
    Some(entries)
}

/// The parameter a key means: of that name, or of that name with hyphens and underscores exchanged.
fn parameter_name(key: &str, parameters: &[(String, crate::signature::Type)]) -> String {
    let spellings = [key.to_string(), key.replace('-', "_"), key.replace('_', "-")];
    let known = spellings.iter().find(|spelling| parameters.iter().any(|(name, _)| name == *spelling));
    known.cloned().unwrap_or_else(|| key.to_string())
}
