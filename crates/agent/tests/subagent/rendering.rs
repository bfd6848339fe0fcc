//! What a call is sent: the agreed cases byte for byte, and the rules that hold for all.

use scrollback_agent::subagent::case::Case;
use scrollback_core::Role;

fn corpus(name: &str) -> String {
    let path = format!("{}/../../corpus/subagent/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_case_of_the_corpus_is_rendered_byte_for_byte() {
    let mut count = 0;
    for line in corpus("coalesced.jsonl").lines() {
        let told: serde_json::Value = serde_json::from_str(line).unwrap();
        let case = Case::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", told["id"]));
        let rendered = case.render();
        assert_eq!(rendered.messages.len(), 2, "{}", told["id"]);
        assert_eq!(rendered.messages[0].role, Role::System);
        assert_eq!(rendered.messages[1].text, told["user"].as_str().unwrap(), "{}", told["id"]);
        count += 1;
    }
    assert_eq!(count, 20);
}
