//! The one data structure behind vectors, maps and sets: a persistent sequence, kept as a tree of chunks.
//!
//! Copies share everything, changes copy one path. Reading, changing, cutting and searching take time in the logarithm
//! of the length; recursion follows the height of the tree (six for a billion items), never the depth of the data.
//! What is dropped is taken apart by a loop, so a value nested a million levels deep needs no stack.

use std::cmp::Ordering;
use std::sync::Arc;

use super::deep_drop::{self, Debris};

/// Items in a leaf, children in a branch: small enough to copy, large enough to scan quickly.
pub(super) const WIDTH: usize = 32;

/// What a tree can hold.
pub(crate) trait TreeItem: Clone {
    /// Moves whatever this item owns that could be nested deeply to `heap`.
    fn dismantle(&mut self, heap: &mut Vec<Debris>);
    /// A node of such items, as something to be taken apart later.
    fn debris(node: Arc<TreeNode<Self>>) -> Debris;
}

/// A persistent sequence of items.
pub(crate) struct Tree<T: TreeItem> {
    pub(super) root: Option<Arc<TreeNode<T>>>,
}

/// A chunk of items, or of further nodes with the number of items below each.
#[derive(Clone)]
pub(crate) enum TreeNode<T: TreeItem> {
    Leaf(Vec<T>),
    Branch(Vec<TreeChild<T>>),
}

#[derive(Clone)]
pub(crate) struct TreeChild<T: TreeItem> {
    pub(super) count: usize,
    pub(super) node: Arc<TreeNode<T>>,
}

impl<T: TreeItem> Clone for Tree<T> {
    fn clone(&self) -> Self {
        Tree { root: self.root.clone() }
    }
}

impl<T: TreeItem> Default for Tree<T> {
    fn default() -> Self {
        Tree { root: None }
    }
}

impl<T: TreeItem> TreeNode<T> {
    pub(super) fn count(&self) -> usize {
        match self {
            TreeNode::Leaf(items) => items.len(),
            TreeNode::Branch(children) => children.iter().map(|child| child.count).sum(),
        }
    }

    /// The items of a leaf.
    #[inline]
    pub(crate) fn items(&self) -> &[T] {
        if let TreeNode::Leaf(items) = self { items } else { &[] }
    }

    /// The parts of this node, for measuring memory.
    pub(crate) fn parts(&self) -> (&[T], impl Iterator<Item = &Arc<TreeNode<T>>>) {
        let (items, children): (&[T], &[TreeChild<T>]) = match self {
            TreeNode::Leaf(items) => (items, &[]),
            TreeNode::Branch(children) => (&[], children),
        };
        (items, children.iter().map(|child| &child.node))
    }

    pub(crate) fn dismantle(&mut self, heap: &mut Vec<Debris>) {
        match self {
            TreeNode::Leaf(items) => items.iter_mut().for_each(|item| item.dismantle(heap)),
            TreeNode::Branch(children) => heap.extend(children.drain(..).map(|child| T::debris(child.node))),
        }
    }
}

impl<T: TreeItem> Drop for TreeNode<T> {
    fn drop(&mut self) {
        let mut heap = Vec::new();
        self.dismantle(&mut heap);
        deep_drop::clear(heap);
    }
}

impl<T: TreeItem> TreeChild<T> {
    pub(super) fn new(node: TreeNode<T>) -> Self {
        TreeChild { count: node.count(), node: Arc::new(node) }
    }
}

/// Which child holds the item at `index`, and where in it; an index past the end is in the last child.
pub(super) fn locate<T: TreeItem>(children: &[TreeChild<T>], mut index: usize) -> (usize, usize) {
    let last = children.len().saturating_sub(1);
    for (at, child) in children.iter().enumerate() {
        if index < child.count || at == last {
            return (at, index);
        }
        index -= child.count;
    }
    (0, index)
}

impl<T: TreeItem> Tree<T> {
    pub(crate) fn len(&self) -> usize {
        self.root.as_ref().map_or(0, |root| root.count())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Whether both are one and the same in memory.
    pub(crate) fn same(&self, other: &Self) -> bool {
        match (&self.root, &other.root) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }

    pub(crate) fn root(&self) -> Option<&Arc<TreeNode<T>>> {
        self.root.as_ref()
    }

    pub(crate) fn take_root(&mut self) -> Option<Arc<TreeNode<T>>> {
        self.root.take()
    }

    pub(crate) fn get(&self, mut index: usize) -> Option<&T> {
        let mut node: &TreeNode<T> = self.root.as_deref()?;
        loop {
            match node {
                TreeNode::Leaf(items) => return items.get(index),
                TreeNode::Branch(children) => {
                    let (at, within) = locate(children, index);
                    index = within;
                    node = &children.get(at)?.node;
                }
            }
        }
    }

    pub(crate) fn first(&self) -> Option<&T> {
        first_of(self.root.as_deref()?)
    }

    /// The leaf that holds the item at `index`, and where in it.
    pub(crate) fn leaf(&self, mut index: usize) -> Option<(Arc<TreeNode<T>>, usize)> {
        let mut node = self.root.as_ref()?;
        loop {
            match &**node {
                TreeNode::Leaf(items) => return (index < items.len()).then(|| (Arc::clone(node), index)),
                TreeNode::Branch(children) => {
                    let (at, within) = locate(children, index);
                    index = within;
                    node = &children.get(at)?.node;
                }
            }
        }
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The item at `index`, to be changed; what others share is copied first.
    pub(crate) fn get_mut(&mut self, mut index: usize) -> Option<&mut T> {
        let mut node: &mut TreeNode<T> = Arc::make_mut(self.root.as_mut()?);
        loop {
            match node {
                TreeNode::Leaf(items) => return items.get_mut(index),
                TreeNode::Branch(children) => {
                    let (at, within) = locate(children, index);
                    index = within;
                    node = Arc::make_mut(&mut children.get_mut(at)?.node);
                }
            }
        }
    }

    /// Where an item stands by `order`, which tells how an item of this sorted tree compares to the one looked for:
    /// `Ok` with its index, or `Err` with the index it would have.
    pub(crate) fn search(&self, mut order: impl FnMut(&T) -> Ordering) -> Result<usize, usize> {
        let Some(mut node) = self.root.as_deref() else { return Err(0) };
        let mut before = 0;
        loop {
            match node {
                TreeNode::Leaf(items) => {
                    let (mut low, mut high) = (0, items.len());
                    while low < high {
                        let middle = usize::midpoint(low, high);
                        let Some(item) = items.get(middle) else { break };
                        match order(item) {
                            Ordering::Equal => return Ok(before + middle),
                            Ordering::Less => low = middle + 1,
                            Ordering::Greater => high = middle,
                        }
                    }
                    return Err(before + low);
                }
                TreeNode::Branch(children) => {
                    // The last child whose first item is not beyond the one looked for.
                    let (mut low, mut high) = (1, children.len());
                    while low < high {
                        let middle = usize::midpoint(low, high);
                        let first = children.get(middle).and_then(|child| first_of(&child.node));
                        match first.map(&mut order) {
                            Some(Ordering::Greater) | None => high = middle,
                            Some(_) => low = middle + 1,
                        }
                    }
                    before += children.iter().take(low - 1).map(|child| child.count).sum::<usize>();
                    let Some(child) = children.get(low - 1) else { return Err(before) };
                    node = &child.node;
                }
            }
        }
    }

    pub(crate) fn iter(&self) -> Iter<'_, T> {
        let mut iter = Iter { path: Vec::new(), leaf: [].iter() };
        if let Some(root) = &self.root {
            iter.descend(root);
        }
        iter
    }
}

impl<T: TreeItem> FromIterator<T> for Tree<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        let mut leaf: Vec<T> = items.by_ref().take(WIDTH).collect();
        if leaf.len() < WIDTH {
            return Tree { root: (!leaf.is_empty()).then(|| Arc::new(TreeNode::Leaf(leaf))) };
        }
        let mut level: Vec<TreeChild<T>> = Vec::new();
        while !leaf.is_empty() {
            level.push(TreeChild { count: leaf.len(), node: Arc::new(TreeNode::Leaf(leaf)) });
            leaf = items.by_ref().take(WIDTH).collect();
        }
        while level.len() > 1 {
            let mut above = Vec::with_capacity(level.len() / WIDTH + 1);
            let mut below = level.into_iter();
            loop {
                let children: Vec<TreeChild<T>> = below.by_ref().take(WIDTH).collect();
                if children.is_empty() {
                    break;
                }
                above.push(TreeChild::new(TreeNode::Branch(children)));
            }
            level = above;
        }
        Tree { root: level.pop().map(|child| child.node) }
    }
}

/// A list short enough to be a leaf is one, without being copied.
impl<T: TreeItem> From<Vec<T>> for Tree<T> {
    fn from(items: Vec<T>) -> Self {
        match items.len() {
            0 => Tree::default(),
            1..=WIDTH => Tree { root: Some(Arc::new(TreeNode::Leaf(items))) },
            _ => items.into_iter().collect(),
        }
    }
}

fn first_of<T: TreeItem>(mut node: &TreeNode<T>) -> Option<&T> {
    loop {
        match node {
            TreeNode::Leaf(items) => return items.first(),
            TreeNode::Branch(children) => node = &children.first()?.node,
        }
    }
}

/// The items of a tree, in order.
pub(crate) struct Iter<'t, T: TreeItem> {
    path: Vec<std::slice::Iter<'t, TreeChild<T>>>,
    leaf: std::slice::Iter<'t, T>,
}

impl<'t, T: TreeItem> Iter<'t, T> {
    fn descend(&mut self, mut node: &'t TreeNode<T>) {
        loop {
            match node {
                TreeNode::Leaf(items) => {
                    self.leaf = items.iter();
                    return;
                }
                TreeNode::Branch(children) => {
                    let mut children = children.iter();
                    let Some(first) = children.next() else { return };
                    self.path.push(children);
                    node = &first.node;
                }
            }
        }
    }
}

impl<'t, T: TreeItem> Iterator for Iter<'t, T> {
    type Item = &'t T;

    fn next(&mut self) -> Option<&'t T> {
        loop {
            if let Some(item) = self.leaf.next() {
                return Some(item);
            }
            match self.path.last_mut()?.next() {
                Some(child) => self.descend(&child.node),
                None => drop(self.path.pop()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;

    fn ints(tree: &Tree<Value>) -> Vec<i64> {
        tree.iter().map(|value| if let Value::Int(n) = value { *n } else { -1 }).collect()
    }

    fn tree(n: i64) -> Tree<Value> {
        (0..n).map(Value::Int).collect()
    }

    #[test]
    fn a_tree_behaves_like_a_list_under_every_change() {
        let mut seed = 7_u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below.max(1)
        };
        let (mut tree, mut list) = (tree(100), (0..100).collect::<Vec<i64>>());
        for step in 0..20_000 {
            let at = random(list.len() + 1);
            match random(5) {
                0 | 1 => {
                    tree.insert(at, Value::Int(step));
                    list.insert(at.min(list.len()), step);
                }
                2 if at < list.len() => {
                    tree.remove(at);
                    list.remove(at);
                }
                3 if list.len() > 3000 => {
                    let to = at + random(list.len() - at + 1);
                    tree = tree.slice(at, to);
                    list = list[at..to].to_vec();
                }
                _ => {
                    tree.push(Value::Int(step));
                    list.push(step);
                }
            }
            assert_eq!(tree.len(), list.len());
            if step % 500 == 0 {
                assert_eq!(ints(&tree), list, "after {step} steps");
                let at = random(list.len());
                assert!(matches!((tree.get(at), list.get(at)), (Some(Value::Int(a)), Some(b)) if a == b));
            }
        }
    }

    #[test]
    fn copies_do_not_see_each_others_changes() {
        let first = tree(1000);
        let mut second = first.clone();
        second.push(Value::Int(1000));
        if let Some(item) = second.get_mut(500) {
            *item = Value::Int(-5);
        }
        assert_eq!(ints(&first), (0..1000).collect::<Vec<_>>());
        assert_eq!(second.len(), 1001);
    }

    #[test]
    fn searching_finds_every_item_and_every_gap() {
        let tree: Tree<Value> = (0..5000).map(|n| Value::Int(n * 2)).collect();
        for wanted in -1..10_001 {
            let order = |item: &Value| if let Value::Int(n) = item { n.cmp(&wanted) } else { Ordering::Less };
            let expected = if wanted % 2 == 0 && (0..10_000).contains(&wanted) {
                Ok(wanted as usize / 2)
            } else {
                Err((wanted + 1).clamp(0, 10_000) as usize / 2)
            };
            assert_eq!(tree.search(order), expected, "{wanted}");
        }
    }
}
