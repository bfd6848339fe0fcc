//! What models are shown of what a view leaves out, where they have a tool to read it back.
#![allow(clippy::unwrap_used)]

use scrollback_core::{CurationContext, Entry, Record, Time, Tools, manager};

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
