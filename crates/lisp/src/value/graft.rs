//! Changing trees: items put in and taken out, and parts cut off. What others share is copied along one path.

use std::sync::Arc;

use super::tree::{Child, Item, Node, Tree, WIDTH, locate};

impl<T: Item> Tree<T> {
    pub(crate) fn push(&mut self, item: T) {
        self.insert(usize::MAX, item);
    }

    /// Puts an item before the one at `index`, at the end if there is none.
    pub(crate) fn insert(&mut self, index: usize, item: T) {
        let Some(root) = self.root.as_mut() else {
            // Where one item is put, a few more often follow.
            let mut items = Vec::with_capacity(4);
            items.push(item);
            self.root = Some(Arc::new(Node::Leaf(items)));
            return;
        };
        if let Some(sibling) = insert(Arc::make_mut(root), index, item) {
            let left = Child { count: root.count(), node: Arc::clone(root) };
            self.root = Some(Arc::new(Node::Branch(vec![left, Child::new(sibling)])));
        }
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        let removed = remove(Arc::make_mut(self.root.as_mut()?), index);
        self.trim();
        removed
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.remove(self.len().checked_sub(1)?)
    }

    /// The items from `start` up to but not including `end`, sharing what lies between the edges.
    pub(crate) fn slice(&self, start: usize, end: usize) -> Self {
        let end = end.min(self.len());
        let Some(root) = self.root.as_ref().filter(|_| start < end) else { return Tree::default() };
        if start == 0 && end == self.len() {
            return self.clone();
        }
        let mut tree = Tree { root: cut(root, start, end).map(|child| child.node) };
        tree.trim();
        tree
    }

    /// Removes what is empty or superfluous at the top.
    fn trim(&mut self) {
        while let Some(root) = &self.root {
            let next = match &**root {
                Node::Branch(children) => match children.as_slice() {
                    [only] => Some(Arc::clone(&only.node)),
                    [] => None,
                    _ => return,
                },
                Node::Leaf(items) if items.is_empty() => None,
                Node::Leaf(_) => return,
            };
            self.root = next;
        }
    }
}

/// Splits what has become too wide. At the end only the last goes, so that trees grown by appending stay full.
fn split<P>(parts: &mut Vec<P>, appended: bool) -> Option<Vec<P>> {
    (parts.len() > WIDTH).then(|| parts.split_off(if appended { WIDTH } else { WIDTH / 2 }))
}

fn insert<T: Item>(node: &mut Node<T>, index: usize, item: T) -> Option<Node<T>> {
    match node {
        Node::Leaf(items) => {
            let at = index.min(items.len());
            let appended = at == items.len();
            items.insert(at, item);
            split(items, appended).map(Node::Leaf)
        }
        Node::Branch(children) => {
            let (at, within) = locate(children, index);
            let appended = at + 1 == children.len();
            let child = children.get_mut(at)?;
            child.count += 1;
            if let Some(sibling) = insert(Arc::make_mut(&mut child.node), within, item) {
                let sibling = Child::new(sibling);
                child.count -= sibling.count;
                children.insert(at + 1, sibling);
            }
            split(children, appended).map(Node::Branch)
        }
    }
}

fn remove<T: Item>(node: &mut Node<T>, index: usize) -> Option<T> {
    match node {
        Node::Leaf(items) => (index < items.len()).then(|| items.remove(index)),
        Node::Branch(children) => {
            let (at, within) = locate(children, index);
            let child = children.get_mut(at)?;
            let removed = remove(Arc::make_mut(&mut child.node), within)?;
            child.count -= 1;
            if child.count == 0 {
                children.remove(at);
            }
            Some(removed)
        }
    }
}

fn cut<T: Item>(node: &Arc<Node<T>>, start: usize, end: usize) -> Option<Child<T>> {
    match &**node {
        Node::Leaf(items) => {
            let items = items.get(start..end.min(items.len())).filter(|items| !items.is_empty())?;
            Some(Child::new(Node::Leaf(items.to_vec())))
        }
        Node::Branch(children) => {
            let mut kept = Vec::new();
            let mut before = 0;
            for child in children {
                let (from, to) = (start.saturating_sub(before), end.saturating_sub(before).min(child.count));
                if from == 0 && to == child.count {
                    kept.push(child.clone());
                } else if from < to {
                    kept.extend(cut(&child.node, from, to));
                }
                before += child.count;
            }
            (!kept.is_empty()).then(|| Child::new(Node::Branch(kept)))
        }
    }
}
