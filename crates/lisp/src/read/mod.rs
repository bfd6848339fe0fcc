//! The reader: text to forms, with the place of everything.
//!
//! It works through the text with a list of what is open, so nesting costs no stack. What cannot be read is named with
//! its line and column, and a bracket that does not fit with the one it was to close.

mod form;
mod position;
mod symbol;
mod token;

use std::collections::BTreeSet;

pub(crate) use form::{Form, FormId, Forms, Items, SourceSpan};
pub(crate) use position::position;
use symbol::Recent;
pub(crate) use symbol::Symbol;
pub(crate) use token::is_keyword;
use token::{Bracket, LispToken, TokenReader};

use crate::error::{Error, Fault, Reason};
use crate::value::Value;
use crate::value::text::shorten;

/// Forms nested deeper than this are refused: no real program needs it.
const MAX_NESTING: usize = 500;
/// Bytes of source.
const MAX_SOURCE: usize = 1 << 20;

/// Something that waits for its end.
struct OpenForm {
    kind: Opener,
    at: usize,
    /// How many forms were waiting for their bracket before it.
    before: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Opener {
    List,
    Vector,
    Map,
    Set,
    Lambda,
    /// Waits for exactly one form.
    Quote,
    VarQuote,
    Discard,
}

impl Opener {
    fn text(self) -> &'static str {
        match self {
            Opener::List => "(",
            Opener::Vector => "[",
            Opener::Map => "{",
            Opener::Set => "#{",
            Opener::Lambda => "#(",
            Opener::Quote => "'",
            Opener::VarQuote => "#'",
            Opener::Discard => "#_",
        }
    }

    fn close(self) -> Option<char> {
        match self {
            Opener::List | Opener::Lambda => Some(')'),
            Opener::Vector => Some(']'),
            Opener::Map | Opener::Set => Some('}'),
            Opener::Quote | Opener::VarQuote | Opener::Discard => None,
        }
    }
}

/// Reads all forms of a program.
pub(crate) fn read(source: &str) -> Result<Forms<'_>, Fault> {
    if source.len() > MAX_SOURCE {
        return Err(trouble("", 0, &format!("the source is longer than {MAX_SOURCE} bytes")));
    }
    let mut reader = FormReader {
        source,
        forms: Forms::for_source(source.len()),
        open: Vec::with_capacity(16),
        waiting: Vec::with_capacity(64),
        recent: Recent::default(),
    };
    let mut tokens = TokenReader::new(source);
    while let Some((token, at)) = tokens.next()? {
        reader.take(token, at, tokens.at())?;
    }
    reader.finish()?;
    Ok(reader.forms)
}

/// Whether a text ends in the middle of a form, so that more lines could complete it.
pub(crate) fn is_unfinished(source: &str) -> bool {
    match read(source) {
        Ok(_) => false,
        Err(error) => {
            error.message.ends_with("is never closed") || error.message.ends_with("needs a form after it")
        }
    }
}

/// A parse error at a byte of the source.
pub(crate) fn trouble(source: &str, at: usize, message: &str) -> Fault {
    let place = position(source, at);
    let mut error =
        Error::new(Reason::ParseError, format!("line {}, column {}: {message}", place.line, place.column));
    error.at = Some(place);
    let rest = source.get(at..).unwrap_or_default();
    error.form = Some(shorten(rest.lines().next().unwrap_or_default(), 20).into_owned());
    Box::new(error)
}

struct FormReader<'s> {
    source: &'s str,
    forms: Forms<'s>,
    open: Vec<OpenForm>,
    /// The forms inside open brackets, those of the innermost last.
    waiting: Vec<FormId>,
    recent: Recent,
}

impl<'s> FormReader<'s> {
    fn take(&mut self, token: LispToken<'s>, at: usize, end: usize) -> Result<(), Fault> {
        let form = match token {
            LispToken::Open(bracket) => {
                let opener = match bracket {
                    Bracket::Round => Opener::List,
                    Bracket::Square => Opener::Vector,
                    Bracket::Curly => Opener::Map,
                    Bracket::HashRound => Opener::Lambda,
                    Bracket::HashCurly => Opener::Set,
                };
                return self.start(opener, at);
            }
            LispToken::Quote => return self.start(Opener::Quote, at),
            LispToken::VarQuote => return self.start(Opener::VarQuote, at),
            LispToken::Discard => return self.start(Opener::Discard, at),
            LispToken::Close(close) => return self.close(close, at, end),
            LispToken::Literal(value) => Form::Literal(self.forms.constant(value)),
            LispToken::Keyword(text) => Form::Literal(self.keyword(text)),
            LispToken::Symbol(name) => Form::Symbol(self.forms.symbols.read(name, &mut self.recent)),
        };
        let id = self.forms.add(form, SourceSpan::new(at, end));
        self.complete(id);
        Ok(())
    }

    /// The constant of a keyword, the same wherever it is written.
    fn keyword(&mut self, text: &'s str) -> u32 {
        let symbol = self.forms.symbols.read(text, &mut self.recent);
        if let Some(Some(constant)) = self.forms.symbols.keyword(symbol) {
            return *constant;
        }
        let constant = self.forms.constant(Value::keyword(text));
        if let Some(known) = self.forms.symbols.keyword(symbol) {
            *known = Some(constant);
        }
        constant
    }

    fn start(&mut self, kind: Opener, at: usize) -> Result<(), Fault> {
        if self.open.len() >= MAX_NESTING {
            return Err(trouble(
                self.source,
                at,
                &format!("forms are nested deeper than {MAX_NESTING} levels"),
            ));
        }
        self.open.push(OpenForm { kind, at, before: self.waiting.len() });
        Ok(())
    }

    /// A form has been read; it belongs to whatever is open.
    fn complete(&mut self, id: FormId) {
        let mut id = id;
        while let Some(&OpenForm { kind, at, .. }) = self.open.last()
            && kind.close().is_none()
        {
            self.open.pop();
            let span = SourceSpan::new(at, self.forms.span(id).end as usize);
            id = match kind {
                Opener::Quote => self.forms.add(Form::Quote(id), span),
                Opener::VarQuote => self.forms.add(Form::VarQuote(id), span),
                _ => return, // discarded
            };
        }
        self.waiting.push(id);
    }

    fn close(&mut self, close: char, at: usize, end: usize) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else {
            return Err(trouble(
                self.source,
                at,
                &format!("{close} closes nothing: there is one bracket too many"),
            ));
        };
        match open.kind.close() {
            None => return Err(self.lonely(&open)),
            Some(expected) if expected != close => {
                let opened = position(self.source, open.at);
                let message = format!(
                    "{close} does not close {} opened at line {}, column {}",
                    open.kind.text(),
                    opened.line,
                    opened.column
                );
                return Err(trouble(self.source, at, &message));
            }
            Some(_) => {}
        }
        let items = self.forms.add_items(self.waiting.get(open.before..).unwrap_or_default());
        self.waiting.truncate(open.before);
        let form = match open.kind {
            Opener::Vector => Form::Vector(items),
            Opener::Map => {
                if items.len() % 2 == 1 {
                    let message =
                        format!("a map needs pairs of key and value, this one has {} forms", items.len());
                    return Err(trouble(self.source, open.at, &message));
                }
                self.no_duplicates(items, 2, "key")?;
                Form::Map(items)
            }
            Opener::Set => {
                self.no_duplicates(items, 1, "member")?;
                Form::Set(items)
            }
            Opener::Lambda => Form::Lambda(items),
            _ => Form::List(items),
        };
        let id = self.forms.add(form, SourceSpan::new(open.at, end));
        self.complete(id);
        Ok(())
    }

    /// That no two of every so many forms are the same.
    fn no_duplicates(&self, items: Items, step: usize, what: &str) -> Result<(), Fault> {
        if items.len() <= step {
            return Ok(());
        }
        let (mut seen, mut names) = (BTreeSet::<Value>::new(), BTreeSet::new());
        for &id in self.forms.items(items).iter().step_by(step) {
            let new = match self.forms.symbol(id) {
                Some(name) => names.insert(name),
                None => self.forms.data(id).map_or(true, |value| seen.insert(value)),
            };
            if !new {
                let at = self.forms.span(id).start as usize;
                return Err(trouble(self.source, at, &format!("this {what} is there twice")));
            }
        }
        Ok(())
    }

    fn lonely(&self, open: &OpenForm) -> Fault {
        trouble(self.source, open.at, &format!("{} needs a form after it", open.kind.text()))
    }

    fn finish(&mut self) -> Result<(), Fault> {
        match self.open.pop() {
            None => {
                self.forms.top = self.forms.add_items(&self.waiting);
                Ok(())
            }
            Some(open) if open.kind.close().is_none() => Err(self.lonely(&open)),
            Some(open) => {
                Err(trouble(self.source, open.at, &format!("{} is never closed", open.kind.text())))
            }
        }
    }
}
