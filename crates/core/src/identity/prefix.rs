//! The chain by which a list of messages is recognised.
//!
//! Two clients that send the same messages have the same chain, and a reply matches when the client sends it back in its
//! own spelling: each link is over what the entries *are* (see [`identity`](super::identity)). The leading system entries
//! are left out, because clients put dates into them, and so are those that were recorded to take their place. Replies that
//! broke off are left out too: a client that tries again does not send them.

use super::identity;
use crate::chain::Link;
use crate::entry::{Entry, Role, Status};

/// The chain's value before anything was said.
pub const PREFIX_START: Link = *b"sb1 prefix: nothing said so far.";

/// The chain's value after an entry; none for an entry that leaves it as it was.
pub fn next_prefix(previous: &Link, entry: &Entry) -> Option<Link> {
    let leads = entry.role == Role::System && (*previous == PREFIX_START || entry.is_lead());
    if leads || entry.status() != Status::Complete {
        return None;
    }
    let identity = identity(entry)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(previous).update(&identity);
    Some(*hasher.finalize().as_bytes())
}

/// The chain over a list of messages: the value after each entry.
pub fn prefixes<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<Link> {
    let mut last = PREFIX_START;
    let next = |entry: &Entry| {
        last = next_prefix(&last, entry).unwrap_or(last);
        last
    };
    entries.into_iter().map(next).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json;
    use crate::wire::{ParseOptions, Wire};

    fn chain(wire: Wire, body: &str) -> Link {
        let body = json::check(body).unwrap();
        let parsed = wire.parse(body, &ParseOptions::default()).unwrap();
        *prefixes(&parsed.entries).last().unwrap()
    }

    const PLAIN: &str = r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"b\": [1, 2], \"a\": \"x\"}"}}]},{"role":"tool","tool_call_id":"c","content":"ok"}]"#;

    #[test]
    fn spelling_does_not_matter() {
        let same = [
            r#"[{"role":"system","content":"Today is Monday."},{"content":[{"type":"text","text":"h\u0069"}],"role":"user","x":1},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"x\",\"b\":[1,2]}"}}],"refusal":null},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"ok"}]}]"#,
            r#"[{"role":"system","content":"Today is Tuesday."},{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\u0078\",\"b\":[1,2]}"}}]},{"role":"tool","tool_call_id":"c","content":"ok"}]"#,
        ];
        for other in same {
            assert_eq!(chain(Wire::OpenaiChat, other), chain(Wire::OpenaiChat, PLAIN), "{other}");
        }
        let anthropic = r#"[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"c","name":"f","input":{"a":"x","b":[1,2]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"ok","is_error":false}]}]"#;
        assert_eq!(chain(Wire::Anthropic, anthropic), chain(Wire::OpenaiChat, PLAIN));
    }

    #[test]
    fn what_is_said_matters() {
        let changes = [
            (r#""content":"hi""#, r#""content":"ho""#),
            (r#""name":"f""#, r#""name":"g""#),
            (r#""id":"c""#, r#""id":"d""#),
            (r#""tool_call_id":"c""#, r#""tool_call_id":"d""#),
            (r#""role":"user""#, r#""role":"assistant""#),
        ];
        for (from, to) in changes {
            let other = PLAIN.replacen(from, to, 1);
            assert_ne!(other, PLAIN);
            assert_ne!(chain(Wire::OpenaiChat, &other), chain(Wire::OpenaiChat, PLAIN), "{to}");
        }
    }

    #[test]
    fn only_leading_instructions_are_left_out() {
        let system = Entry::text(Role::System, "s");
        let user = Entry::text(Role::User, "u");
        assert_eq!(prefixes([&system]), [PREFIX_START]);
        assert_eq!(prefixes([&system, &user]).last(), prefixes([&user]).last());
        assert_ne!(prefixes([&user, &system]).last(), prefixes([&user]).last());
        assert_eq!(prefixes([&user, &system.as_lead()]).last(), prefixes([&user]).last());
    }
}
