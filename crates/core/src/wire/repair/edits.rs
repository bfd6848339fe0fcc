//! Repairs at the very place a rule complains about. Trouble between messages (who answers whom, who speaks
//! first) is not here: printing the coherent view repairs that.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::json::{self, Edit, Edits, JsonKind, Raw, quote};
use crate::wire::check::Violation;
use crate::wire::render::{UNSIGNED, ids, placeholder_tool, tool_name};
use crate::wire::replies::Replies;
use crate::wire::{Wire, list_key};

/// Longest texts some rules allow, in characters.
const MAX_CONTENT: usize = 10_485_760;
const MAX_DESCRIPTION: usize = 1024;

/// What a user says where the conversation must not end with the model.
const CONTINUE: &str = "Continue.";

/// The edits that repair what they can of these violations.
pub(super) fn local(wire: Wire, body: Raw<'_>, broken: &[Violation], replies: &Replies) -> Edits {
    let mut edits = Edits::new();
    let messages: Vec<Raw<'_>> = body.get(list_key(wire)).into_iter().flat_map(Raw::elements).collect();
    let parts = BodyParts::default();
    for violation in broken {
        let place =
            Offence { wire, body, messages: &messages, parts: &parts, path: &violation.path, replies };
        place.repair(violation.rule, &mut edits);
    }
    edits
}

/// The members of an object.
type ObjectMembers<'a> = Vec<(Cow<'a, str>, Raw<'a>)>;

/// Values taken apart once, by where their text begins, so that many places in a long one are found quickly.
#[derive(Default)]
struct BodyParts<'a> {
    lists: RefCell<HashMap<usize, Vec<Raw<'a>>>>,
    objects: RefCell<HashMap<usize, ObjectMembers<'a>>>,
    id_places: OnceCell<IdPlaces<'a>>,
    groups: RefCell<HashMap<usize, Rc<GroupIds<'a>>>>,
    /// Groups, by the message that opens them, and ids in them whose calls were told apart, or need not be.
    told_apart: RefCell<HashSet<(usize, Cow<'a, str>)>>,
}

/// The paths of the calls and of the results in one group, by id.
type GroupIds<'a> = HashMap<Cow<'a, str>, (Vec<String>, Vec<String>)>;

/// Which messages call, found once: looking again for each violation would cost the square of their number.
struct IdPlaces<'a> {
    /// The messages of the model, in order.
    replies: Vec<usize>,
    /// The messages that hold a call with this id, in order.
    callers: HashMap<Cow<'a, str>, Vec<usize>>,
}

impl<'a> IdPlaces<'a> {
    fn find(wire: Wire, messages: &[Raw<'a>]) -> Self {
        let is_reply =
            |message: &Raw<'_>| message.get("role").and_then(Raw::string).as_deref() == Some("assistant");
        let replies =
            (0..).zip(messages).filter(|(_, message)| is_reply(message)).map(|(at, _)| at).collect();
        let mut callers: HashMap<Cow<'a, str>, Vec<usize>> = HashMap::new();
        for number in 0..messages.len() {
            for (path, id) in ids_at(wire, messages, number..=number) {
                if is_call(&path) {
                    callers.entry(id).or_default().push(number);
                }
            }
        }
        IdPlaces { replies, callers }
    }

    /// The last message up to this one that calls with the id.
    fn caller(&self, id: &str, number: usize) -> Option<usize> {
        let callers = self.callers.get(id)?;
        callers.get(callers.partition_point(|&at| at <= number).checked_sub(1)?).copied()
    }

    /// The message after this one at which the model speaks again.
    fn next_reply(&self, number: usize) -> Option<usize> {
        self.replies.get(self.replies.partition_point(|&at| at <= number)).copied()
    }
}

impl<'a> BodyParts<'a> {
    /// What one step of a pointer leads to.
    fn step(&self, value: Raw<'a>, key: &str) -> Option<Raw<'a>> {
        let start = value.text().as_ptr() as usize;
        if value.kind() == JsonKind::Array {
            let mut lists = self.lists.borrow_mut();
            let list = lists.entry(start).or_insert_with(|| value.elements().collect());
            return list.get(key.parse::<usize>().ok()?).copied();
        }
        let mut objects = self.objects.borrow_mut();
        let members = objects.entry(start).or_insert_with(|| value.members().collect());
        members.iter().find(|(name, _)| name == key).map(|(_, member)| *member)
    }
}

/// The place a rule complains about.
struct Offence<'a> {
    wire: Wire,
    body: Raw<'a>,
    messages: &'a [Raw<'a>],
    parts: &'a BodyParts<'a>,
    path: &'a str,
    /// What a provider said, which stays as it is.
    replies: &'a Replies,
}

impl<'a> Offence<'a> {
    /// Adds the edits for one violation; none if it cannot be repaired here.
    fn repair(&self, rule: &str, edits: &mut Edits) {
        match rule {
            "OC-5" => self.put("/content", "\"\"", edits),
            "OC-6" | "OR-12" | "OR-13" | "OR-18" | "OR-22" | "GE-13" | "GE-10" | "AN-44" => {
                self.remove(self.path, edits);
            }
            "OC-7" | "OR-11" | "AN-8" | "BC-6" => self.rename(edits),
            "OC-8" => self.cut(MAX_CONTENT, edits),
            "OC-9" if self.path.ends_with("/name") => self.rename(edits),
            "OC-9" => self.cut(MAX_DESCRIPTION, edits),
            "OC-11" => self.move_media(edits),
            "OC-15" => self.add("/reasoning_content", "\"\"", edits),
            "OR-4" | "OR-7" | "OR-9" | "OR-15" => self.remove(&self.message_path(), edits),
            "OR-5" => self.remove(&format!("{}/id", self.message_path()), edits),
            "OR-6" => self.add("/summary", "[]", edits),
            "OR-8" => self.forget_reference(edits),
            "OR-20" => self.shrink_metadata(edits),
            "OR-21" => self.shorten_list(20, edits),
            "AN-6" | "BC-5" | "OC-3" => self.tell_apart(edits),
            "AN-10" => self.remove_inner(edits),
            "AN-9" | "AN-19" | "AN-20" | "AN-30" | "AN-31" | "AN-33" | "AN-42" | "AN-46" | "BC-13"
            | "BC-14" => {
                self.remove_block(edits);
            }
            "AN-12" => {
                self.append(&format!("{{\"role\":\"user\",\"content\":\"{CONTINUE}\"}}"), edits);
            }
            "AN-13" => self.trim_end(edits),
            "AN-14" | "AN-15" | "BC-15" | "GE-1" => {
                edits.insert(format!("{}/role", self.message_path()), Edit::Put("\"user\"".into()));
            }
            "AN-32" => {
                edits.insert("/thinking".into(), Edit::Put("{\"type\":\"disabled\"}".into()));
            }
            "AN-34" | "AN-35" => self.drop_thinking(edits),
            "AN-50" | "AN-52" => {
                self.remove(
                    &format!("{}/cache_control", self.path.trim_end_matches("/cache_control")),
                    edits,
                );
            }
            "AN-51" => self.remove(&format!("{}/cache_control/ttl", self.before("/cache_control")), edits),
            "GE-5" => {
                self.append(&format!("{{\"role\":\"user\",\"parts\":[{{\"text\":\"{CONTINUE}\"}}]}}"), edits);
            }
            "GE-6" => {
                self.add("/thoughtSignature", &quote(UNSIGNED), edits);
            }
            "GE-11" => self.wrap_response(edits),
            "BC-7" => self.offer_tools(edits),
            "BC-8" => self.part_from_results(edits),
            "BC-9" => self.order_blocks(edits),
            "BC-11" => self.add("/toolResult/content", "[{\"text\":\"(empty)\"}]", edits),
            "BC-12" => self.mend_document(edits),
            _ => {}
        }
    }

    fn value(&self, path: &str) -> Option<Raw<'a>> {
        let mut value = self.body;
        for step in path.split('/').skip(1) {
            let key = step.replace("~1", "/").replace("~0", "~");
            value = self.parts.step(value, &key)?;
        }
        Some(value)
    }

    /// The path up to a member, where it ends in one.
    fn before(&self, member: &str) -> &str {
        self.path.find(member).and_then(|at| self.path.get(..at)).unwrap_or(self.path)
    }

    /// The message the place is in, by number.
    fn message(&self) -> Option<usize> {
        self.path.split('/').nth(2)?.parse().ok()
    }

    fn message_path(&self) -> String {
        self.path.split('/').take(3).collect::<Vec<_>>().join("/")
    }

    /// The block the place is in, or the message if it is in none.
    fn block_path(&self) -> String {
        let steps: Vec<&str> = self.path.split('/').collect();
        let depth = if steps.get(3).is_some_and(|key| matches!(*key, "content" | "parts")) { 5 } else { 3 };
        steps.get(..depth.min(steps.len())).unwrap_or_default().join("/")
    }

    /// Puts a value at the place itself if it ends in `member`, else under that member of it.
    fn put(&self, member: &str, value: &str, edits: &mut Edits) {
        let path = if self.path.ends_with(member) {
            self.path.to_string()
        } else {
            format!("{}{member}", self.path)
        };
        edits.insert(path, Edit::Put(value.into()));
    }

    fn add(&self, member: &str, value: &str, edits: &mut Edits) {
        let path = self.path.trim_end_matches(member);
        edits.insert(format!("{path}{member}"), Edit::Put(value.into()));
    }

    fn remove(&self, path: &str, edits: &mut Edits) {
        if self.value(path).is_some() {
            edits.insert(path.into(), Edit::Remove);
        }
    }

    /// Leaves out the block; the message too if that was all it had.
    fn remove_block(&self, edits: &mut Edits) {
        let path = self.block_path();
        let list = path.rsplit_once('/').and_then(|(list, _)| self.value(list));
        let alone =
            list.is_some_and(|list| list.kind() == JsonKind::Array && list.elements().nth(1).is_none());
        if alone && path.split('/').count() == 5 {
            self.remove(&self.message_path(), edits);
        } else {
            self.remove(&path, edits);
        }
    }

    fn append(&self, message: &str, edits: &mut Edits) {
        edits.insert(
            format!("/{}/{}", list_key(self.wire), self.messages.len()),
            Edit::Before(message.into()),
        );
    }

    /// Gives an id, wherever it stands, or a name the form the wire takes.
    fn rename(&self, edits: &mut Edits) {
        // The place is the id itself, or the block it belongs to.
        let inside = ["", "/id", "/tool_use_id", "/call_id", "/tool_call_id"];
        let at = |end: &&str| self.value(&format!("{}{end}", self.path)).and_then(Raw::string);
        let Some(old) = inside.iter().find_map(at) else { return };
        if self.path.ends_with("/name") {
            edits.insert(self.path.into(), Edit::Put(quote(&tool_name(&old))));
            return;
        }
        if ids::fit(self.wire, &old) == old
            || edits
                .range(self.path.to_string()..)
                .next()
                .is_some_and(|(path, _)| path.starts_with(self.path))
        {
            return;
        }
        // All at once: a list may have many, and each stands in two places.
        for (path, id) in ids_at(self.wire, self.messages, 0..=self.messages.len()) {
            let fitting = ids::fit(self.wire, &id);
            if fitting != id && !self.replies.gave(&id) {
                edits.insert(path, Edit::Put(quote(&fitting)));
            }
        }
    }

    /// Gives the second call of one id, and the second result for it, an id of their own.
    fn tell_apart(&self, edits: &mut Edits) {
        let Some(number) = self.message() else { return };
        // One violation tells all calls of its id apart.
        if edits.range(self.path.to_string()..).next().is_some_and(|(path, _)| path.starts_with(self.path)) {
            return;
        }
        let Some(id) = self.id_here(number) else { return };
        // The call is here or in a message before, its results here or in those after.
        let places = self.parts.id_places.get_or_init(|| IdPlaces::find(self.wire, self.messages));
        let Some(opening) = places.caller(&id, number) else { return };
        if !self.parts.told_apart.borrow_mut().insert((opening, id.clone())) {
            return;
        }
        let last = places.next_reply(opening).unwrap_or(self.messages.len()).saturating_sub(1);
        let mut groups = self.parts.groups.borrow_mut();
        let group = groups.entry(opening).or_insert_with(|| Rc::new(self.ids_in(opening..=last)));
        let Some((calls, results)) = group.get(&id) else { return };
        let here = format!("/{}/{opening}/", list_key(self.wire));
        let numbered = (2..).map(|number| ids::fit(self.wire, &format!("{id}_{number}")).into_owned());
        let mut free = numbered.filter(|new| !group.contains_key(new.as_str()));
        // The first call and the first result keep the id; each of the others is told apart.
        for (number, call) in calls.iter().enumerate().skip(1).filter(|(_, path)| path.starts_with(&here)) {
            let Some(new) = free.next().map(|new| quote(&new)) else { return };
            edits.insert(call.clone(), Edit::Put(new.clone()));
            if let Some(result) = results.get(number) {
                edits.insert(result.clone(), Edit::Put(new));
            }
        }
    }

    /// The id at the place a rule complains about, or the first one inside it.
    fn id_here(&self, number: usize) -> Option<Cow<'a, str>> {
        if let Some(id) = self.value(self.path).and_then(Raw::string) {
            return Some(id);
        }
        let inside = |(path, id): (String, Cow<'a, str>)| path.starts_with(self.path).then_some(id);
        ids_at(self.wire, self.messages, number..=number).find_map(inside)
    }

    fn ids_in(&self, messages: RangeInclusive<usize>) -> GroupIds<'a> {
        let mut found = GroupIds::new();
        for (path, id) in ids_at(self.wire, self.messages, messages) {
            let (calls, results) = found.entry(id).or_default();
            if is_call(&path) { calls.push(path) } else { results.push(path) }
        }
        found
    }

    /// Leaves out a block inside a result, or of the system field; blocks of messages go when the list is printed anew.
    fn remove_inner(&self, edits: &mut Edits) {
        if self.path.split('/').count() > 5 || self.path.starts_with("/system/") {
            self.remove(self.path, edits);
        }
    }

    /// Cuts a text at a number of characters.
    fn cut(&self, limit: usize, edits: &mut Edits) {
        let Some(text) = self.value(self.path).and_then(Raw::string) else { return };
        let short: String = text.chars().take(limit).collect();
        edits.insert(self.path.into(), Edit::Put(quote(&short)));
    }

    fn trim_end(&self, edits: &mut Edits) {
        let path = ["", "/text", "/content"]
            .iter()
            .map(|end| format!("{}{end}", self.path))
            .find(|path| self.value(path).is_some_and(|value| value.kind() == JsonKind::String));
        let Some((path, text)) = path.and_then(|path| Some((path.clone(), self.value(&path)?.string()?)))
        else {
            return;
        };
        edits.insert(path, Edit::Put(quote(text.trim_end())));
    }

    /// Moves media of a result into a user's message after all results of the group.
    fn move_media(&self, edits: &mut Edits) {
        let (Some(part), Some(number)) = (self.value(self.path), self.message()) else { return };
        let is_tool =
            |message: &&Raw<'_>| message.get("role").and_then(Raw::string).as_deref() == Some("tool");
        if !self.messages.get(number).as_ref().is_some_and(is_tool) {
            return self.remove_block(edits);
        }
        let after =
            number + self.messages.get(number..).unwrap_or_default().iter().take_while(is_tool).count();
        let place = format!("/messages/{after}");
        let carried = match edits.get(&place) {
            Some(Edit::Before(text)) => {
                text.strip_suffix("]}").map(|list| format!("{list},{}]}}", part.text())).unwrap_or_default()
            }
            _ => format!("{{\"role\":\"user\",\"content\":[{}]}}", part.text()),
        };
        edits.insert(place, Edit::Before(carried));
        let list = self.path.rsplit_once('/').map_or("", |(list, _)| list);
        let texts =
            self.value(list).into_iter().flat_map(Raw::elements).any(|part| part.get("text").is_some());
        if texts {
            edits.insert(self.path.into(), Edit::Remove);
        } else {
            edits.insert(list.into(), Edit::Put("\"\"".into()));
        }
    }

    /// Leaves out what the server does not hold: references, and reasoning without its content.
    fn forget_reference(&self, edits: &mut Edits) {
        let path = self.message_path();
        let kind = self.value(&path).and_then(|item| item.get("type")?.string());
        match kind.as_deref() {
            Some("item_reference" | "reasoning") => self.remove(&path, edits),
            _ => self.remove(&format!("{path}/id"), edits),
        }
    }

    fn shrink_metadata(&self, edits: &mut Edits) {
        if let Some(text) = self.value("/safety_identifier").and_then(Raw::string)
            && self.path.starts_with("/safety_identifier")
        {
            let short: String = text.chars().take(128).collect();
            edits.insert("/safety_identifier".into(), Edit::Put(quote(&short)));
            return;
        }
        let Some(metadata) = self.value("/metadata") else { return };
        let short = |text: &str, limit: usize| quote(&text.chars().take(limit).collect::<String>());
        let pairs: Vec<String> = metadata
            .members()
            .take(16)
            .map(|(key, value)| {
                let value = value.string().map_or_else(|| value.text().into(), |text| short(&text, 512));
                format!("{}:{value}", short(&key, 64))
            })
            .collect();
        edits.insert("/metadata".into(), Edit::Put(format!("{{{}}}", pairs.join(","))));
    }

    fn shorten_list(&self, length: usize, edits: &mut Edits) {
        let Some(list) = self.value(self.path) else { return };
        let kept: Vec<&str> = list.elements().take(length).map(Raw::text).collect();
        edits.insert(self.path.into(), Edit::Put(format!("[{}]", kept.join(","))));
    }

    /// Drops reasoning from this place on: what came before it is no longer what it was signed over.
    fn drop_thinking(&self, edits: &mut Edits) {
        let Some(from) = self.message() else { return };
        // The first place took everything after it along.
        if edits.contains_key(&self.message_path()) || edits.contains_key(self.path) {
            return;
        }
        let first_block: usize = self.path.split('/').nth(4).and_then(|step| step.parse().ok()).unwrap_or(0);
        for (number, message) in self.messages.iter().enumerate().skip(from) {
            let Some(content) = message.get("content").filter(|content| content.kind() == JsonKind::Array)
            else {
                continue;
            };
            let blocks: Vec<Raw<'_>> = content.elements().collect();
            let bound = |block: &Raw<'_>| {
                let kind = block.get("type").and_then(Raw::string);
                matches!(kind.as_deref(), Some("thinking" | "redacted_thinking"))
                    || block.get("reasoningContent").is_some()
            };
            if !blocks.is_empty() && blocks.iter().all(bound) && (number > from || first_block == 0) {
                edits.insert(format!("/messages/{number}"), Edit::Remove);
                continue;
            }
            for (at, _) in blocks.iter().enumerate().filter(|(_, block)| bound(block)) {
                if number > from || at >= first_block {
                    edits.insert(format!("/messages/{number}/content/{at}"), Edit::Remove);
                }
            }
        }
    }

    /// A response that is no object becomes one.
    fn wrap_response(&self, edits: &mut Edits) {
        let Some(value) = self.value(self.path) else { return };
        if value.kind() == JsonKind::Object {
            edits.insert(format!("{}/response", self.path), Edit::Put("{\"output\":\"\"}".into()));
            return;
        }
        edits.insert(self.path.into(), Edit::Put(format!("{{\"output\":{}}}", json::one_line(value))));
    }

    /// Offers the tools the history names.
    fn offer_tools(&self, edits: &mut Edits) {
        let blocks =
            self.messages.iter().filter_map(|message| message.get("content")).flat_map(Raw::elements);
        let mut names: Vec<String> = blocks
            .filter_map(|block| block.get("toolUse")?.get("name")?.string().map(|name| tool_name(&name)))
            .collect();
        names.sort();
        names.dedup();
        if names.is_empty() {
            names.push("unknown".into());
        }
        let specs: Vec<String> = names.iter().map(|name| placeholder_tool(name)).collect();
        edits.insert("/toolConfig".into(), Edit::Put(format!("{{\"tools\":[{}]}}", specs.join(","))));
    }

    /// What stands beside results goes into a message of its own, with a word of the model's between.
    fn part_from_results(&self, edits: &mut Edits) {
        let (Some(number), Some(content)) =
            (self.message(), self.value(&format!("{}/content", self.message_path())))
        else {
            return;
        };
        let (results, others): (Vec<Raw<'_>>, Vec<Raw<'_>>) =
            content.elements().partition(|block| block.get("toolResult").is_some());
        let list = |blocks: &[Raw<'_>]| blocks.iter().map(|block| block.text()).collect::<Vec<_>>().join(",");
        let apart = format!(
            "{{\"role\":\"assistant\",\"content\":[{{\"text\":\"(results received)\"}}]}},{{\"role\":\"user\",\"content\":[{}]}}",
            list(&others)
        );
        edits.insert(format!("{}/content", self.message_path()), Edit::Put(format!("[{}]", list(&results))));
        edits.insert(format!("/messages/{}", number + 1), Edit::Before(apart));
    }

    /// Texts before calls, reasoning before texts.
    fn order_blocks(&self, edits: &mut Edits) {
        let path = format!("{}/content", self.message_path());
        let Some(content) = self.value(&path) else { return };
        let mut blocks: Vec<Raw<'_>> = content.elements().collect();
        blocks.sort_by_key(|block| match () {
            () if block.get("reasoningContent").is_some() => 0,
            () if block.get("toolUse").is_some() => 2,
            () => 1,
        });
        let list: Vec<&str> = blocks.iter().map(|block| block.text()).collect();
        edits.insert(path, Edit::Put(format!("[{}]", list.join(","))));
    }

    /// Gives a document a text beside it, or a unique name.
    fn mend_document(&self, edits: &mut Edits) {
        let named = self.path.strip_suffix("/document/name");
        let block = named.map_or_else(|| self.block_path(), str::to_string);
        let Some(document) = self.value(&format!("{block}/document")) else { return };
        if document.kind() != JsonKind::Object {
            return self.remove_block(edits);
        }
        let name = document.get("name").and_then(Raw::string);
        if named.is_none() && name.is_some() {
            edits.insert(block, Edit::Before("{\"text\":\"(document)\"}".into()));
            return;
        }
        let name = name.unwrap_or(Cow::Borrowed("document"));
        let start: String =
            name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(150).collect();
        // The place tells two documents of one name apart.
        let path = format!("{block}/document/name");
        let hash = blake3::hash(format!("{name}{path}").as_bytes()).to_hex();
        let name = format!("{start}-{}", hash.get(..8).unwrap_or_default());
        edits.insert(path, Edit::Put(quote(name.trim_start_matches('-'))));
    }
}

/// Whether the id at a path is that of a call.
fn is_call(path: &str) -> bool {
    path.ends_with("/id") || path.contains("/toolUse/")
}

/// The ids of calls and results in some messages, with their places.
fn ids_at<'a>(
    wire: Wire,
    messages: &[Raw<'a>],
    numbers: RangeInclusive<usize>,
) -> impl Iterator<Item = (String, Cow<'a, str>)> {
    let list = list_key(wire);
    let (first, count) = (*numbers.start(), numbers.end() + 1 - numbers.start());
    let messages = messages.iter().enumerate().skip(first).take(count);
    messages.flat_map(move |(number, message)| {
        let base = format!("/{list}/{number}");
        let mut found: Vec<(String, Option<Raw<'a>>)> = Vec::new();
        for key in ["tool_call_id", "call_id"] {
            found.push((format!("{base}/{key}"), message.get(key)));
        }
        for (call, raw) in message.get("tool_calls").into_iter().flat_map(Raw::elements).enumerate() {
            found.push((format!("{base}/tool_calls/{call}/id"), raw.get("id")));
        }
        for (block, raw) in message.get("content").into_iter().flat_map(Raw::elements).enumerate() {
            for key in ["id", "tool_use_id"] {
                found.push((format!("{base}/content/{block}/{key}"), raw.get(key)));
            }
            for key in ["toolUse", "toolResult"] {
                let id = raw.get(key).and_then(|inner| inner.get("toolUseId"));
                found.push((format!("{base}/content/{block}/{key}/toolUseId"), id));
            }
        }
        found.into_iter().filter_map(|(path, id)| Some((path, id?.string()?)))
    })
}
