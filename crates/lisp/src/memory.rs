//! What a program leaves behind for the next: definitions, as a snapshot that is taken and copied in no time.

use std::borrow::Cow;
use std::sync::Arc;

use crate::value::tree::{Tree, TreeItem, TreeNode};
use crate::value::{Debris, Text, Value, Word};

/// One definition.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// Its value; none after `(def x)`.
    pub value: Option<Value>,
    /// Its docstring.
    pub doc: Option<Text>,
    /// The label of what its latest completed call returned, for a function that was called by its name.
    pub returns: Option<Cow<'static, str>>,
    /// The run that set it, counted from 1.
    pub run: u64,
}

impl Definition {
    /// The parameters of a function as written: `[x y]`, several arities with a space between.
    pub fn parameters(&self) -> Option<String> {
        match &self.value {
            Some(Value::Function(function)) => function.parameters(),
            _ => None,
        }
    }
}

/// All definitions of a session. Cloning is taking a snapshot: O(1), and nothing that happens later changes it.
///
/// ```
/// use scrollback_lisp::{Env, Memory, Program};
/// let first = Program::compile("(def x 20)")?.run(&mut Env::new());
/// let second = Program::compile("(+ x 1)")?.run(&mut Env::new().memory(&first.memory));
/// assert_eq!(second.value().map(|value| value.to_string()).as_deref(), Some("21"));
/// assert_eq!(Memory::default().len(), 0);
/// # Ok::<(), scrollback_lisp::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Memory {
    definitions: Tree<(Word, Definition)>,
    /// The highest id a function in here has.
    pub(crate) last_id: u64,
    /// How many programs have run on this memory.
    pub(crate) runs: u64,
}

impl Memory {
    /// How many definitions there are.
    pub fn len(&self) -> usize {
        self.definitions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }

    /// The definition of a name.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.definitions.get(self.find(name.as_bytes()).ok()?).map(|(_, definition)| definition)
    }

    /// All definitions, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.definitions.iter().map(|(name, definition)| (name.as_str(), definition))
    }

    /// Puts a definition, replacing one of that name.
    pub fn insert(&mut self, name: &str, definition: Definition) {
        self.put(name.into(), definition);
    }

    /// The same with a name that need not be copied.
    pub(crate) fn put(&mut self, name: Word, definition: Definition) {
        match self.find(name.as_bytes()) {
            Ok(at) => {
                if let Some(entry) = self.definitions.get_mut(at) {
                    entry.1 = definition;
                }
            }
            Err(at) => self.definitions.insert(at, (name, definition)),
        }
    }

    /// Puts definitions that are sorted by name, each of another.
    pub(crate) fn put_sorted(&mut self, made: Vec<(Word, Definition)>) {
        if self.is_empty() {
            // All at once, where nothing has to be searched.
            self.definitions = made.into();
        } else {
            for (name, definition) in made {
                self.put(name, definition);
            }
        }
    }

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.definitions.search(|(candidate, _)| candidate.as_bytes().cmp(name))
    }
}

impl TreeItem for (Word, Definition) {
    fn dismantle(&mut self, heap: &mut Vec<Debris>) {
        if let Some(value) = &mut self.1.value {
            value.dismantle(heap);
        }
    }

    fn debris(node: Arc<TreeNode<Self>>) -> Debris {
        Debris::Definitions(node)
    }
}
