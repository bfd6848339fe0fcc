//! Calls and their results: AN-3 to AN-9, and the paused turn of AN-18.
//!
//! Turns are judged as the provider sees them, with consecutive messages of one role merged.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::finding::{Findings, RequestPath};
use super::request::{AnthropicBlock, AnthropicRequest, AnthropicRole, RoleRun, Type};

pub(super) fn check(request: &AnthropicRequest<'_>, found: &mut Findings) {
    let mut calls = Calls::default();
    let mut server = ServerCalls::default();
    for (number, turn) in request.turns.iter().enumerate() {
        if turn.role == AnthropicRole::User {
            // What the first results of a continued thread answer is with the provider.
            let origin =
                if number == 0 && request.continues_thread() { CallOrigin::Thread } else { CallOrigin::List };
            let results = read_results(request, turn, origin, &mut calls, found);
            calls.finish(found);
            if results == 0 {
                server.closed_before = number;
            }
        } else {
            calls.finish(found);
            read_calls(request, turn, number, &mut calls, &mut server, found);
            let next = request.turns.get(number + 1);
            if next.is_some_and(|next| next.role == AnthropicRole::User) && calls.asked.is_empty() {
                check_pause(request, turn, &server, found);
            }
        }
        request.blocks(turn).for_each(|block| check_id(block, found));
    }
    calls.finish(found);
}

/// The calls of one turn, which the next one answers.
#[derive(Default)]
struct Calls<'r> {
    asked: Vec<(&'r str, RequestPath)>,
    /// Whether a result was seen, by id.
    answered: HashMap<&'r str, bool>,
}

impl<'r> Calls<'r> {
    fn ask(&mut self, id: Option<&'r str>, place: RequestPath, found: &mut Findings) {
        let Some(id) = id else {
            found.add("AN-3", place, "a call without an id cannot be answered; give it one, and a result");
            return;
        };
        match self.answered.entry(id) {
            Entry::Occupied(_) => {
                found.add("AN-6", place, "a second call of this turn has the same id; give each its own");
            }
            Entry::Vacant(entry) => {
                entry.insert(false);
                self.asked.push((id, place));
            }
        }
    }

    /// Reports what was left unanswered, and starts anew.
    fn finish(&mut self, found: &mut Findings) {
        let Calls { asked, answered } = std::mem::take(self);
        for (id, place) in asked {
            if answered.get(id) == Some(&false) {
                found.add("AN-3", place, "the call has no result in the message after it; add one there");
            }
        }
    }
}

/// Where the calls before a turn are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallOrigin {
    List,
    Thread,
}

/// Matches the results of a user turn with the calls before it; how many results there are.
fn read_results<'r>(
    request: &'r AnthropicRequest<'_>,
    turn: &RoleRun,
    origin: CallOrigin,
    calls: &mut Calls<'r>,
    found: &mut Findings,
) -> usize {
    let mut results = 0;
    let mut after_others = false;
    for block in request.blocks(turn) {
        if block.kind == Type::Call {
            found.add("AN-3", block.place, "a call in a user message; only the assistant makes calls");
        }
        if block.kind != Type::Result {
            after_others = true;
            continue;
        }
        results += 1;
        match block.id.as_deref().and_then(|id| calls.answered.get_mut(id)) {
            Some(answered @ false) => {
                *answered = true;
                if after_others {
                    let message = "the result stands after other content; put all results first";
                    found.add("AN-4", block.place, message);
                }
            }
            Some(true) => {
                found.add("AN-7", block.place, "a second result for the same call; keep one");
            }
            None if origin == CallOrigin::Thread => {}
            None => {
                let message = "the result answers no call of the message before it; leave it out";
                found.add("AN-5", block.place, message);
            }
        }
    }
    results
}

/// The calls the provider runs itself.
#[derive(Default)]
struct ServerCalls<'r> {
    /// The turn of a call, and whether its result has come.
    calls: HashMap<&'r str, (usize, bool)>,
    /// The last turn in which the user spoke, and did not only hand in results: what ran before it is over.
    closed_before: usize,
}

impl ServerCalls<'_> {
    /// Whether a result of this turn has a call. Code the provider runs may wait for results of the client, and then
    /// end in a later message.
    fn finish(&mut self, id: Option<&str>, turn: usize) -> bool {
        let Some((asked, finished)) = id.and_then(|id| self.calls.get_mut(id)) else { return false };
        let open = *asked == turn || (!*finished && *asked >= self.closed_before);
        *finished = true;
        open
    }
}

fn read_calls<'r>(
    request: &'r AnthropicRequest<'_>,
    turn: &RoleRun,
    number: usize,
    calls: &mut Calls<'r>,
    server: &mut ServerCalls<'r>,
    found: &mut Findings,
) {
    for block in request.blocks(turn) {
        let id = block.id.as_deref();
        match block.kind {
            Type::Call => calls.ask(id, block.place, found),
            Type::Result => {
                found.add("AN-5", block.place, "a result belongs in the user message after its call");
            }
            Type::ServerCall => {
                if let Some(id) = id {
                    server.calls.insert(id, (number, false));
                }
            }
            Type::ServerResult if !server.finish(id, number) => {
                let message = "a server tool's result without its call before it; keep both or neither";
                found.add("AN-9", block.place, message);
            }
            _ => {}
        }
    }
}

fn check_pause(
    request: &AnthropicRequest<'_>,
    turn: &RoleRun,
    server: &ServerCalls<'_>,
    found: &mut Findings,
) {
    let Some(last) = request.blocks(turn).next_back().filter(|block| block.kind == Type::ServerCall) else {
        return;
    };
    let finished = last.id.as_deref().and_then(|id| server.calls.get(id)).is_some_and(|(_, done)| *done);
    if !finished {
        let message = "the turn paused here; send it back as it is, without a user message after it";
        found.add("AN-18", last.place, message);
    }
}

fn check_id(block: &AnthropicBlock<'_>, found: &mut Findings) {
    if !matches!(block.kind, Type::Call | Type::Result | Type::ServerCall | Type::ServerResult) {
        return;
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if block.id.as_deref().is_some_and(|id| id.is_empty() || !id.bytes().all(allowed)) {
        found.add(
            "AN-8",
            block.place,
            "an id may have letters, digits, `_` and `-` only; rename it on both sides",
        );
    }
}
