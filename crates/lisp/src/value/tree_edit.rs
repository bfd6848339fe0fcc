//! Changing trees: items put in and taken out, and parts cut off. What others share is copied along one path.

use std::sync::Arc;

use super::tree::{Tree, TreeChild, TreeItem, TreeNode, WIDTH, locate};

impl<T: TreeItem> Tree<T> {
    pub(crate) fn push(&mut self, item: T) {
        self.insert(usize::MAX, item);
    }

    /// Puts an item before the one at `index`, at the end if there is none.
    pub(crate) fn insert(&mut self, index: usize, item: T) {
        let Some(root) = self.root.as_mut() else {
            // Where one item is put, a few more often follow.
            let mut items = Vec::with_capacity(4);
            items.push(item);
            self.root = Some(Arc::new(TreeNode::Leaf(items)));
            return;
        };
        if let Some(sibling) = insert(Arc::make_mut(root), index, item) {
            let left = TreeChild { count: root.count(), node: Arc::clone(root) };
            self.root = Some(Arc::new(TreeNode::Branch(vec![left, TreeChild::new(sibling)])));
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
                TreeNode::Branch(children) => match children.as_slice() {
                    [only] => Some(Arc::clone(&only.node)),
                    [] => None,
                    _ => return,
                },
                TreeNode::Leaf(items) if items.is_empty() => None,
                TreeNode::Leaf(_) => return,
            };
            self.root = next;
        }
    }
}

/// Splits what has become too wide. At the end only the last goes, so that trees grown by appending stay full.
fn split<P>(parts: &mut Vec<P>, appended: bool) -> Option<Vec<P>> {
    (parts.len() > WIDTH).then(|| parts.split_off(if appended { WIDTH } else { WIDTH / 2 }))
}

fn insert<T: TreeItem>(node: &mut TreeNode<T>, index: usize, item: T) -> Option<TreeNode<T>> {
    match node {
        TreeNode::Leaf(items) => {
            let at = index.min(items.len());
            let appended = at == items.len();
            items.insert(at, item);
            split(items, appended).map(TreeNode::Leaf)
        }
        TreeNode::Branch(children) => {
            let (at, within) = locate(children, index);
            let appended = at + 1 == children.len();
            let child = children.get_mut(at)?;
            child.count += 1;
            if let Some(sibling) = insert(Arc::make_mut(&mut child.node), within, item) {
                let sibling = TreeChild::new(sibling);
                child.count -= sibling.count;
                children.insert(at + 1, sibling);
            }
            split(children, appended).map(TreeNode::Branch)
        }
    }
}

fn remove<T: TreeItem>(node: &mut TreeNode<T>, index: usize) -> Option<T> {
    match node {
        TreeNode::Leaf(items) => (index < items.len()).then(|| items.remove(index)),
        TreeNode::Branch(children) => {
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

fn cut<T: TreeItem>(node: &Arc<TreeNode<T>>, start: usize, end: usize) -> Option<TreeChild<T>> {
    match &**node {
        TreeNode::Leaf(items) => {
            let items = items.get(start..end.min(items.len())).filter(|items| !items.is_empty())?;
            Some(TreeChild::new(TreeNode::Leaf(items.to_vec())))
        }
        TreeNode::Branch(children) => {
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
            (!kept.is_empty()).then(|| TreeChild::new(TreeNode::Branch(kept)))
        }
    }
}
