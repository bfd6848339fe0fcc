//! `[telemetry]` of `scrollback.toml` and the usual `OTEL_*` variables: where spans are sent, and what is in them.

use secrecy::SecretString;
use serde::Deserialize;

use super::BadConfig;

/// Where spans are sent, and what is in them.
#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    /// The URL they are posted to.
    pub traces: String,
    /// Headers that go along, such as a collector's key; never printed.
    pub headers: Vec<(String, SecretString)>,
    /// What this process is called there.
    pub service_name: String,
    /// Whether what was said is told too.
    pub content: bool,
}

/// `[telemetry]` as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Telemetry {
    endpoint: Option<String>,
    service_name: Option<String>,
    content: Option<bool>,
}

impl Telemetry {
    /// Fills what this file leaves open from a file of lower rank.
    pub(super) fn over(self, lower: Telemetry) -> Telemetry {
        Telemetry {
            endpoint: self.endpoint.or(lower.endpoint),
            service_name: self.service_name.or(lower.service_name),
            content: self.content.or(lower.content),
        }
    }

    /// What it means together with the environment, which goes before the file; none where spans are not wanted.
    pub(super) fn settings(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<TelemetrySettings>, BadConfig> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is =
            |name: &str, word: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let below = |base: String| format!("{}/v1/traces", base.trim_end_matches('/'));
        let from_environment = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(below));
        if !cfg!(feature = "otel") {
            // Variables are there for every program on the machine; the file is there for this one.
            return if self.endpoint.is_some() { Err(BadConfig::without_otel()) } else { Ok(None) };
        }
        let Some(traces) = from_environment.or_else(|| self.endpoint.clone().map(below)) else {
            return if self.content.is_some() || self.service_name.is_some() {
                Err(BadConfig::of_telemetry(
                    "endpoint is missing: where spans are sent, as in \"http://127.0.0.1:4318\"",
                ))
            } else {
                Ok(None)
            };
        };
        let headers = variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"))
            .map(|text| headers(&text))
            .transpose()?
            .unwrap_or_default();
        let content = variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
            .map(|value| value.eq_ignore_ascii_case("true"))
            .or(self.content)
            .unwrap_or(false);
        let service_name = variable("OTEL_SERVICE_NAME")
            .or_else(|| self.service_name.clone())
            .unwrap_or_else(|| "scrollback".into());
        Ok(Some(TelemetrySettings { traces, headers, service_name, content }))
    }
}

impl BadConfig {
    /// What is wrong with `[telemetry]`.
    #[cfg_attr(
        not(feature = "otel"),
        allow(dead_code, reason = "nothing but its presence is wrong without it")
    )]
    pub(crate) fn of_telemetry(problem: &str) -> Self {
        BadConfig(format!("[telemetry]: {problem}"))
    }

    /// What is said where spans are wanted and this build has no way to send them.
    pub(crate) fn without_otel() -> Self {
        BadConfig(
            "[telemetry]: this scrollback was built without OpenTelemetry; build it with `--features otel`, \
             or take [telemetry] out of scrollback.toml"
                .into(),
        )
    }
}

/// `name=value,name=value`, values percent-encoded, as the variable has them.
fn headers(text: &str) -> Result<Vec<(String, SecretString)>, BadConfig> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let read = pairs.map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim().to_string(), SecretString::from(decoded(value.trim())?)))
    });
    let problem = "OTEL_EXPORTER_OTLP_HEADERS must be name=value, separated by commas";
    read.collect::<Option<_>>().ok_or_else(|| BadConfig(problem.into()))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        if let Some(code) = code {
            bytes.push(u8::from_str_radix(code, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(all(test, feature = "otel"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use secrecy::ExposeSecret;

    use super::*;

    fn settings(text: &str, variables: &[(&str, &str)]) -> Result<Option<TelemetrySettings>, BadConfig> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_string())
        };
        toml::from_str::<Telemetry>(text)
            .map_err(|error| BadConfig(error.message().into()))?
            .settings(variable)
    }

    #[test]
    fn the_environment_goes_before_the_file() {
        assert!(settings("", &[]).unwrap().is_none());
        let file = "endpoint = \"http://127.0.0.1:4318/\"\ncontent = true";
        let told = settings(file, &[]).unwrap().unwrap();
        assert_eq!(told.traces, "http://127.0.0.1:4318/v1/traces");
        assert_eq!((told.content, told.service_name.as_str()), (true, "scrollback"));
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, x-team = t"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "false"),
            ("OTEL_SERVICE_NAME", "shop"),
        ];
        let told = settings(file, &variables).unwrap().unwrap();
        assert_eq!(told.traces, "https://collector.example/v1/traces");
        assert_eq!((told.content, told.service_name.as_str()), (false, "shop"));
        let shown: Vec<_> =
            told.headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
        assert_eq!(shown, [("x-key", "a b"), ("x-team", "t")]);
        assert!(!format!("{told:?}").contains("a b"));
        let exact = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t.example/in")];
        assert_eq!(settings(file, &exact).unwrap().unwrap().traces, "https://t.example/in");
        assert!(settings(file, &[("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
    }

    #[test]
    fn mistakes_are_told() {
        assert!(settings("content = true", &[]).unwrap_err().to_string().contains("endpoint is missing"));
        assert!(settings("endpont = \"x\"", &[]).unwrap_err().to_string().contains("unknown field"));
        let bad = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"), ("OTEL_EXPORTER_OTLP_HEADERS", "secret")];
        let error = settings("", &bad).unwrap_err().to_string();
        assert!(error.contains("name=value"), "{error}");
    }
}

#[cfg(all(test, not(feature = "otel")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_build_that_cannot_send_says_so() {
        let file: Telemetry = toml::from_str("endpoint = \"http://127.0.0.1:4318\"").unwrap();
        let refused = file.settings(|_| None).unwrap_err().to_string();
        assert!(refused.contains("--features otel"), "{refused}");
        // The environment is there for other programs too.
        let variable = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://x".to_string());
        assert!(Telemetry::default().settings(variable).unwrap().is_none());
    }
}
