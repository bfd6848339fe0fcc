//! How runs, steps and evaluations stand. The words exist only where rows, JSON and people are written to and read from.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{ErrorKind, StoreError};

/// A closed set of words: `as_str`, `FromStr` and the forms that follow from them.
macro_rules! words {
    ($(#[$about:meta])* $name:ident, $what:literal { $($(#[$says:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$says])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word for it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl FromStr for $name {
            type Err = StoreError;

            fn from_str(word: &str) -> Result<Self, StoreError> {
                $name::ALL.iter().copied().find(|known| known.as_str() == word).ok_or_else(|| {
                    let known: Vec<&str> = $name::ALL.iter().map(|known| known.as_str()).collect();
                    let message = format!("unknown {} {word:?} (known: {})", $what, known.join(", "));
                    StoreError::new(ErrorKind::BadArgument, message)
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = String::deserialize(deserializer)?;
                word.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

words! {
    /// What was executed in a run.
    RunKind, "kind of run" {
        /// A flow.
        Flow = "flow",
        /// A sub-agent on its own.
        Subagent = "subagent",
    }
}

words! {
    /// How a run stands.
    RunStatus, "status of a run" {
        /// A process works on it.
        Running = "running",
        /// It waits for people.
        Paused = "paused",
        /// It was stopped, or its process died; it can go on.
        Interrupted = "interrupted",
        /// It has an output.
        Done = "done",
        /// It failed; the failed step can be tried again.
        Failed = "failed",
    }
}

words! {
    /// What a step of a run does.
    StepType, "type of step" {
        /// Asks an agent, or renders a text.
        Step = "step",
        /// Repeats a body.
        Loop = "loop",
        /// Waits for a person.
        Hitl = "hitl",
        /// Runs branches side by side.
        Parallel = "parallel",
        /// Runs the branch that a value selects.
        Conditional = "conditional",
        /// Runs a body once per item of a list.
        Map = "map",
    }
}

words! {
    /// How a step of a run stands, or a span of its trace.
    StepStatus, "status of a step" {
        /// It is being done.
        Running = "running",
        /// It waits for a person.
        Paused = "paused",
        /// Its condition did not hold.
        Skipped = "skipped",
        /// It has an output.
        Done = "done",
        /// It failed.
        Failed = "failed",
    }
}

words! {
    /// How an evaluation stands.
    EvaluationStatus, "status of an evaluation" {
        /// It is being worked on.
        Running = "running",
        /// It waits for a person.
        Paused = "paused",
        /// The model replied.
        Done = "done",
        /// It ended without a reply.
        Failed = "failed",
    }
}

/// How a call of a model stands, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallStatus {
    /// It was sent and has not ended.
    Sent,
    /// The reply came whole.
    Done,
    /// The caller asked to stop.
    Interrupted,
    /// The process that made the call died, so its end is unknown.
    Lost,
    /// Its conversation was erased while it was under way; its reply is not kept.
    Erased,
    /// The client left before the reply was whole.
    TruncatedClient,
    /// The provider's reply broke off.
    TruncatedUpstream,
    /// It failed; the code of the error.
    Failed(Cow<'static, str>),
}

impl CallStatus {
    /// A call that failed with an error of this code.
    pub const fn failed(code: &'static str) -> Self {
        CallStatus::Failed(Cow::Borrowed(code))
    }

    /// The word for it.
    pub fn as_str(&self) -> &str {
        match self {
            CallStatus::Sent => "sent",
            CallStatus::Done => "ok",
            CallStatus::Interrupted => "interrupted",
            CallStatus::Lost => "lost",
            CallStatus::Erased => "erased",
            CallStatus::TruncatedClient => "truncated_client",
            CallStatus::TruncatedUpstream => "truncated_upstream",
            CallStatus::Failed(code) => code,
        }
    }

    /// The word of what went wrong with a call that has ended.
    pub fn error(&self) -> Option<&str> {
        (!matches!(self, CallStatus::Sent | CallStatus::Done)).then_some(self.as_str())
    }
}

impl From<String> for CallStatus {
    fn from(word: String) -> Self {
        let known = [
            CallStatus::Sent,
            CallStatus::Done,
            CallStatus::Interrupted,
            CallStatus::Lost,
            CallStatus::Erased,
            CallStatus::TruncatedClient,
            CallStatus::TruncatedUpstream,
        ];
        let status = known.into_iter().find(|status| status.as_str() == word);
        status.unwrap_or(CallStatus::Failed(Cow::Owned(word)))
    }
}

impl From<&str> for CallStatus {
    fn from(word: &str) -> Self {
        word.to_string().into()
    }
}

impl fmt::Display for CallStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for CallStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl StepStatus {
    /// Whether it has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, StepStatus::Running | StepStatus::Paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back_and_others_are_refused() {
        for status in RunStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(*status));
            assert_eq!(serde_json::to_string(status).unwrap_or_default(), format!("\"{status}\""));
        }
        for status in StepStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(*status));
        }
        for status in EvaluationStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(*status));
        }
        for word in [
            "sent",
            "ok",
            "interrupted",
            "lost",
            "erased",
            "truncated_client",
            "truncated_upstream",
            "overloaded",
        ] {
            assert_eq!(CallStatus::from(word.to_string()).as_str(), word);
        }
        assert_eq!(CallStatus::from("overloaded".to_string()), CallStatus::failed("overloaded"));
        let refused = "finished".parse::<RunStatus>().map_err(|error| error.to_string());
        let message =
            "unknown status of a run \"finished\" (known: running, paused, interrupted, done, failed)";
        assert_eq!(refused, Err(message.into()));
    }
}
