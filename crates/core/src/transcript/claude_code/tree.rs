//! Which lines are one message, and which messages are one conversation.
//!
//! Lines hang on one another by their ids. Three things keep that tree from being the tree of the conversation:
//! - One reply is written as several lines, block by block, and results of the first blocks may stand between them.
//! - Results of parallel calls hang on the block that asked, so that all but the last seem to lead nowhere.
//! - Lines that are no messages (progress, hooks, compaction) are links of the chain.
//!
//! So lines become [`MessageNode`]s first: a reply with all its lines, or one line of a user. The newest leaf then names the
//! conversation; results that lead nowhere stay with their call, and whatever is left over are branches.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::line::{LineMessage, SessionLine, Speaker, Strand};
use crate::entry::Time;

/// A message: one line of a user, or all lines of a reply.
pub(super) struct MessageNode {
    /// Its lines, in order.
    pub(super) lines: Vec<usize>,
    /// The message before it.
    pub(super) parent: Option<usize>,
    /// The reply before it, however many messages of users lie between.
    asker: Option<usize>,
    /// Messages that stand between the lines of a reply.
    inside: BTreeSet<usize>,
    is_leaf: bool,
}

/// A conversation: messages in order, and what they follow.
pub(super) struct Path {
    pub(super) nodes: Vec<usize>,
    /// The last message shared with another conversation, and that conversation's place among the paths.
    pub(super) branch: Option<(usize, usize)>,
}

/// What a line hangs on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ParentLink<'a> {
    Root,
    Line(usize),
    /// A line that is not in this text; the one before it is taken instead, if there is one.
    Missing(Cow<'a, str>, Option<usize>),
}

impl ParentLink<'_> {
    fn line(&self) -> Option<usize> {
        match self {
            ParentLink::Root => None,
            ParentLink::Line(at) => Some(*at),
            ParentLink::Missing(_, at) => *at,
        }
    }
}

/// The lines of a session as messages.
pub(super) struct Tree<'a> {
    pub(super) links: Vec<ParentLink<'a>>,
    pub(super) nodes: Vec<MessageNode>,
    /// The message each line is part of.
    pub(super) node_of: Vec<Option<usize>>,
}

impl<'a> Tree<'a> {
    /// Builds the tree of lines that have no id twice.
    pub(super) fn new(lines: &[SessionLine<'a>]) -> Self {
        let (hangs_on, order) = link(lines);
        let mut tree = Tree { links: hangs_on, nodes: Vec::new(), node_of: vec![None; lines.len()] };
        // The nearest line above that is a message of the same strand.
        let mut above: Vec<Option<usize>> = vec![None; lines.len()];
        for at in order {
            let Some(line) = lines.get(at) else { continue };
            let up = tree.links.get(at).and_then(ParentLink::line);
            let same = up.filter(|up| lines.get(*up).is_some_and(|upper| upper.strand == line.strand));
            let nearest = same.and_then(|up| {
                let is_message = lines.get(up).is_some_and(|upper| upper.message.is_some());
                if is_message { Some(up) } else { above.get(up).copied().flatten() }
            });
            if let Some(slot) = above.get_mut(at) {
                *slot = nearest;
            }
            if line.message.is_some() {
                tree.place(lines, at, nearest, &above);
            }
        }
        tree
    }

    /// Makes a line a message, or a part of the reply it continues.
    fn place(
        &mut self,
        lines: &[SessionLine<'_>],
        at: usize,
        nearest: Option<usize>,
        above: &[Option<usize>],
    ) {
        let parent = nearest.and_then(|up| self.node_of.get(up).copied().flatten());
        let speaker = |node: usize| -> Option<&Speaker<'_>> {
            let first = self.nodes.get(node)?.lines.first()?;
            Some(&lines.get(*first)?.message.as_ref()?.speaker)
        };
        let asker = parent.and_then(|parent| match speaker(parent) {
            Some(Speaker::Assistant(_)) => Some(parent),
            _ => self.nodes.get(parent).and_then(|node| node.asker),
        });
        let own = lines.get(at).and_then(|line| line.message.as_ref()).map(|message| &message.speaker);
        let continued =
            asker.filter(|asker| matches!(own, Some(Speaker::Assistant(Some(_)))) && speaker(*asker) == own);
        let node = if let Some(reply) = continued {
            let mut between = nearest;
            while let Some(line) = between {
                let node = self.node_of.get(line).copied().flatten();
                let Some(node) = node.filter(|node| *node != reply) else { break };
                if !self.nodes.get_mut(reply).is_some_and(|reply| reply.inside.insert(node)) {
                    break;
                }
                between = above.get(line).copied().flatten();
            }
            if let Some(reply) = self.nodes.get_mut(reply) {
                reply.lines.push(at);
                reply.lines.sort_unstable();
            }
            reply
        } else {
            if let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent)) {
                parent.is_leaf = false;
            }
            let inside = BTreeSet::new();
            self.nodes.push(MessageNode { lines: vec![at], parent, asker, inside, is_leaf: true });
            self.nodes.len() - 1
        };
        if let Some(slot) = self.node_of.get_mut(at) {
            *slot = Some(node);
        }
    }

    /// The conversations of a strand: for the session itself the main one first; each agent's tree of its own.
    pub(super) fn paths(&self, lines: &[SessionLine<'_>], strand: &Strand<'_>) -> Vec<Path> {
        let age = |node: &MessageNode| -> (Option<Time>, Option<usize>) {
            let time = node.lines.iter().filter_map(|at| lines.get(*at)?.time).max();
            (time, node.lines.last().copied())
        };
        let mut nodes: Vec<usize> = (0..self.nodes.len())
            .filter(|at| self.first_line(lines, *at).is_some_and(|line| line.strand == *strand))
            .collect();
        nodes.sort_by_key(|at| self.nodes.get(*at).map(|node| (node.is_leaf, age(node))));
        let askers = self.by_asker(lines);
        let mut owner: BTreeMap<usize, usize> = BTreeMap::new();
        let mut paths: Vec<Path> = Vec::new();
        while let Some(leaf) = nodes.pop() {
            if owner.contains_key(&leaf) {
                continue;
            }
            let mut chain = vec![leaf];
            let mut up = self.nodes.get(leaf).and_then(|node| node.parent);
            while let Some(at) = up.filter(|at| !owner.contains_key(at)) {
                chain.push(at);
                up = self.nodes.get(at).and_then(|node| node.parent);
            }
            chain.reverse();
            let branch = up.and_then(|at| Some((at, *owner.get(&at)?)));
            let number = paths.len();
            let nodes = self.with_results(lines, &chain, &askers, &owner);
            owner.extend(nodes.iter().map(|node| (*node, number)));
            paths.push(Path { nodes, branch });
        }
        paths
    }

    /// A chain with the results that hang beside it, each after the reply that asked for it.
    fn with_results(
        &self,
        lines: &[SessionLine<'_>],
        chain: &[usize],
        askers: &BTreeMap<usize, Vec<usize>>,
        owner: &BTreeMap<usize, usize>,
    ) -> Vec<usize> {
        let on_chain: BTreeSet<usize> = chain.iter().copied().collect();
        let mut placed = BTreeSet::new();
        let mut all = Vec::new();
        for &at in chain {
            if placed.insert(at) {
                all.push(at);
            }
            let Some(node) = self.nodes.get(at) else { continue };
            let results = askers.get(&at).map(Vec::as_slice).unwrap_or_default();
            let mut attached: BTreeSet<usize> = node.inside.iter().copied().collect();
            attached.extend(results.iter().filter(|result| on_chain.contains(result)));
            let mut answered: BTreeSet<Cow<'_, str>> =
                attached.iter().flat_map(|result| self.answers(lines, *result)).collect();
            for &result in results {
                let ids = self.answers(lines, result);
                if !owner.contains_key(&result) && !ids.iter().any(|id| answered.contains(id)) {
                    answered.extend(ids);
                    attached.insert(result);
                }
            }
            let mut attached: Vec<usize> =
                attached.into_iter().filter(|at| !owner.contains_key(at) && placed.insert(*at)).collect();
            attached.sort_by_key(|at| self.nodes.get(*at).and_then(|node| node.lines.first().copied()));
            all.extend(attached);
        }
        all
    }

    /// Messages that answer calls, by the reply that made them.
    fn by_asker(&self, lines: &[SessionLine<'_>]) -> BTreeMap<usize, Vec<usize>> {
        let mut askers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            if let Some(asker) = node.asker.filter(|_| !self.answers(lines, at).is_empty()) {
                askers.entry(asker).or_default().push(at);
            }
        }
        askers
    }

    fn answers<'l>(&self, lines: &'l [SessionLine<'_>], node: usize) -> Vec<Cow<'l, str>> {
        let message = self.first_line(lines, node).and_then(|line| line.message.as_ref());
        message.filter(|message| !message.is_assistant()).map(LineMessage::answers).unwrap_or_default()
    }

    pub(super) fn first_line<'l, 'b>(
        &self,
        lines: &'l [SessionLine<'b>],
        node: usize,
    ) -> Option<&'l SessionLine<'b>> {
        lines.get(*self.nodes.get(node)?.lines.first()?)
    }
}

/// What each line hangs on, and an order in which every line comes after the one it hangs on.
fn link<'a>(lines: &[SessionLine<'a>]) -> (Vec<ParentLink<'a>>, Vec<usize>) {
    let by_id: BTreeMap<&str, usize> =
        lines.iter().enumerate().filter_map(|(at, line)| Some((line.uuid.as_deref()?, at))).collect();
    let mut before: BTreeMap<&Strand<'_>, usize> = BTreeMap::new();
    let mut hangs_on: Vec<ParentLink<'a>> = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        hangs_on.push(match &line.parent {
            None => ParentLink::Root,
            Some(parent) => match by_id.get(parent.as_ref()) {
                Some(&up) if up != at => ParentLink::Line(up),
                _ => ParentLink::Missing(parent.clone(), before.get(&line.strand).copied()),
            },
        });
        if line.uuid.is_some() {
            before.insert(&line.strand, at);
        }
    }
    let order = ancestors_first(&mut hangs_on);
    (hangs_on, order)
}

/// Orders lines so that each comes after the one it hangs on. A circle is opened where it closes.
fn ancestors_first(links: &mut [ParentLink<'_>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(links.len());
    let mut seen = vec![false; links.len()];
    for start in 0..links.len() {
        let mut chain = Vec::new();
        let mut next = Some(start);
        while let Some(at) = next {
            match seen.get_mut(at) {
                Some(seen) if !*seen => *seen = true,
                _ => break,
            }
            chain.push(at);
            next = links.get(at).and_then(ParentLink::line);
        }
        // A chain that ends in one of its own lines is a circle.
        if let (Some(end), Some(&last)) = (next, chain.last())
            && chain.contains(&end)
            && let Some(link) = links.get_mut(last)
        {
            *link = ParentLink::Root;
        }
        order.extend(chain.into_iter().rev());
    }
    order
}
