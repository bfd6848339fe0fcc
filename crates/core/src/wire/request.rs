//! What is really sent: rendered, checked, and repaired where the check finds something.

use std::collections::{HashMap, HashSet};

use super::check::{CheckOptions, Size, Strictness, Violation, check_made};
use super::render::{self, Own, list_key, system_key, tools_key};
use super::repair::repair_if;
use super::replies::Replies;
use super::{Body, Checked, LeftOut, ParseOptions, Purpose, RenderOptions, Rendered, Wire};
use crate::context::CurationContext;
use crate::entry::Entry;
use crate::json::{self, Raw};
use crate::record::Record;
use crate::view::{Reason, View, ViewItem};

/// Rules about how a conversation ends or how long it is: the caller decides that.
const CALLERS: [&str; 7] = ["AN-12", "AN-13", "AN-21", "GE-5", "OC-12", "OC-13", "OR-19"];

impl View<'_> {
    /// The view as messages of a wire, ready to be sent: they pass the check of their provider's rules.
    ///
    /// ```
    /// use scrollback_core::{CurationContext, Entry, Record, Role, manager, wire::Wire};
    /// let mut record = Record::new();
    /// record.append(Entry::text(Role::System, "Be brief."))?;
    /// record.append(Entry::text(Role::User, "What is 6 x 7?").stamped(uuid::Uuid::nil(), 1, Default::default()))?;
    ///
    /// let cx = CurationContext::default();
    /// let request = record.view(&cx, &*manager::parse("sliding_window(20)")?)?.render(Wire::Anthropic, &cx);
    /// assert_eq!(request.system.as_deref(), Some(r#""Be brief.""#));
    /// assert_eq!(request.messages, [r#"{"role":"user","content":"What is 6 x 7?"}"#]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn render(&self, wire: Wire, cx: &CurationContext) -> Rendered {
        let options = RenderOptions {
            purpose: Purpose::Send,
            model: cx.model.as_ref(),
            tools: cx.tools.as_ref(),
            manual_thinking: false,
            record: Some(self.record()),
        };
        wire.request(self.items(), options, None)
    }
}

impl Wire {
    /// Prints entries as messages that this wire's provider accepts, in the request they are for.
    ///
    /// What was invalid from the start is repaired, and listed under `repairs`.
    pub fn request(
        self,
        items: impl IntoIterator<Item = ViewItem>,
        options: RenderOptions<'_>,
        around: Option<&Body>,
    ) -> Rendered {
        self.request_with(items.into_iter().collect(), options, around, |_| {})
    }

    /// The same, with something done to the messages before they are checked.
    pub(crate) fn request_with(
        self,
        items: Vec<ViewItem>,
        options: RenderOptions<'_>,
        around: Option<&Body>,
        dress: impl Fn(&mut [String]),
    ) -> Rendered {
        let options = RenderOptions { purpose: Purpose::Send, ..options };
        let sent = |items: Vec<ViewItem>, edited: Option<u64>| {
            let mut rendered = render::render(self, items, options, Own::Repaired { edited, replies: None });
            dress(&mut rendered.messages);
            rendered.repaired(self, options, around)
        };
        let again = render::binds(self, options).then(|| items.clone());
        let rendered = sent(items, None);
        // A repair is an edit too: reasoning bound to it goes, as it does behind any other.
        let repaired = rendered.left_out.iter().find(|left| left.reason == Reason::Repaired);
        match (repaired.filter(|_| !rendered.repairs.is_empty()), again) {
            (Some(first), Some(items)) => sent(items, Some(first.position)),
            _ => rendered,
        }
    }
}

impl Rendered {
    /// The request as it was checked by [`Wire::request`], which then need be neither printed nor checked again; none if
    /// it was repaired, or not checked.
    pub fn take_checked(&mut self) -> Option<Checked> {
        self.checked.take()
    }

    /// The replies of a provider among the entries that are sent.
    pub(crate) fn replies(&self, wire: Wire, record: &Record) -> Replies {
        let entries = self.sources.iter().flatten().filter_map(|position| record.entry(*position));
        Replies::of(wire, entries.map(AsRef::as_ref))
    }

    /// The same with everything repaired that the check finds in it.
    fn repaired(mut self, wire: Wire, options: RenderOptions<'_>, around: Option<&Body>) -> Self {
        let text = self.body(wire, around);
        // Its parts are JSON; together they may be nested deeper than readers accept.
        let body = if self.is_shallow() {
            Raw::trusted(&text)
        } else {
            let Ok(body) = json::check(&text) else { return self };
            body
        };
        // How large it may be is judged where its window and the calibrated count are known, and then by its provider.
        let record = options.record;
        let options = CheckOptions { model: options.model, size: Size::NotJudged, ..CheckOptions::default() };
        let list = format!("/{}", list_key(wire));
        let matters = |violation: &Violation| {
            violation.is_fatal(Strictness::Strict)
                && violation.path.starts_with(&list)
                && !CALLERS.contains(&violation.rule)
        };
        let offered = match around {
            Some(Body::Object { raw, .. }) => Raw::trusted(raw).get(tools_key(wire)),
            _ => None,
        };
        let tools = offered.or(self.tools.as_deref().map(Raw::trusted));
        let messages = self.messages.iter().map(|message| Raw::trusted(message));
        let violations = check_made(wire, body, messages, tools, options);
        if !violations.iter().any(matters) {
            self.checked = Some(Checked { body: text, violations });
            return self;
        }
        let replies = record.map(|record| self.replies(wire, record)).unwrap_or_default();
        let repaired = repair_if(wire, body, options, &replies, &matters);
        if repaired.repairs.is_empty() && repaired.left.is_empty() {
            let violations = replies.without_exempt(wire, body, violations);
            self.checked = Some(Checked { body: text, violations });
            return self;
        }
        if let Ok(body) = json::check(&repaired.body) {
            let before = std::mem::take(&mut self.messages);
            self.take(wire, body);
            self.explain_repairs(wire, &before);
            self.repairs = repaired.repairs;
            let beyond = json::one_line(Raw::trusted(&self.body(wire, around))) != json::one_line(body);
            self.whole = beyond.then(|| repaired.body.clone());
        }
        self
    }

    /// Whether it is plain without reading it that no message in a request is nested too deeply. What stands around them
    /// was read when they were put into it.
    fn is_shallow(&self) -> bool {
        // Tools come from the client, which may not have checked them.
        let tools =
            self.tools.as_deref().is_none_or(|tools| json::is_shallow(tools) && json::check(tools).is_ok());
        let own = self.system.iter().chain(&self.messages);
        tools && self.whole.is_none() && own.map(String::as_str).all(json::is_shallow)
    }

    /// Notes the entries whose messages are not what they were before the repair, and those that have none any more.
    fn explain_repairs(&mut self, wire: Wire, before: &[String]) {
        let mut after = self.messages.iter().peekable();
        let mut kept: HashMap<&str, usize> = HashMap::new();
        for message in &self.messages {
            *kept.entry(message).or_default() += 1;
        }
        let said: HashSet<&str> = before.iter().map(String::as_str).collect();
        let mut explained = Vec::new();
        for (message, sources) in before.iter().zip(self.sources.iter()) {
            if let Some(left @ 1..) = kept.get_mut(message.as_str()) {
                *left -= 1;
                after.by_ref().find(|other| *other == message);
                continue;
            }
            // What stands in its place now: the next message that was not there before.
            let stands = after.next_if(|other| !said.contains(other.as_str()));
            let chars = |message: &String| texts(wire, message);
            let chars = (chars(message), stands.map_or(0, chars));
            explained.extend(sources.iter().map(|&position| LeftOut {
                position,
                reason: Reason::Repaired,
                whole: stands.is_none(),
                chars,
            }));
        }
        self.left_out.extend(explained);
        self.left_out.sort_by_key(|left| left.position);
        self.left_out.dedup_by_key(|left| left.position);
    }

    /// Takes messages and fields from a body.
    fn take(&mut self, wire: Wire, body: Raw<'_>) {
        let list = if body.kind() == json::JsonKind::Array { Some(body) } else { body.get(list_key(wire)) };
        let line = |value: Raw<'_>| json::one_line(value).into_owned();
        self.messages = list.into_iter().flat_map(Raw::elements).map(line).collect();
        if self.tools.is_none() || body.get(tools_key(wire)).is_some() {
            self.tools = body.get(tools_key(wire)).map(line);
        }
        if let Some(key) = system_key(wire) {
            self.system = body.get(key).map(line).or_else(|| self.system.take());
        }
    }
}

/// Length of the texts of one message in Unicode scalar values.
fn texts(wire: Wire, message: &str) -> usize {
    let list = format!("[{message}]");
    let parsed = json::check(&list).ok().and_then(|list| wire.parse(list, &ParseOptions::default()).ok());
    parsed.map_or(0, |parsed| parsed.entries.iter().map(Entry::chars).sum())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::context::Unfinished;
    use crate::manager::Passthrough;

    #[test]
    fn what_is_too_deep_or_no_json_is_never_taken_for_checked() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let checked = |message: String, raw: String| {
            let list = format!("[{message}]");
            let parsed = Wire::OpenaiChat.parse(json::check(&list).ok()?, &ParseOptions::default()).ok()?;
            let record = parsed.into_record().ok()?;
            let cx = CurationContext::default();
            let items: Vec<ViewItem> = record.view(&cx, &Passthrough).ok()?.items().collect();
            let around = Body::Object { raw: raw.into(), key: "messages" };
            let options = RenderOptions { record: Some(&record), ..RenderOptions::default() };
            let found = Wire::OpenaiChat.request(items, options, Some(&around)).take_checked()?;
            assert!(json::check(&found.body).is_ok(), "{}", found.body);
            Some((found.body.contains("said"), found.body.contains("extra")))
        };
        let plain = || r#"{"role":"user","content":"said"}"#.to_string();
        let body = |rest: &str| format!(r#"{{"model":"gpt-4o","messages":[]{rest}}}"#);
        assert_eq!(checked(plain(), body("")), Some((true, false)));
        for depth in 110..=json::MAX_DEPTH + 4 {
            let deep = nested(depth);
            let message = format!(r#"{{"role":"user","content":"said","x":{deep}}}"#);
            let inside = checked(message, body("")).is_some();
            assert_eq!(inside, depth + 3 <= json::MAX_DEPTH, "a message {depth} deep");
            let around = checked(plain(), body(&format!(r#","extra":{deep}"#)));
            assert_eq!(around, Some((true, depth < json::MAX_DEPTH)), "a body {depth} deep");
        }
        // What is no JSON cannot stand around the messages.
        for broken in [r#","extra":"#, r#","extra":tru"#, r#","extra":"\ud800""#, "}{"] {
            assert_eq!(checked(plain(), body(broken)), Some((true, false)), "{broken}");
        }
    }

    #[test]
    fn calls_of_one_id_are_told_apart_with_their_results() {
        let call = r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#;
        let list = format!(
            r#"[{{"role":"user","content":"x"}},{{"role":"assistant","tool_calls":[{call},{call}]}}]"#
        );
        let parsed = Wire::OpenaiChat.parse(json::check(&list).unwrap(), &ParseOptions::default()).unwrap();
        let record = parsed.into_record().unwrap();
        let cx = CurationContext { unfinished: Unfinished::Close, ..CurationContext::default() };
        let rendered = record.view(&cx, &Passthrough).unwrap().render(Wire::Anthropic, &cx);
        let found = |word: &str| rendered.messages.concat().matches(word).count();
        assert_eq!((found("tool_use\""), found("tool_result\"")), (2, 2), "{:?}", rendered.messages);
        assert_eq!((found("\"id\":\"a_2\""), found("\"tool_use_id\":\"a_2\"")), (1, 1));
        assert!(rendered.repairs.is_empty());
    }
}
