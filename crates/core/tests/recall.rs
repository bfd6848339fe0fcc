//! What models are shown of what a view leaves out, where they have a tool to read it back.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use scrollback_core::recall::found::chosen_lines;
use scrollback_core::recall::{RecallRequest, RecallTool};
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, Decision, Entry, Record, Time, Tools, View, manager, request};
use serde_json::json;

const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn record(results: usize) -> Record {
    let mut record = Record::new();
    let mut sequence = 0;
    let mut say = |entry: Entry| {
        record.append(entry.stamped(uuid::Uuid::nil(), sequence, Time(0))).unwrap();
        sequence += 1;
    };
    say(Entry::user("Find the staging port in src/deploy.rs."));
    for number in 0..results {
        let id = format!("c{number}");
        let path = format!(r#"{{"path":"src/file{number}.rs"}}"#);
        say(Entry::calling(None, &[(&id, "read_file", &path)]));
        let line = format!("let value_{number} = load(\"config/{number}.toml\", port_{number}48123);\n");
        say(Entry::result(&id, &line.repeat(60)));
    }
    record
}

fn offering(tools: &[&str]) -> CurationContext {
    let tools = Tools::named(tools.iter().map(|name| (*name).to_string()).collect());
    CurationContext { tools: Some(tools), ..CurationContext::default() }.in_conversation(ID)
}

fn shown(record: &Record, cx: &CurationContext, config: &str) -> Vec<String> {
    let view = record.view(cx, &*manager::parse(config).unwrap()).unwrap();
    view.items().map(|item| item.entry.content().unwrap_or_default()).collect()
}

#[test]
fn placeholders_carry_handles_where_the_model_can_read_them_and_nowhere_else() {
    let record = record(3);
    for tool in ["recall_search", "mcp__scrollback__search", "scrollback_read"] {
        let texts = shown(&record, &offering(&["read_file", tool]), "clear_tool_results(1)");
        assert_eq!(texts[2], "[result left out: 60 lines, read sb:ffq69g5fav#2]", "{tool}");
        assert_eq!(texts[4], "[result left out: 60 lines, read sb:ffq69g5fav#4]", "{tool}");
        assert!(texts[6].contains("value_2"), "the newest result stays");
    }
    let without = shown(&record, &offering(&["read_file", "search"]), "clear_tool_results(1)");
    assert_eq!(without[2], "[tool result cleared]");
}

#[test]
fn a_plan_of_auto_says_what_it_leaves_out_and_where_to_read_it() {
    let record = record(30);
    let said = |tools: &[&str]| shown(&record, &offering(tools), "auto(4000)").join("\n");
    let told = said(&["read_file", "recall_search", "recall_read"]);
    let notice = told.lines().find(|line| line.starts_with("[left out: ")).unwrap_or_default();
    assert!(notice.contains("messages; tools: read_file; files: src/file"), "{notice}");
    assert!(notice.contains("; search, or read sb:ffq69g5fav#"), "{notice}");
    assert!(
        told.lines().any(|line| line.contains("read_file sb:ffq69g5fav#")),
        "headings of the ledger have handles"
    );
    let plain = said(&["read_file"]);
    assert!(
        plain.contains("[earlier entries, shortened]") && !plain.contains("sb:"),
        "without the tool no handle is shown"
    );
    assert!(!plain.contains("[left out: "), "and no notice, unless it is asked for");
}

/// Entries said one after another.
struct Talk {
    record: Record,
    calls: usize,
}

impl Talk {
    fn new() -> Self {
        Talk { record: Record::new(), calls: 0 }
    }

    fn say(&mut self, entry: Entry) -> u64 {
        let sequence = self.record.message_count() as u64;
        self.record.append(entry.stamped(uuid::Uuid::nil(), sequence, Time(0))).unwrap()
    }

    /// A call of a tool, with what it answered. The position of the call.
    fn call(&mut self, tool: &str, answer: &str, failed: bool) -> u64 {
        let id = format!("c{}", self.calls);
        self.calls += 1;
        let arguments = format!(r#"{{"path":"src/part{}.rs"}}"#, self.calls);
        let at = self.say(Entry::calling(None, &[(&id, tool, &arguments)]));
        self.say(Entry::answer(&id, &[json!({ "type": "text", "text": answer })], failed));
        at
    }
}

/// A conversation that owes something from its beginning, and much else after it.
fn owing() -> Record {
    let mut talk = Talk::new();
    talk.say(Entry::user("IMPORTANT: keep the public API"));
    talk.call("build", "no such target: wasm", true);
    let todo = r#"{"todos":[{"content":"port the parser","status":"pending"}]}"#;
    talk.say(Entry::calling(None, &[("todo", "TodoWrite", todo)]));
    talk.say(Entry::result("todo", "noted"));
    for number in 0..20 {
        talk.say(Entry::user(&format!("Now look at part {number}, please.")));
        talk.call("list", &format!("part {number} has lines and lines and lines of text"), false);
        talk.say(Entry::assistant(&format!("Part {number} is as it should be.")));
    }
    talk.record
}

fn owed_stays() -> CurationContext {
    CurationContext { obligations: true, ..CurationContext::default() }
}

const OWED: [&str; 3] = ["IMPORTANT: keep the public API", "no such target: wasm", "noted"];

#[test]
fn what_is_owed_survives_every_manager_and_one_switch_turns_that_off() {
    let record = owing();
    for config in [
        "sliding_window(4)",
        "turn_window(1)",
        "token_budget(900)",
        "relevant(900)",
        "sticky(sliding_window(12))",
        "sticky(turn_window(4))",
        "sticky(token_budget(1200))",
        "auto(1000)",
        "fit(window=1400, reserve=200)",
        "compose(clear_tool_results(1), sliding_window(4))",
    ] {
        let texts = shown(&record, &owed_stays(), config);
        assert!(texts.len() < record.message_count(), "{config} leaves something out");
        for owed in OWED {
            let times = texts.iter().filter(|text| text.contains(owed)).count();
            assert_eq!(times, 1, "{config}: {owed}: {texts:#?}");
        }
        // `auto` keeps a prefix as long as that is cheaper, whatever is owed.
        if config.starts_with("auto") {
            continue;
        }
        let texts = shown(&record, &CurationContext::default(), config);
        let stays = |text: &&str| texts.iter().any(|shown| shown.contains(*text));
        assert!(OWED.iter().filter(|owed| stays(owed)).count() < OWED.len(), "{config}: {texts:#?}");
    }
    let whole = shown(&record, &owed_stays(), "sliding_window(1000)");
    let without = CurationContext { obligations: false, ..CurationContext::default() };
    assert_eq!(
        whole,
        shown(&record, &without, "sliding_window(1000)"),
        "while nothing is cut nothing differs"
    );
}

#[test]
fn what_is_owed_takes_no_more_than_a_part_of_a_budget() {
    let mut talk = Talk::new();
    for number in 0..10 {
        talk.say(Entry::user(&format!("RULE: {number} {}", "words and more words ".repeat(100))));
        talk.say(Entry::assistant("Understood."));
    }
    talk.say(Entry::user("Go on."));
    for config in ["token_budget(2000)", "sticky(token_budget(2000))", "auto(2000)"] {
        let cx = owed_stays();
        let view = talk.record.view(&cx, &*manager::parse(config).unwrap()).unwrap();
        assert!(view.tokens(&cx) <= 2000, "{config}");
        let small = config.replace("2000", "90");
        let view = talk.record.view(&cx, &*manager::parse(&small).unwrap()).unwrap();
        assert!(view.tokens(&cx) <= 90, "{small}: what is owed makes no call fail");
    }
}

/// The views of a growing record, one before each call, with the number of the epoch. An error is met in the middle.
fn growing(config: &str, records: bool) -> Vec<(u64, Vec<String>)> {
    let manager = manager::parse(config).unwrap();
    let cx = owed_stays();
    let mut talk = Talk::new();
    talk.say(Entry::user("Repair the build."));
    let mut views = Vec::new();
    for number in 0..80 {
        let (tool, failed) = if number == 2 { ("build", true) } else { ("list", false) };
        let tool = if number == 40 { "build" } else { tool };
        talk.call(tool, &format!("{tool} {number} said so and so and so on and on"), failed);
        // What is sent is recorded; a view that is only looked at finds the same cuts again.
        let start = if records { View::to_send(&talk.record, &cx) } else { View::of(&talk.record, &cx) };
        let view = manager.curate(start, &cx).unwrap();
        let decisions = request::decisions(&talk.record, &view, &cx);
        let texts = view.items().map(|item| item.entry.content().unwrap_or_default()).collect();
        views.push((view.epoch().map_or(0, |epoch| epoch.id), texts));
        for decision in decisions.into_iter().filter(|_| records) {
            talk.record.decide(decision, Time(0)).unwrap();
        }
    }
    views
}

#[test]
fn what_is_met_stays_until_the_next_cut_so_that_prefixes_stand() {
    for records in [true, false] {
        for config in [
            "sticky(sliding_window(30))",
            "sticky(token_budget(900))",
            "auto(900)",
            "sticky(clear_tool_results(8))",
        ] {
            let views = growing(config, records);
            for pair in views.windows(2) {
                let [(epoch, before), (next, after)] = pair else { continue };
                if epoch == next {
                    assert!(after.starts_with(before), "{config} {records}: {before:#?}\n{after:#?}");
                }
            }
            let shows = |number: usize| views[number].1.iter().any(|text| text.contains("build 2 said"));
            assert!((2..=40).all(shows), "{config} {records}: owed until the tool succeeds");
            let epoch = views[40].0;
            assert!(epoch > 0, "{config} {records}: it is cut before that");
            if config.starts_with("auto") {
                continue;
            }
            let later = views.iter().position(|(number, _)| *number > epoch).unwrap();
            assert!((41..later).all(shows), "{config} {records}: and until the next cut");
            assert!(!shows(79), "{config} {records}: then it goes");
        }
    }
}

fn notices(texts: &[String]) -> Vec<&String> {
    texts.iter().filter(|text| text.starts_with("[left out: ")).collect()
}

#[test]
fn a_cut_leaves_one_line_that_stands_until_the_next_one() {
    let record = record(30);
    let recall = offering(&["read_file", "recall_search"]);
    let plain = offering(&["read_file"]);
    for config in [
        "sliding_window(6)",
        "token_budget(6000)",
        "sticky(token_budget(8000))",
        "sticky(sliding_window(20))",
    ] {
        let texts = shown(&record, &recall, config);
        let lines = notices(&texts);
        assert_eq!(lines.len(), 1, "{config}: {texts:#?}");
        assert!(lines[0].contains("messages; tools: read_file; files: src/file"), "{config}: {}", lines[0]);
        assert!(lines[0].contains("; search, or read sb:ffq69g5fav#"), "{config}: {}", lines[0]);
        assert!(notices(&shown(&record, &plain, config)).is_empty(), "{config}: none without the tool");
        let asked = CurationContext { notice: Some(true), ..plain.clone() };
        let texts = shown(&record, &asked, config);
        assert!(notices(&texts)[0].contains("files: ") && !texts.concat().contains("sb:"), "{config}");
        let off = CurationContext { notice: Some(false), ..recall.clone() };
        assert!(notices(&shown(&record, &off, config)).is_empty(), "{config}: none where it is not wanted");
        let own = config.strip_suffix(')').map(|start| format!("{start}, notice=false)")).unwrap();
        assert!(notices(&shown(&record, &recall, &own)).is_empty(), "{own}");
        let on = own.replace("false", "true");
        assert_eq!(notices(&shown(&record, &plain, &on)).len(), 1, "{on}");
        let again = manager::parse(&on).unwrap().config();
        assert_eq!(manager::parse_value(&again).unwrap().config(), again, "{on} reads back");
        assert!(notices(&shown(&record, &recall, "sticky(token_budget(1000000))")).is_empty());
    }
    let auto = |config: &str| shown(&record, &recall, config).concat();
    assert!(
        auto("auto(4000)").contains("[left out: ")
            && !auto("auto(4000, notice=false)").contains("[left out: ")
    );
}

#[test]
fn the_line_is_recorded_with_the_cut_and_goes_with_words_that_are_erased() {
    let mut record = record(30);
    let cx = offering(&["read_file", "recall_search"]);
    let manager = manager::parse("sticky(token_budget(8000))").unwrap();
    let decided = request::decisions(&record, &record.view(&cx, &*manager).unwrap(), &cx);
    let [cut @ Decision::Cut { notice: Some(line), .. }] = decided.as_slice() else { panic!("{decided:?}") };
    assert!(line.contains("files: src/file"), "{line}");
    let text = serde_json::to_string(cut).unwrap();
    assert_eq!(&serde_json::from_str::<Decision>(&text).unwrap(), cut);
    record.decide(cut.clone(), Time(0)).unwrap();
    // The model has no tool any more, and another configuration: what was decided stands.
    let texts = shown(&record, &CurationContext::default(), "passthrough");
    assert_eq!(notices(&texts), [line]);
    assert!(record.erase(1));
    let texts = shown(&record, &cx, "passthrough");
    let lines = notices(&texts);
    assert!(lines.len() == 1 && !lines[0].contains("src/") && lines[0].contains("sb:"), "{lines:?}");
}

#[test]
fn the_ladder_leaves_the_line_too() {
    let record = record(30);
    let cx = offering(&["read_file", "recall_search"]);
    let passthrough = manager::parse("passthrough").unwrap();
    let tokens = record.view(&cx, &*passthrough).unwrap().tokens(&cx);
    let step =
        request::Ladder::default().next(&record, &*passthrough, &cx, request::Stated::default(), tokens);
    let Some((_, Decision::Cut { notice: Some(line), .. })) = step else { panic!("{step:?}") };
    assert!(line.contains("read sb:ffq69g5fav#"), "{line}");
}

fn again(record: &Record) -> Record {
    Record::restore(record.slots().iter().cloned()).unwrap()
}

#[test]
fn what_recall_gave_stays_for_three_requests() {
    let mut talk = Talk::new();
    talk.say(Entry::user("Find the port."));
    let (answer, log) = ("the port is 48123, says the log. ".repeat(20), "a line of a log. ".repeat(20));
    talk.call("list", &log, false);
    talk.call("recall_search", &answer, false);
    let cx = offering(&["list", "recall_search"]);
    for config in ["clear_tool_results(1)", "sliding_window(2)", "tool_result_truncator(100)"] {
        let mut talk = Talk { record: again(&talk.record), calls: talk.calls };
        let seen: Vec<bool> = (0..5)
            .map(|_| {
                let texts = shown(&talk.record, &cx, config);
                talk.call("list", &log, false);
                texts.contains(&answer)
            })
            .collect();
        assert_eq!(seen, [true, true, true, false, false], "{config}");
    }
}

#[test]
fn every_placeholder_says_where_to_read_the_rest() {
    let mut record = record(3);
    let recall = offering(&["read_file", "recall_search"]);
    let texts = shown(&record, &recall, "tool_result_truncator(200)");
    assert!(texts[2].ends_with("\n... [truncated, read sb:ffq69g5fav#2]"), "{}", texts[2]);
    assert_eq!(texts[2].chars().count(), 200);
    let own = shown(&record, &recall, "tool_result_truncator(200, suffix=\" …\")");
    assert!(own[2].ends_with(" … [read sb:ffq69g5fav#2]"), "{}", own[2]);
    let plain = shown(&record, &offering(&["read_file"]), "tool_result_truncator(200)");
    assert!(plain[2].ends_with("\n... [truncated]"), "{}", plain[2]);
    let edit = "clear_tool_uses_20250919".into();
    record.decide(Decision::ProviderEdit { edit, positions: vec![2] }, Time(0)).unwrap();
    let texts = shown(&record, &recall, "passthrough");
    assert_eq!(texts[2], "[cleared by the provider, read sb:ffq69g5fav#2]");
}

#[test]
fn a_tool_that_a_client_holds_back_counts_from_the_first_request_on() {
    // Claude Code lists such tools by name in its first message, and defines them once the model looked for them.
    let mut talk = Talk::new();
    talk.say(Entry::user(
        "<system-reminder>Deferred tools:\nmcp__scrollback__search\nmcp__scrollback__read</system-reminder>\nFind the port.",
    ));
    let log = "a line of a log. ".repeat(20);
    talk.call("Bash", &log, false);
    talk.call("Bash", &log, false);
    let (without, with) = (offering(&["Bash", "ToolSearch"]), offering(&["Bash", "mcp__scrollback__search"]));
    let before = shown(&talk.record, &without, "clear_tool_results(1)");
    assert_eq!(before[2], "[result left out: 1 line, read sb:ffq69g5fav#2]");
    assert_eq!(before, shown(&talk.record, &with, "clear_tool_results(1)"));
    let never = CurationContext { recall_available: Some(false), ..CurationContext::default() };
    let never = never.in_conversation(ID);
    assert_eq!(shown(&talk.record, &never, "clear_tool_results(1)")[2], "[tool result cleared]");
    // One that was called is known for good, though the client drops its definition again.
    let mut later = Talk::new();
    later.say(Entry::user("Find the port."));
    later.call("Bash", &log, false);
    later.call("mcp__scrollback__search", "0 hits", false);
    later.call("Bash", &log, false);
    assert!(shown(&later.record, &without, "clear_tool_results(1)")[2].contains("read sb:"));
}

#[test]
fn tools_in_namespaces_are_known_by_their_whole_names() {
    let body = json!({
        "model": "gpt-5.5",
        "tools": [
            { "type": "function", "name": "exec_command", "parameters": {} },
            { "type": "namespace", "name": "mcp__scrollback", "tools": [{ "type": "function", "name": "search" }] }
        ],
        "input": [
            { "type": "message", "role": "user", "content": "Find the port." },
            { "type": "function_call", "call_id": "c1", "name": "search", "namespace": "mcp__scrollback", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c1", "output": "0 hits" }
        ]
    })
    .to_string();
    let raw = scrollback_core::json::check(&body).unwrap();
    let parsed = Wire::OpenaiResponses.parse(raw, &ParseOptions::default()).unwrap();
    let call = parsed.entries[1].tool_calls().next().unwrap();
    assert_eq!(call.name.as_str(), "mcp__scrollback__search");
    let cx = CurationContext { tools: parsed.tools, ..CurationContext::default() };
    assert!(cx.offers_recall(), "{:?}", cx.tools);
}

#[test]
fn lines_are_chosen_by_their_numbers_or_by_what_stands_in_them() {
    let read =
        |arguments: serde_json::Value| match RecallRequest::parse(RecallTool::Read, &arguments).unwrap() {
            RecallRequest::Read(read) => chosen_lines(&read, "one\ntwo\nthree\nfour\nfive\n"),
            other => panic!("{other:?}"),
        };
    let handle = "sb:k7q2m9x4td#4";
    let numbers =
        |arguments| read(arguments).map(|lines| lines.iter().map(|(number, _)| *number).collect::<Vec<_>>());
    assert_eq!(numbers(json!({ "handle": handle })), None);
    assert_eq!(numbers(json!({ "handle": handle, "lines": "2-3" })), Some(vec![2, 3]));
    assert_eq!(numbers(json!({ "handle": handle, "lines": "4-" })), Some(vec![4, 5]));
    assert_eq!(numbers(json!({ "handle": handle, "pattern": "three", "context": 0 })), Some(vec![3]));
    assert_eq!(numbers(json!({ "handle": handle, "pattern": "/^o/", "context": 1 })), Some(vec![1, 2]));
}

#[test]
fn tools_that_codex_finds_for_its_model_are_known_from_then_on() {
    let found = json!({ "type": "tool_search_output", "call_id": "s1", "execution": "client", "tools": [
        { "type": "namespace", "name": "mcp__scrollback", "tools": [{ "type": "function", "name": "search" }] }
    ] });
    let call = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "exec_command", "arguments": "{}" });
    let output = |id: &str| {
        let output = "a line of a log. ".repeat(20);
        json!({ "type": "function_call_output", "call_id": id, "output": output })
    };
    let body = json!({ "model": "gpt-5.5", "input": [
        { "type": "message", "role": "user", "content": "Find the port." },
        call("c1"), output("c1"),
        { "type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": { "query": "record" } }, found,
        call("c2"), output("c2")
    ] });
    let body = body.to_string();
    let raw = scrollback_core::json::check(&body).unwrap();
    let parsed = Wire::OpenaiResponses.parse(raw, &ParseOptions::default()).unwrap();
    let mut talk = Talk::new();
    for entry in parsed.entries {
        talk.say(entry);
    }
    let cx = CurationContext::default().in_conversation(ID);
    let texts = shown(&talk.record, &cx, "clear_tool_results(1)");
    assert!(texts.iter().any(|text| text == "[result left out: 1 line, read sb:ffq69g5fav#2]"), "{texts:#?}");
}
