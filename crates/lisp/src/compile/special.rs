//! The special forms by name.

use super::branch::BranchTest;
use super::thread::ThreadPosition;
use super::{CompileTask, Compiler, Op, TailPosition, VALUE};
use crate::builtin;
use crate::error::{Error, Fault, Reason};
use crate::read::{FormId, Items, Symbol};
use crate::value::Value;

/// Every special form, with its shape for people.
const SPECIAL: &[(&str, &str)] = &[
    ("def", "(def name docstring? value)"),
    ("defn", "(defn name docstring? [params] body…)"),
    ("defn-", "(defn- name docstring? [params] body…)"),
    ("defonce", "(defonce name value)"),
    ("let", "(let [name value …] body…)"),
    ("letfn", "(letfn [(name [params] body…) …] body…)"),
    ("fn", "(fn name? [params] body…)"),
    ("if", "(if condition then else?)"),
    ("if-not", "(if-not condition then else?)"),
    ("if-let", "(if-let [name value] then else?)"),
    ("if-some", "(if-some [name value] then else?)"),
    ("when", "(when condition body…)"),
    ("when-not", "(when-not condition body…)"),
    ("when-let", "(when-let [name value] body…)"),
    ("when-some", "(when-some [name value] body…)"),
    ("when-first", "(when-first [name coll] body…)"),
    ("cond", "(cond test value … :else value)"),
    ("condp", "(condp predicate value test result … default?)"),
    ("case", "(case value literal result … default?)"),
    ("do", "(do body…)"),
    ("loop", "(loop [name value …] body…)"),
    ("recur", "(recur value …)"),
    ("for", "(for [name coll :when test :let [name value] :while test …] body)"),
    ("doseq", "(doseq [name coll …] body…)"),
    ("dotimes", "(dotimes [name count] body…)"),
    ("and", "(and form …)"),
    ("or", "(or form …)"),
    ("->", "(-> value step…)"),
    ("->>", "(->> value step…)"),
    ("as->", "(as-> value name step…)"),
    ("cond->", "(cond-> value test step …)"),
    ("cond->>", "(cond->> value test step …)"),
    ("some->", "(some-> value step…)"),
    ("some->>", "(some->> value step…)"),
    ("quote", "(quote literal)"),
    ("var", "(var name)"),
    ("comment", "(comment anything…)"),
    ("where", "(where field-or-path operator? value?)"),
    ("all-of", "(all-of predicate…)"),
    ("any-of", "(any-of predicate…)"),
    ("none-of", "(none-of predicate…)"),
    ("pmap", "(pmap f coll …)"),
    ("pcalls", "(pcalls f …)"),
    ("return", "(return value)"),
    ("fail", "(fail value)"),
];

/// Forms of Clojure that are not here, with what to do instead.
const ABSENT: &[(&str, &str)] = &[
    ("defmacro", "there are no macros: write a function with defn"),
    ("try", "errors cannot be caught: test first, for example with nil? or contains?"),
    ("catch", "errors cannot be caught: test first, for example with nil? or contains?"),
    ("throw", "end the program with (fail reason)"),
    ("ns", "there are no namespaces to declare: leave it out"),
    ("require", "everything is loaded already: str/, set/, walk/, json/ and math/ are there"),
    ("import", "everything is loaded already: LocalDate/parse and Math/sqrt are there"),
    ("new", "no objects can be made: use maps and functions"),
    ("set!", "values never change: use let, loop or reduce"),
];

/// How long the special forms are that begin with a byte, one bit for each length: it tells most names from them.
const LENGTHS: [u32; 256] = {
    let mut lengths = [0; 256];
    let mut at = 0;
    while at < SPECIAL.len() {
        let name = SPECIAL[at].0.as_bytes();
        lengths[name[0] as usize] |= 1 << name.len();
        at += 1;
    }
    lengths
};

/// The special form of a name.
fn find(name: &str) -> Option<&'static str> {
    let first = name.as_bytes().first().copied().unwrap_or_default();
    let lengths = LENGTHS[usize::from(first)];
    if name.len() >= 32 || lengths & (1 << name.len()) == 0 {
        return None;
    }
    SPECIAL.iter().map(|(special, _)| *special).find(|special| *special == name)
}

/// Whether a name belongs to a special form.
pub(crate) fn is_special(name: &str) -> bool {
    find(name).is_some()
}

/// The special forms and their shapes, in the order of the reference.
pub(crate) fn special_forms() -> &'static [(&'static str, &'static str)] {
    SPECIAL
}

impl Compiler<'_> {
    /// Compiles a special form; `None` if the name belongs to none.
    pub(super) fn special(
        &mut self,
        symbol: Symbol,
        id: FormId,
        arguments: Items,
        place: TailPosition,
    ) -> Option<Result<(), Fault>> {
        let span = self.forms.span(id);
        let written = self.forms.symbols.text(symbol);
        let Some(name) = find(written) else {
            let (name, hint) = ABSENT.iter().find(|(name, _)| *name == written)?;
            let error = Error::new(Reason::InvalidForm, format!("{name} is not supported")).hint(*hint);
            return Some(Err(self.fault(id, error)));
        };
        // For the rarer forms, a copy of the list is no matter.
        let forms = || self.forms.items(arguments).to_vec();
        Some(match name {
            "def" | "defonce" => self.def(id, name, arguments),
            "defn" | "defn-" => self.defn(id, arguments),
            "let" => self.let_form(id, arguments, place),
            "letfn" => self.letfn(id, arguments, place),
            "fn" => self.fn_form(id, arguments),
            "if" => self.if_form(id, arguments, true, place),
            "if-not" => self.if_form(id, arguments, false, place),
            "when" => self.when_form(id, arguments, true, place),
            "when-not" => self.when_form(id, arguments, false, place),
            "if-let" | "when-let" => self.bound_choice(id, name, arguments, BranchTest::Truthy, place),
            "if-some" | "when-some" => self.bound_choice(id, name, arguments, BranchTest::NotNil, place),
            "when-first" => self.bound_choice(id, name, arguments, BranchTest::First, place),
            "cond" => self.cond(id, &forms(), place),
            "condp" => self.condp(id, &forms(), place),
            "case" => self.case(id, &forms(), place),
            "do" => {
                let from = self.tasks.len();
                self.add_body(arguments, place, span);
                self.turn(from);
                Ok(())
            }
            "loop" => self.loop_form(id, arguments, place),
            "recur" => self.recur(id, arguments, place),
            "for" | "doseq" => self.comprehension(id, name, arguments),
            "dotimes" => self.dotimes(id, arguments),
            "and" | "or" => {
                self.and_or(id, name, &forms(), place);
                Ok(())
            }
            "->" => self.thread(id, &forms(), ThreadPosition::First, place),
            "->>" => self.thread(id, &forms(), ThreadPosition::Last, place),
            "as->" => self.thread_as(id, &forms(), place),
            "cond->" => self.thread_cond(id, name, &forms(), ThreadPosition::First),
            "cond->>" => self.thread_cond(id, name, &forms(), ThreadPosition::Last),
            "some->" => self.thread_some(id, &forms(), ThreadPosition::First),
            "some->>" => self.thread_some(id, &forms(), ThreadPosition::Last),
            "quote" => match *self.forms.items(arguments) {
                [quoted] => self.quoted(quoted, span),
                _ => self.misshapen(id, name),
            },
            "var" => match *self.forms.items(arguments) {
                [target] => self.var(id, target),
                _ => self.misshapen(id, name),
            },
            "comment" => {
                self.emit(Op::Nil, span);
                Ok(())
            }
            "where" => self.where_form(id, arguments),
            "all-of" | "any-of" | "none-of" => self.call_builtin(id, name, arguments),
            "return" | "fail" if arguments.len() == 1 => {
                self.queue_values(
                    arguments,
                    if name == "return" { Op::EndReturn } else { Op::EndFail },
                    span,
                );
                Ok(())
            }
            "pmap" | "pcalls" if name == "pcalls" || arguments.len() > 1 => {
                self.count(id, arguments.len()).map(|count| {
                    let op = if name == "pmap" { Op::Pmap(count) } else { Op::Pcalls(count) };
                    self.queue_values(arguments, op, span);
                })
            }
            _ => self.misshapen(id, name),
        })
    }

    fn misshapen(&self, id: FormId, name: &str) -> Result<(), Fault> {
        let shape = SPECIAL.iter().find(|(special, _)| *special == name).map_or("", |(_, shape)| shape);
        self.fail(id, Reason::InvalidForm, format!("expected {shape}"))
    }

    fn call_builtin(&mut self, id: FormId, name: &str, arguments: Items) -> Result<(), Fault> {
        let count = self.count(id, arguments.len())?;
        let Some(builtin) = builtin::find(name) else { return self.misshapen(id, name) };
        self.queue_values(arguments, Op::CallBuiltin(builtin, count), self.forms.span(id));
        Ok(())
    }

    /// `(where field)` or `(where field operator value)`.
    fn where_form(&mut self, id: FormId, arguments: Items) -> Result<(), Fault> {
        const OPERATORS: &[&str] = &["=", "not=", ">", "<", ">=", "<=", "includes", "in"];
        let span = self.forms.span(id);
        let Some(builtin) = builtin::find("where") else { return self.misshapen(id, "where") };
        match *self.forms.items(arguments) {
            [_] => self.queue_values(arguments, Op::CallBuiltin(builtin, 1), span),
            [field, operator, value] => {
                let name = self.forms.symbol(operator).or_else(|| self.forms.keyword(operator));
                let Some(name) = name.filter(|name| OPERATORS.contains(name)) else {
                    let found = name.unwrap_or("this");
                    let message = format!("where knows {}, not {found}", OPERATORS.join(" "));
                    return self.fail(operator, Reason::InvalidWhereOperator, message);
                };
                let operator = Value::keyword(name);
                let operator = self.constant(operator);
                self.queue([
                    CompileTask::Form(field, VALUE),
                    CompileTask::Emit(Op::Const(operator), span),
                    CompileTask::Form(value, VALUE),
                    CompileTask::Emit(Op::CallBuiltin(builtin, 3), span),
                ]);
            }
            _ => {
                let message = "expected (where field) or (where field operator value)";
                return self.fail(id, Reason::InvalidWhereForm, message);
            }
        }
        Ok(())
    }
}
