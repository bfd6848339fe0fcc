//! OTLP over HTTP: spans as protobuf, posted to a collector.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{self as wire, ResourceSpans, ScopeSpans, Status, span, status};
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use scrollback_core::Time;
use secrecy::ExposeSecret;

use super::{AttributeValue, FinishedSpan};
use crate::config::{BadConfig, TelemetrySettings};
use crate::net::{client, headers, innermost, safe_url};

/// How long a collector may take for one batch.
const PATIENCE: Duration = Duration::from_secs(10);
/// Waits before a batch is sent once more; after the last it is given up.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];

/// Where spans are sent.
pub(super) struct Collector {
    client: Client,
    url: Url,
    headers: HeaderMap,
    resource: Resource,
}

impl Collector {
    /// The collector that is configured.
    pub(super) fn new(settings: &TelemetrySettings) -> Result<Self, BadConfig> {
        let bad = |problem: String| BadConfig::of_telemetry(&problem);
        let text = &settings.traces;
        // Headers hold keys, which do not travel in the clear.
        let url = if settings.headers.is_empty() {
            Url::parse(text).map_err(|error| error.to_string())
        } else {
            safe_url(text)
        };
        let url = url.map_err(|problem| bad(format!("the endpoint {text:?}: {problem}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad(format!("the endpoint {text:?} must begin with https:// or http://")));
        }
        let named: Vec<(String, String)> = settings
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.expose_secret().to_string()))
            .collect();
        let mut headers = headers(&named).map_err(bad)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let client = client(Policy::none()).map_err(|error| bad(error.to_string()))?;
        let attributes = vec![
            text_of("service.name", &settings.service_name),
            text_of("service.version", env!("CARGO_PKG_VERSION")),
        ];
        Ok(Collector { client, url, headers, resource: Resource { attributes, ..Resource::default() } })
    }

    /// Sends spans; an error says why they were not taken.
    pub(super) async fn send(&self, spans: &[FinishedSpan]) -> Result<(), String> {
        let body = bytes::Bytes::from(self.request(spans).encode_to_vec());
        let mut waits = WAITS.iter();
        loop {
            let request = self.client.post(self.url.clone()).headers(self.headers.clone()).timeout(PATIENCE);
            let (problem, again) = match request.body(body.clone()).send().await {
                Ok(response) if response.status().is_success() => return Ok(()),
                Ok(response) => {
                    let status = response.status();
                    (format!("the collector answered {status}"), is_passing(status))
                }
                Err(error) => (format!("the collector cannot be reached: {}", innermost(&error)), true),
            };
            match waits.next().filter(|_| again) {
                Some(wait) => tokio::time::sleep(*wait).await,
                None => return Err(problem),
            }
        }
    }

    fn request(&self, spans: &[FinishedSpan]) -> ExportTraceServiceRequest {
        let scope = InstrumentationScope {
            name: "scrollback".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..InstrumentationScope::default()
        };
        let spans = spans.iter().map(written).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
        let all =
            ResourceSpans { resource: Some(self.resource.clone()), scope_spans, ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![all] }
    }
}

/// Whether a refusal may be over in a moment, as the protocol says.
fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

fn written(span: &FinishedSpan) -> wire::Span {
    let kind = if span.is_remote { span::SpanKind::Client } else { span::SpanKind::Internal };
    let status =
        span.error.as_ref().map(|_| Status { code: status::StatusCode::Error.into(), ..Status::default() });
    wire::Span {
        trace_id: span.place.trace.into_bytes().to_vec(),
        span_id: span.place.span.0.to_vec(),
        parent_span_id: span.place.parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        name: span.name.clone(),
        kind: kind.into(),
        start_time_unix_nano: nanoseconds(span.began),
        end_time_unix_nano: nanoseconds(span.ended),
        attributes: span.attributes.iter().map(|(key, value)| attribute(key, value)).collect(),
        status,
        ..wire::Span::default()
    }
}

fn nanoseconds(time: Time) -> u64 {
    u64::try_from(time.0).unwrap_or(0).saturating_mul(1_000_000)
}

fn text_of(key: &str, text: &str) -> KeyValue {
    attribute(key, &AttributeValue::Text(text.into()))
}

fn attribute(key: &str, value: &AttributeValue) -> KeyValue {
    let text = |text: &String| any_value::Value::StringValue(text.clone());
    let any = |value| AnyValue { value: Some(value) };
    let value = match value {
        AttributeValue::Text(one) => text(one),
        AttributeValue::Number(number) => any_value::Value::IntValue(*number),
        AttributeValue::Texts(several) => {
            let values = several.iter().map(|one| any(text(one))).collect();
            any_value::Value::ArrayValue(ArrayValue { values })
        }
    };
    KeyValue { key: key.into(), value: Some(any(value)), ..KeyValue::default() }
}
