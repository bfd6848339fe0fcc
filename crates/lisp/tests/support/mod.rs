//! Running programs as the command line runs cases.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::path::Path;

use scrollback_lisp::{Env, Outcome, Program, Signature, Tool, Value};

#[path = "../../../../tests/support/required.rs"]
pub mod required;

/// A file of the repository.
pub fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The lines of a file, as JSON.
#[allow(clippy::disallowed_methods)] // the crate reads no files; its tests do
pub fn cases(path: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(repository(path)).unwrap();
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The environment a case describes.
pub fn env_of(case: &serde_json::Value) -> Env {
    let mut env = Env::new();
    for (name, value) in case["data"].as_object().into_iter().flatten() {
        env = env.data(name, Value::from_json(&value.to_string()).unwrap());
    }
    for (name, stub) in case["tools"].as_object().into_iter().flatten() {
        env = env.tool(stub_tool(name, stub.clone()));
    }
    env
}

/// A tool that answers as its description says.
pub fn stub_tool(name: &str, stub: serde_json::Value) -> Tool {
    let signature = stub["signature"].as_str().map(|text| Signature::parse(text).unwrap());
    Tool::new(name, signature, move |call| {
        if let Some(error) = stub["error"].as_str() {
            return Err(error.to_string());
        }
        if stub["echo"].as_bool() == Some(true) {
            return Ok(Value::Map(call.args));
        }
        Ok(Value::from_json(&stub["result"].to_string()).unwrap())
    })
}

/// Runs a source; what cannot be compiled is an outcome, too.
pub fn run_in(source: &str, env: &mut Env) -> Result<Outcome, scrollback_lisp::Error> {
    Program::compile(source).map(|program| program.run(env))
}

/// The value of a program as text, or the reason there is none.
pub fn eval(source: &str) -> String {
    match run_in(source, &mut Env::new()) {
        Err(error) => error.reason.to_string(),
        Ok(outcome) => match outcome.result {
            Ok(_) => outcome.value().map(ToString::to_string).unwrap_or_default(),
            Err(error) => error.reason.to_string(),
        },
    }
}

/// A small generator of numbers, so that every run tries the same.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit.max(1)
    }

    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}
