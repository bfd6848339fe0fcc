//! The schema for editors and the reader agree about the shape of flows.

use scrollback_agent::document;
use scrollback_flow::{Code, FlowSettings, SCHEMA};
use serde_json::Value;

use crate::{files, read_in, repository};

/// Problems of shape, which a schema can see. The others are about what names, texts and prices mean.
const OF_SHAPE: [Code; 8] = [
    Code::UnknownKey,
    Code::MissingKey,
    Code::WrongType,
    Code::OutOfRange,
    Code::UnknownKind,
    Code::UnknownValue,
    Code::NeedsConversation,
    Code::ConflictingKeys,
];

/// Places where only the reader knows: options of managers, and files.
fn beyond_the_schema(problem: &scrollback_flow::FlowProblem) -> bool {
    !OF_SHAPE.contains(&problem.code)
        || problem.path.contains("history_management[")
        || problem.path.contains("history_management.")
            && problem.path.rsplit('.').next().is_some_and(|last| last.contains("window"))
        || problem.message.contains("the file")
        || problem.message.contains("which `truncate_turns` needs")
        || problem.message.contains("api must be")
}

fn validator() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|error| panic!("{error}"));
    jsonschema::draft202012::new(&schema).unwrap()
}

/// Whether reader and schema agree about a text; what each says otherwise.
fn agree(validator: &jsonschema::Validator, folder: &std::path::Path, text: &str) -> Result<(), String> {
    let Some(node) = document::parse_all(text).root else { return Ok(()) };
    let json = node.to_json();
    let schema_accepts = validator.is_valid(&json);
    let problems =
        read_in(folder, text, &FlowSettings::default()).err().map(|found| found.errors).unwrap_or_default();
    let of_shape: Vec<String> =
        problems.iter().filter(|problem| !beyond_the_schema(problem)).map(ToString::to_string).collect();
    let beyond = of_shape.is_empty() && problems.iter().any(|problem| OF_SHAPE.contains(&problem.code));
    if of_shape.is_empty() == schema_accepts || beyond {
        return Ok(());
    }
    let schema_says: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
    Err(format!("{text}\nthe reader says {of_shape:#?}\nthe schema says {schema_says:#?}"))
}

#[test]
fn reader_and_schema_agree_on_the_corpus() {
    let validator = validator();
    let mut refused = 0;
    for folder in ["corpus/flows/good", "corpus/flows/warned", "corpus/flows/broken", "examples/flows"] {
        for path in files(&repository(folder)) {
            let text = std::fs::read_to_string(&path).unwrap();
            if path.to_string_lossy().ends_with(".script.yaml") {
                continue;
            }
            agree(&validator, &repository(folder), &text)
                .unwrap_or_else(|both| panic!("{}: {both}", path.display()));
            refused += usize::from(
                document::parse_all(&text).root.is_some_and(|node| !validator.is_valid(&node.to_json())),
            );
        }
    }
    assert!(refused >= 10, "the schema refused only {refused}");
}

/// Every value of a good flow replaced by others, removed, and joined by an unknown key: both say the same each time.
#[test]
fn reader_and_schema_agree_on_every_small_change() {
    let validator = validator();
    let folder = repository("corpus/flows/good");
    let text = std::fs::read_to_string(folder.join("every-key.yaml")).unwrap();
    let mut whole = document::parse(&text).unwrap().to_json();
    // Schemas and tools inside a flow have rules of their own, and take long to judge.
    for (place, name) in
        [("/agents/default", "output_schema"), ("/agents/default", "tools"), ("/steps/5", "input_schema")]
    {
        whole.pointer_mut(place).and_then(Value::as_object_mut).unwrap().remove(name);
    }
    let mut pointers = Vec::new();
    collect(&whole, "", &mut pointers);
    let values: [Value; 5] = [
        serde_json::json!(true),
        serde_json::json!(-3),
        serde_json::json!("odd one"),
        serde_json::json!([]),
        serde_json::json!({}),
    ];
    let mut wrong = Vec::new();
    let mut tried = 0;
    for pointer in pointers {
        for value in &values {
            let mut changed = whole.clone();
            *changed.pointer_mut(&pointer).unwrap() = value.clone();
            tried += 1;
            wrong.extend(
                agree(&validator, &folder, &changed.to_string())
                    .err()
                    .map(|both| format!("{pointer} = {value}: {}", tail(&both))),
            );
        }
        let (parent, name) = pointer.rsplit_once('/').unwrap_or_default();
        let mut without = whole.clone();
        if let Some(members) = without.pointer_mut(parent).and_then(Value::as_object_mut) {
            members.remove(name);
            members.insert("surprise".into(), Value::from(1));
            tried += 1;
            wrong.extend(
                agree(&validator, &folder, &without.to_string())
                    .err()
                    .map(|both| format!("{pointer} gone: {}", tail(&both))),
            );
        }
    }
    assert!(tried > 600, "{tried}");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

fn tail(both: &str) -> &str {
    both.split_once("\nthe reader").map_or(both, |(_, tail)| tail)
}

/// The pointers of every value.
fn collect(value: &Value, at: &str, found: &mut Vec<String>) {
    if !at.is_empty() {
        found.push(at.into());
    }
    let members: Vec<(String, &Value)> = match value {
        Value::Array(list) => {
            list.iter().enumerate().map(|(number, item)| (number.to_string(), item)).collect()
        }
        Value::Object(members) => members.iter().map(|(name, item)| (name.clone(), item)).collect(),
        _ => Vec::new(),
    };
    for (name, item) in members {
        collect(item, &format!("{at}/{name}"), found);
    }
}
