//! What was found, and where: collected in any order, reported in the order of the places.

use std::borrow::Cow;
use std::fmt;

use super::super::{Severity, ViolationReport};

/// A place in a request; places sort as a reader meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RequestPath {
    /// The whole body.
    Body,
    /// A member of the body.
    Member(&'static str),
    /// An element of a member: `/tools/0`.
    Element(&'static str, usize),
    /// A message.
    Message(usize),
    /// A block of a message, and a block inside that: `/messages/0/content/1/content/2`.
    Block(usize, usize, Option<usize>),
}

impl RequestPath {
    /// Messages come after everything else; a message comes before its blocks.
    fn order(self) -> (usize, Option<usize>, Option<usize>) {
        match self {
            RequestPath::Body | RequestPath::Member(_) | RequestPath::Element(..) => (0, None, None),
            RequestPath::Message(message) => (message + 1, None, None),
            RequestPath::Block(message, block, inner) => (message + 1, Some(block), inner),
        }
    }
}

impl fmt::Display for RequestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestPath::Body => Ok(()),
            RequestPath::Member(key) => write!(f, "/{key}"),
            RequestPath::Element(key, index) => write!(f, "/{key}/{index}"),
            RequestPath::Message(message) => write!(f, "/messages/{message}"),
            RequestPath::Block(message, block, None) => write!(f, "/messages/{message}/content/{block}"),
            RequestPath::Block(message, block, Some(inner)) => {
                write!(f, "/messages/{message}/content/{block}/content/{inner}")
            }
        }
    }
}

struct Finding {
    rule: &'static str,
    place: RequestPath,
    /// Another severity than the table's.
    severity: Option<Severity>,
    message: Cow<'static, str>,
}

/// Everything found in one request.
#[derive(Default)]
pub(super) struct Findings {
    list: Vec<Finding>,
}

impl Findings {
    /// Notes a breach.
    pub(super) fn add(
        &mut self,
        rule: &'static str,
        place: RequestPath,
        message: impl Into<Cow<'static, str>>,
    ) {
        self.list.push(Finding { rule, place, severity: None, message: message.into() });
    }

    /// Notes a breach that is milder here than the rule's own severity.
    pub(super) fn add_as(
        &mut self,
        rule: &'static str,
        severity: Severity,
        place: RequestPath,
        message: impl Into<Cow<'static, str>>,
    ) {
        self.list.push(Finding { rule, place, severity: Some(severity), message: message.into() });
    }

    /// Hands everything over, in the order of the places.
    pub(super) fn report(mut self, report: &mut ViolationReport<'_>) {
        self.list.sort_by_key(|finding| (finding.place.order(), finding.place));
        for Finding { rule, place, severity, message } in self.list {
            match severity {
                Some(severity) => report.add_as(rule, severity, place.to_string(), message),
                None => report.add(rule, place.to_string(), message),
            }
        }
    }
}
