//! Where a reader is. Every value has a place, and hardly any is ever printed.

use std::fmt;

/// A place in a body: a step on from another place, spelled out as a JSON pointer only when something is wrong there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'a> {
    /// The body itself.
    Body,
    /// A member of the object at a place. Its key is one of ours and needs no escaping.
    Key(&'a At<'a>, &'a str),
    /// An element of the list at a place.
    Index(&'a At<'a>, usize),
}

impl<'a> At<'a> {
    /// The place of a member.
    pub(crate) fn key(&'a self, key: &'a str) -> At<'a> {
        At::Key(self, key)
    }

    /// The place of an element.
    pub(crate) fn index(&'a self, index: usize) -> At<'a> {
        At::Index(self, index)
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Body => Ok(()),
            At::Key(before, key) => write!(f, "{before}/{key}"),
            At::Index(before, index) => write!(f, "{before}/{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_prints_as_a_pointer() {
        let body = At::Body;
        let (messages, none) = (body.key("messages"), body.to_string());
        let message = messages.index(3);
        assert_eq!((none.as_str(), message.key("role").to_string().as_str()), ("", "/messages/3/role"));
    }
}
