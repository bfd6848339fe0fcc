//! Steps as a tree: keys such as `chat[2]/clarify` and `fan.left/draft` say what is inside what.

use std::collections::BTreeMap;

use scrollback_core::Time;
use scrollback_store::Step;

/// A step, an iteration or a branch, and what ran inside it.
#[derive(Debug, Default)]
pub(crate) struct RunNode {
    /// The whole key.
    pub(crate) key: String,
    /// The last part of it.
    pub(crate) name: String,
    /// The step of that key; none for iterations and branches, which have no row of their own.
    pub(crate) step: Option<Step>,
    pub(crate) inside: Vec<RunNode>,
}

impl RunNode {
    /// When it or something inside it began.
    pub(crate) fn began(&self) -> Option<Time> {
        let own = self.step.as_ref().and_then(|step| step.started_at);
        own.into_iter().chain(self.inside.iter().filter_map(RunNode::began)).min()
    }

    /// When it ended, if everything inside it did.
    pub(crate) fn ended(&self) -> Option<Time> {
        if let Some(step) = &self.step {
            return step.ended_at;
        }
        let ends: Option<Vec<Time>> = self.inside.iter().map(RunNode::ended).collect();
        ends.and_then(|ends| ends.into_iter().max())
    }
}

/// The steps of a run as a tree, in the order they began.
pub(crate) fn tree(steps: Vec<Step>) -> Vec<RunNode> {
    let mut found: BTreeMap<String, Step> = steps.into_iter().map(|step| (step.key.clone(), step)).collect();
    let keys: Vec<String> = found.keys().cloned().collect();
    let mut roots = Vec::new();
    for key in keys {
        let mut level = &mut roots;
        for (whole, name) in ancestry(&key) {
            let known = level.iter().position(|node: &RunNode| node.key == whole);
            let at = known.unwrap_or(level.len());
            if known.is_none() {
                level.push(RunNode { step: found.remove(&whole), key: whole, name, inside: Vec::new() });
            }
            let Some(node) = level.get_mut(at) else { break };
            level = &mut node.inside;
        }
    }
    sort(&mut roots);
    roots
}

fn sort(nodes: &mut [RunNode]) {
    for node in nodes.iter_mut() {
        sort(&mut node.inside);
    }
    nodes.sort_by_key(|node| (node.began().unwrap_or(Time(i64::MAX)), node.key.clone()));
}

/// The keys a key is inside of, outermost first, itself last; each with its own name.
fn ancestry(key: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut start = 0;
    for (at, letter) in key.char_indices().chain([(key.len(), '/')]) {
        let part = key.get(start..at).unwrap_or_default();
        let before = key.get(..at).unwrap_or_default();
        match letter {
            // An iteration or a branch is inside its step.
            '[' | '.' | '~' if !part.is_empty() => all.push((before.to_string(), part.to_string())),
            '/' => {
                all.push((before.to_string(), part.to_string()));
                start = at + 1;
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(key: &str, began: i64) -> Step {
        Step {
            run: "r".into(),
            key: key.into(),
            kind: scrollback_store::StepType::Step,
            status: scrollback_store::StepStatus::Done,
            attempt: 1,
            input: None,
            output: None,
            evaluation: None,
            usage: None,
            started_at: Some(Time(began)),
            ended_at: Some(Time(began + 1)),
            error: None,
        }
    }

    fn shown(nodes: &[RunNode]) -> String {
        let one = |node: &RunNode| {
            let inside = shown(&node.inside);
            if inside.is_empty() { node.name.clone() } else { format!("{}({inside})", node.name) }
        };
        nodes.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn keys_say_what_is_inside_what() {
        let keys = [
            "chat",
            "chat[1]/clarify",
            "chat[10]/clarify",
            "chat[2]/clarify",
            "fan",
            "fan.left/draft",
            "end",
        ];
        let times = [1, 2, 9, 5, 20, 21, 30];
        let steps = keys.iter().zip(times).map(|(key, began)| step(key, began)).collect();
        let tree = tree(steps);
        assert_eq!(
            shown(&tree),
            "chat(chat[1](clarify) chat[2](clarify) chat[10](clarify)) fan(fan.left(draft)) end"
        );
        assert!(tree[0].step.is_some() && tree[0].inside[0].step.is_none());
        assert_eq!(tree[0].inside[0].ended(), Some(Time(3)));
    }

    #[test]
    fn odd_keys_have_a_place_too() {
        for key in ["", "/", "a//b", "[1]", ".x", "a[1][2].c~d/e"] {
            assert!(!tree(vec![step(key, 0)]).is_empty(), "{key:?}");
        }
    }
}
