//! `[server]` of `scrollback.toml`: where the server listens, what it does with requests, and how much it takes.

use std::net::SocketAddr;
use std::time::Duration;

use scrollback_core::manager::{self, SharedManager};
use scrollback_store::{FollowUps, Tenant};
use serde::Deserialize;

use super::{BadConfig, Retention};
use crate::runner::Repair;

/// What the server does when an entry cannot be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recording {
    /// The request is refused.
    #[default]
    Required,
    /// The request is served, counted and warned about.
    BestEffort,
}

/// What to do with the call when its client disconnects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Abandoned {
    /// It is cancelled.
    #[default]
    Cancel,
    /// It is read to its end, for the record.
    Drain,
}

/// How the server behaves.
#[derive(Clone, Default)]
pub struct ServerSettings {
    /// Where it listens, unless the command line says otherwise.
    pub listen: Option<SocketAddr>,
    /// What happens when an entry cannot be recorded.
    pub record: Recording,
    /// What happens to a list that its provider would refuse.
    pub repair: Repair,
    /// What to do with the call when its client disconnects.
    pub abandoned: Abandoned,
    /// How requests are curated where no policy fits; `fit` if it says nothing.
    pub managers: Option<SharedManager>,
    /// Policies, of which the first that fits is used.
    pub policies: Vec<Policy>,
    /// Fields of a request that name the recipient where no header does, in this order.
    pub recipient_from: Vec<RecipientField>,
    /// When conversations are due to be followed up.
    pub follow_ups: FollowUps,
    /// What is kept for how long.
    pub retention: Retention,
    /// Whether the recall server offers a tool that pins, to keys that may write.
    pub recall_writes: bool,
    /// How much it takes.
    pub limits: ServerLimits,
}

/// A field of a request's body that may name whom it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum RecipientField {
    /// `safety_identifier`, of `OpenAI`'s wires.
    #[serde(rename = "safety_identifier")]
    SafetyIdentifier,
    /// `user`, of `OpenAI`'s wires.
    #[serde(rename = "user")]
    User,
    /// `metadata.user_id`, of Anthropic's wire.
    #[serde(rename = "metadata.user_id")]
    MetadataUserId,
}

impl std::fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSettings").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// How requests of some kind are curated.
#[derive(Clone)]
pub struct Policy {
    /// Only those of this tenant.
    pub tenant: Option<Tenant>,
    /// Only those for this model.
    pub model: Option<String>,
    /// Only those to this path, such as `/v1/messages`.
    pub route: Option<String>,
    /// How they are curated.
    pub managers: SharedManager,
}

impl Policy {
    /// Whether it is about a request.
    pub fn fits(&self, tenant: &Tenant, model: &str, route: &str) -> bool {
        self.tenant.as_ref().is_none_or(|wanted| wanted == tenant)
            && self.model.as_deref().is_none_or(|wanted| wanted == model)
            && self.route.as_deref().is_none_or(|wanted| wanted == route)
    }
}

/// How much the server takes. Every number is there because something without it runs away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of a request's body, unpacked too: what the largest context with pictures needs.
    pub body_bytes: usize,
    /// Bytes of a request's headers.
    pub header_bytes: usize,
    /// Levels of nesting in a body.
    pub json_depth: usize,
    /// Parts of one message: each costs more than its bytes.
    pub message_parts: usize,
    /// How long a client may take for its headers.
    pub headers: Duration,
    /// How long a body may come slowly before its pace counts.
    pub body_grace: Duration,
    /// Bytes a second that a body must come at after that.
    pub body_pace: usize,
    /// Requests of one tenant under way at once.
    pub concurrent: usize,
    /// Connections open at once: each costs a file.
    pub connections: usize,
    /// Of these, from one address, so that one client cannot take them all.
    pub connections_per_ip: usize,
    /// Entries that may wait for the store: a store that is slow must not fill the memory.
    pub waiting_entries: usize,
    /// Bytes that bodies and replies under way may take together, each counted with its copies.
    pub memory_bytes: usize,
    /// Requests that providers are asked at once; beyond that, tenants take turns.
    pub upstream_requests: usize,
    /// How long a connection to an upstream may take to open.
    pub connect: Duration,
    /// How long an upstream may take to answer at all: as long as the providers' own packages wait.
    pub first_byte: Duration,
    /// How long a stream may say nothing: models think for minutes between two events.
    pub stream_idle: Duration,
    /// How long a reply may take as a whole.
    pub stream: Duration,
    /// How long requests under way may go on after the server was asked to stop.
    pub shutdown: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        ServerLimits {
            body_bytes: 32 << 20,
            header_bytes: 64 << 10,
            json_depth: scrollback_core::json::MAX_DEPTH,
            message_parts: 10_000,
            headers: seconds(10),
            body_grace: seconds(30),
            body_pace: 1024,
            concurrent: 64,
            connections: 4096,
            connections_per_ip: 256,
            waiting_entries: 10_000,
            memory_bytes: 512 << 20,
            upstream_requests: 1024,
            connect: seconds(5),
            first_byte: seconds(600),
            stream_idle: seconds(600),
            stream: seconds(3600),
            shutdown: seconds(30),
        }
    }
}

/// `[server]` as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Server {
    listen: Option<String>,
    record: Option<Recording>,
    repair: Option<RepairSetting>,
    drain: Option<bool>,
    managers: Option<toml::Value>,
    limits: ServerLimitsSection,
    policy: Option<Vec<WrittenPolicy>>,
    recipient_from: Option<Vec<RecipientField>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RepairSetting {
    Auto,
    Never,
}

/// `[[server.policy]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPolicy {
    tenant: Option<String>,
    model: Option<String>,
    route: Option<String>,
    managers: toml::Value,
}

/// `[server.limits]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerLimitsSection {
    body_bytes: Option<usize>,
    header_bytes: Option<usize>,
    json_depth: Option<usize>,
    message_parts: Option<usize>,
    header_seconds: Option<u64>,
    body_seconds: Option<u64>,
    body_bytes_per_second: Option<usize>,
    concurrent_requests: Option<usize>,
    connections: Option<usize>,
    connections_per_ip: Option<usize>,
    waiting_entries: Option<usize>,
    memory_bytes: Option<usize>,
    upstream_requests: Option<usize>,
    connect_seconds: Option<u64>,
    first_byte_seconds: Option<u64>,
    stream_idle_seconds: Option<u64>,
    stream_seconds: Option<u64>,
    shutdown_seconds: Option<u64>,
}

impl Server {
    /// Fills what this file leaves open from a file of lower rank.
    pub(super) fn over(self, lower: Server) -> Server {
        let (mine, other) = (self.limits, lower.limits);
        Server {
            listen: self.listen.or(lower.listen),
            record: self.record.or(lower.record),
            repair: self.repair.or(lower.repair),
            drain: self.drain.or(lower.drain),
            managers: self.managers.or(lower.managers),
            policy: self.policy.or(lower.policy),
            recipient_from: self.recipient_from.or(lower.recipient_from),
            limits: ServerLimitsSection {
                body_bytes: mine.body_bytes.or(other.body_bytes),
                header_bytes: mine.header_bytes.or(other.header_bytes),
                json_depth: mine.json_depth.or(other.json_depth),
                message_parts: mine.message_parts.or(other.message_parts),
                header_seconds: mine.header_seconds.or(other.header_seconds),
                body_seconds: mine.body_seconds.or(other.body_seconds),
                body_bytes_per_second: mine.body_bytes_per_second.or(other.body_bytes_per_second),
                concurrent_requests: mine.concurrent_requests.or(other.concurrent_requests),
                connections: mine.connections.or(other.connections),
                connections_per_ip: mine.connections_per_ip.or(other.connections_per_ip),
                waiting_entries: mine.waiting_entries.or(other.waiting_entries),
                memory_bytes: mine.memory_bytes.or(other.memory_bytes),
                upstream_requests: mine.upstream_requests.or(other.upstream_requests),
                connect_seconds: mine.connect_seconds.or(other.connect_seconds),
                first_byte_seconds: mine.first_byte_seconds.or(other.first_byte_seconds),
                stream_idle_seconds: mine.stream_idle_seconds.or(other.stream_idle_seconds),
                stream_seconds: mine.stream_seconds.or(other.stream_seconds),
                shutdown_seconds: mine.shutdown_seconds.or(other.shutdown_seconds),
            },
        }
    }

    /// What it means; what is wrong with it otherwise.
    pub(super) fn settings(&self) -> Result<ServerSettings, BadConfig> {
        let listen = self.listen.as_deref().map(listen_address).transpose().map_err(BadConfig)?;
        let usual = self.managers.as_ref().map(|value| managers("[server]", value)).transpose()?;
        let policies = self.policy.iter().flatten().zip(1..).map(|(written, number)| {
            let place = format!("[[server.policy]] {number}");
            let tenant = written.tenant.as_deref().map(Tenant::parse).transpose();
            Ok(Policy {
                tenant: tenant.map_err(|error| BadConfig(format!("{place}: {error}")))?,
                model: written.model.clone(),
                route: written.route.clone(),
                managers: managers(&place, &written.managers)?,
            })
        });
        Ok(ServerSettings {
            listen,
            record: self.record.unwrap_or_default(),
            repair: match self.repair {
                None | Some(RepairSetting::Auto) => Repair::Auto,
                Some(RepairSetting::Never) => Repair::Never,
            },
            abandoned: if self.drain == Some(true) { Abandoned::Drain } else { Abandoned::Cancel },
            managers: usual,
            policies: policies.collect::<Result<_, _>>()?,
            recipient_from: self.recipient_from.clone().unwrap_or_default(),
            follow_ups: FollowUps::default(),
            retention: Retention::default(),
            recall_writes: false,
            limits: self.limits.settings()?,
        })
    }
}

impl ServerLimitsSection {
    fn settings(&self) -> Result<ServerLimits, BadConfig> {
        let usual = ServerLimits::default();
        let seconds = |stated: Option<u64>, usual: Duration| stated.map_or(usual, Duration::from_secs);
        let limits = ServerLimits {
            body_bytes: self.body_bytes.unwrap_or(usual.body_bytes),
            header_bytes: self.header_bytes.unwrap_or(usual.header_bytes),
            json_depth: self.json_depth.unwrap_or(usual.json_depth),
            message_parts: self.message_parts.unwrap_or(usual.message_parts),
            headers: seconds(self.header_seconds, usual.headers),
            body_grace: seconds(self.body_seconds, usual.body_grace),
            body_pace: self.body_bytes_per_second.unwrap_or(usual.body_pace),
            concurrent: self.concurrent_requests.unwrap_or(usual.concurrent),
            connections: self.connections.unwrap_or(usual.connections),
            connections_per_ip: self.connections_per_ip.unwrap_or(usual.connections_per_ip),
            waiting_entries: self.waiting_entries.unwrap_or(usual.waiting_entries),
            memory_bytes: self.memory_bytes.unwrap_or(usual.memory_bytes),
            upstream_requests: self.upstream_requests.unwrap_or(usual.upstream_requests),
            connect: seconds(self.connect_seconds, usual.connect),
            first_byte: seconds(self.first_byte_seconds, usual.first_byte),
            stream_idle: seconds(self.stream_idle_seconds, usual.stream_idle),
            stream: seconds(self.stream_seconds, usual.stream),
            shutdown: seconds(self.shutdown_seconds, usual.shutdown),
        };
        let refused = |key: &str, why: &str| Err(BadConfig(format!("[server.limits]: {key} {why}")));
        let sizes = [
            ("body_bytes", limits.body_bytes),
            ("json_depth", limits.json_depth),
            ("concurrent_requests", limits.concurrent),
            ("connections", limits.connections),
            ("connections_per_ip", limits.connections_per_ip),
            ("waiting_entries", limits.waiting_entries),
            ("message_parts", limits.message_parts),
            ("memory_bytes", limits.memory_bytes),
            ("upstream_requests", limits.upstream_requests),
        ];
        if let Some((key, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return refused(key, "must be at least 1");
        }
        if limits.json_depth > scrollback_core::json::MAX_DEPTH {
            return refused("json_depth", "must be at most 128");
        }
        if limits.header_bytes < 8 << 10 {
            return refused("header_bytes", "must be at least 8192");
        }
        let times = [
            ("header_seconds", limits.headers),
            ("connect_seconds", limits.connect),
            ("first_byte_seconds", limits.first_byte),
            ("stream_idle_seconds", limits.stream_idle),
            ("stream_seconds", limits.stream),
        ];
        match times.iter().find(|(_, time)| time.is_zero()) {
            Some((key, _)) => refused(key, "must be at least 1"),
            None => Ok(limits),
        }
    }
}

/// Where a server listens, as people write it: an address and a port, or one of the two.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let usual = SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT));
    let named = text.replace("localhost", "127.0.0.1");
    if let Ok(address) = named.parse() {
        return Ok(address);
    }
    if let Ok(port) = named.trim_start_matches(':').parse() {
        return Ok(SocketAddr::new(usual.ip(), port));
    }
    if let Ok(ip) = named.trim_matches(['[', ']']).parse() {
        return Ok(SocketAddr::new(ip, usual.port()));
    }
    Err(format!("{text:?} is not an address to listen on; write ADDR:PORT, as in {usual}"))
}

/// The port where nothing else is said.
pub const DEFAULT_PORT: u16 = 7275;

fn managers(place: &str, value: &toml::Value) -> Result<SharedManager, BadConfig> {
    let value = serde_json::to_value(value).unwrap_or_default();
    manager::parse_value(&value).map_err(|error| BadConfig(format!("{place}: managers: {error}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn settings(text: &str) -> Result<ServerSettings, BadConfig> {
        toml::from_str::<Server>(text).map_err(|error| BadConfig(error.message().into()))?.settings()
    }

    #[test]
    fn what_is_written_is_what_holds() {
        let text = r#"
            listen = "127.0.0.1:9000"
            record = "best-effort"
            repair = "never"
            drain = true
            managers = ["tool_result_truncator(1000)", { sliding_window = { window_size = 20 } }]
            [limits]
            body_bytes = 1000
            stream_idle_seconds = 5
            [[policy]]
            tenant = "acme"
            route = "/v1/messages"
            managers = "passthrough"
        "#;
        let settings = settings(text).unwrap();
        assert_eq!(settings.listen, Some(SocketAddr::from(([127, 0, 0, 1], 9000))));
        assert_eq!((settings.record, settings.repair), (Recording::BestEffort, Repair::Never));
        assert_eq!(settings.abandoned, Abandoned::Drain);
        assert_eq!(settings.managers.unwrap().name(), "compose");
        assert_eq!(settings.limits.stream_idle, Duration::from_secs(5));
        assert_eq!(ServerLimits::default().stream_idle, Duration::from_secs(600));
        assert_eq!((settings.limits.body_bytes, settings.limits.header_bytes), (1000, 64 << 10));
        let acme = Tenant::parse("acme").unwrap();
        assert!(settings.policies[0].fits(&acme, "any", "/v1/messages"));
        assert!(!settings.policies[0].fits(&acme, "any", "/v1/responses"));
        assert!(!settings.policies[0].fits(&Tenant::default(), "any", "/v1/messages"));
    }

    #[test]
    fn mistakes_are_told() {
        let cases = [
            ("managers = \"slidin_window(3)\"", "sliding_window"),
            ("[[policy]]\nmanagers = \"fit(x=1)\"", "[[server.policy]] 1"),
            ("[limits]\nbody_bytes = 0", "body_bytes must be at least 1"),
            ("[limits]\njson_depth = 500", "at most 128"),
            ("listen = \"here\"", "ADDR:PORT"),
            ("record = \"sometimes\"", "sometimes"),
        ];
        for (text, word) in cases {
            let error = settings(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn addresses_may_be_written_short() {
        let address = |text: &str| listen_address(text).unwrap().to_string();
        assert_eq!(address("127.0.0.1:9000"), "127.0.0.1:9000");
        assert_eq!(address("localhost:9000"), "127.0.0.1:9000");
        assert_eq!(address(":9000"), "127.0.0.1:9000");
        assert_eq!(address("0.0.0.0"), "0.0.0.0:7275");
        assert_eq!(address("[::1]:9000"), "[::1]:9000");
        assert!(listen_address("example.com").is_err());
    }
}
