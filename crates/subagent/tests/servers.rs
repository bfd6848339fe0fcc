//! Tools of an MCP server in programs: what the model is told of them, and what its programs get.

use scrollback_agent::provider::Catalog;
use scrollback_subagent::{Overlay, SubagentErrorKind, SubagentFile};

use crate::mcp_server::program;
use crate::support::{agent, ended, environment, host, programs, run, text, with};

fn file(tools: &str) -> String {
    let server = serde_json::json!([program(), "stdio"]);
    format!(
        "mission: Ask the server.\ncompression: on\ntools: {{desk: {{mcp: {{command: {server}}}, {tools}}}}}\n"
    )
}

#[tokio::test]
async fn programs_call_the_tools_that_are_allowed() {
    let agent = agent(&file("allow: [echo, sum, fail, picture]")).await;
    let (host, bodies) = host();
    let model = programs(&[
        "(def said (tool/desk__echo {:text \"good morning\"})) (def five (:sum (tool/desk__sum)))",
        "(tool/desk__fail)",
        "(tool/desk__echo {:txt \"x\"})",
        "(tool/desk__crash)",
        "(return [said five (tool/desk__picture)])",
    ]);
    let step = run(&agent, &with(model), &host).await;
    let errors: Vec<_> = step.turns.iter().map(|turn| turn.error.clone()).collect();
    assert!(ended(&step).starts_with("done [\"good morning\" 5 \"a dot"), "{}: {errors:?}", ended(&step));
    let first = text(&bodies, 0, 1);
    assert!(
        first.contains(
            ";; === tool/ ===\ntool/desk__echo(...) -> :any  ; Says it again\n\
             tool/desk__fail(...) -> :any  ; Fails\ntool/desk__picture(...) -> :any  ; A picture\n\
             tool/desk__sum(...) -> :any  ; Adds\n\nTurns left: 5"
        ),
        "{first}"
    );
    let second = text(&bodies, 1, 1);
    for line in [
        "five                          ; = integer, sample: 5\n",
        "said                          ; = string, sample: \"good morning\"\n",
        ";   desk__echo({:text \"good morning\"}) => \"good morning\"\n",
        ";   desk__sum() => {\"sum\" 5}\n",
    ] {
        assert!(second.contains(line), "{line}: {second}");
    }
    assert!(text(&bodies, 2, 1).contains("Error: Tool 'desk__fail' failed: no such file\n"));
    let unfit = text(&bodies, 3, 1);
    assert!(
        unfit.contains("Tool 'desk__echo' failed: ") && unfit.contains("\"text\" is a required property"),
        "{unfit}"
    );
    let reason = |at: usize| step.turns[at].error.as_ref().map(|error| error.reason.as_str());
    assert_eq!((reason(1), reason(2)), (Some("tool_error"), Some("tool_error")));
    assert!(reason(3).is_some() && step.turns[3].tool_calls.is_empty(), "what is not allowed is not there");
}

#[tokio::test]
async fn a_server_that_is_not_there_or_has_no_such_tool_ends_it_before_anybody_is_asked() {
    let read = |yaml: &str| {
        SubagentFile::parse(yaml, std::path::Path::new("."), &Overlay::default(), &environment()).unwrap()
    };
    let gone = read("mission: Go.\ntools: {desk: {mcp: {command: [no-such-server]}}}\n");
    let error = gone.connect(&Catalog::default()).await.err().unwrap();
    assert!(error.kind() == SubagentErrorKind::Server && error.to_string().contains("desk"), "{error}");
    let error = read(&file("allow: [ecko]")).connect(&Catalog::default()).await.err().unwrap();
    assert!(error.to_string().contains("ecko") && error.to_string().contains("echo"), "{error}");
}
