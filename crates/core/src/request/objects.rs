//! Objects at a provider that a request names or a reply gives: files, containers, stores, prompts, stored items.
//!
//! Callers that share one key at a provider share these objects too, so a server that sends requests for several of them has to
//! know which objects a request would reach.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::json::{JsonKind, Raw};
use crate::wire::Wire;

/// Members whose text is the id of an object, or whose list has such texts.
const IDS: [&str; 10] = [
    "file_id",
    "file_ids",
    "container_id",
    "vector_store_id",
    "vector_store_ids",
    "skill_id",
    "cachedContent",
    "cached_content",
    "fileSearchStoreNames",
    "file_search_store_names",
];
/// Members that are the id of an object as a text, or an object with an `id`.
const OBJECTS: [&str; 4] = ["container", "prompt", "audio", "voice"];
/// Members that are the address of a file.
const ADDRESSES: [&str; 2] = ["fileUri", "file_uri"];
/// Members that hold whatever a program put there: nothing in them names an object for the provider.
const FREE: [&str; 11] = [
    "arguments",
    "input_examples",
    "input_schema",
    "inputSchema",
    "parameters",
    "parametersJsonSchema",
    "schema",
    "responseSchema",
    "responseJsonSchema",
    "response_schema",
    "metadata",
];

/// The objects that a request names, by the ids that its provider gave them. Addresses of files count where only the
/// provider's own account can read them.
///
/// ```
/// use scrollback_core::{json, request::named_objects, wire::Wire};
/// let body = r#"{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]},
///     {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"file_id":"mine"}}]}]}"#;
/// let named: Vec<String> = named_objects(Wire::Anthropic, json::check(body)?).into_iter().collect();
/// assert_eq!(named, ["file_1"], "what a tool is called with is no object of the provider");
/// # Ok::<(), json::JsonError>(())
/// ```
pub fn named_objects(wire: Wire, request: Raw<'_>) -> BTreeSet<String> {
    let mut named = given_objects(wire, request);
    if wire == Wire::OpenaiResponses {
        let items =
            request.members().filter(|(key, _)| key == "input").flat_map(|(_, input)| input.elements());
        named.extend(items.filter_map(stored_item));
    }
    named
}

/// The objects that a reply, or an event of one, gives to the caller.
pub fn given_objects(wire: Wire, reply: Raw<'_>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut ahead = vec![reply];
    // By a loop: bodies are nested as deep as their sender likes.
    while let Some(value) = ahead.pop() {
        match value.kind() {
            JsonKind::Array => ahead.extend(value.elements().filter(|element| is_nested(*element))),
            JsonKind::Object => {
                for (key, member) in value.members() {
                    take(&key, member, value, &mut found);
                    if is_nested(member) && !is_free(wire, &key, value) {
                        ahead.push(member);
                    }
                }
            }
            _ => {}
        }
    }
    found
}

fn is_nested(value: Raw<'_>) -> bool {
    matches!(value.kind(), JsonKind::Array | JsonKind::Object)
}

/// Whether a member holds what programs put there: arguments and results of tools, schemas.
fn is_free(wire: Wire, key: &str, of: Raw<'_>) -> bool {
    match (wire, key) {
        (Wire::Gemini, "args" | "response") => true,
        // At the top of a Responses request it is the list of items.
        (_, "input") => kinds(of).any(|kind| kind.ends_with("tool_use")),
        _ => FREE.contains(&key),
    }
}

/// What an object calls its own kind.
fn kinds(of: Raw<'_>) -> impl Iterator<Item = Cow<'_, str>> {
    of.members().filter(|(key, _)| key == "type").filter_map(|(_, kind)| kind.string())
}

/// Notes what a member names.
fn take(key: &str, member: Raw<'_>, of: Raw<'_>, found: &mut BTreeSet<String>) {
    let text = |value: Raw<'_>| value.string().filter(|id| !id.is_empty()).map(Cow::into_owned);
    if IDS.contains(&key) {
        // Skills that everyone may use are told apart by their kind.
        let is_public =
            key == "skill_id" && kinds(of).all(|kind| kind == "anthropic") && kinds(of).count() > 0;
        if !is_public {
            found.extend(text(member).into_iter().chain(member.elements().filter_map(text)));
        }
    } else if OBJECTS.contains(&key) {
        let own = text(member).filter(|_| key == "container");
        let ids = member.members().filter(|(key, _)| key == "id").filter_map(|(_, id)| text(id));
        found.extend(own.into_iter().chain(ids));
    } else if ADDRESSES.contains(&key) {
        found.extend(text(member).filter(|address| is_private(address)));
    }
}

/// An item of a Responses request that stands for one which the provider keeps.
fn stored_item(item: Raw<'_>) -> Option<String> {
    let filled = |key: &str| item.get(key).is_some_and(|value| value.kind() != JsonKind::Null);
    // Other hosts of this wire give the thought itself.
    let says = |key: &str| item.get(key).is_some_and(|list| list.elements().next().is_some());
    let mut kinds = kinds(item).peekable();
    let stands_for_another = match kinds.peek() {
        None => !filled("role"),
        Some(_) => kinds.any(|kind| match kind.as_ref() {
            "item_reference" => true,
            "reasoning" => !filled("encrypted_content") && !says("content"),
            "image_generation_call" => !filled("result"),
            _ => false,
        }),
    };
    let id = item.get("id").filter(|_| stands_for_another)?;
    id.string().filter(|id| !id.is_empty()).map(Cow::into_owned)
}

/// Whether an address leads into the provider's own storage, where its key decides what can be read.
fn is_private(address: &str) -> bool {
    let address = address.trim().to_ascii_lowercase();
    let Some((_, rest)) = address.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme))
    else {
        return true;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default().trim_end_matches('.');
    let of = |domain: &str| name == domain || name.ends_with(&format!(".{domain}"));
    // What is written to be misread is not public.
    host.is_empty() || host.contains(['@', '\\', '%']) || of("googleapis.com") || of("google.com")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json;

    fn named(wire: Wire, body: &str) -> Vec<String> {
        named_objects(wire, json::check(body).unwrap()).into_iter().collect()
    }

    #[test]
    fn objects_are_found_wherever_a_wire_names_them() {
        let cases: [(Wire, &str, &[&str]); 14] = [
            (
                Wire::OpenaiChat,
                r#"{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}"#,
                &["f"],
            ),
            (
                Wire::OpenaiChat,
                r#"{"messages":[{"role":"assistant","audio":{"id":"a"}}],"audio":{"voice":"alloy"}}"#,
                &["a"],
            ),
            (
                Wire::OpenaiChat,
                r#"{"messages":[{"role":"user","content":[{"file":{"f\u0069le_id":"f"}}]}]}"#,
                &["f"],
            ),
            (
                Wire::OpenaiResponses,
                r#"{"input":[{"type":"item_reference","id":"i"},{"id":"j"},{"role":"user","id":"k"}]}"#,
                &["i", "j"],
            ),
            (
                Wire::OpenaiResponses,
                r#"{"input":[{"type":"message","type":"item_ref\u0065rence","id":"i"}]}"#,
                &["i"],
            ),
            (
                Wire::OpenaiResponses,
                r#"{"input":[{"type":"reasoning","id":"r","summary":[]},{"type":"reasoning","id":"s","encrypted_content":"x"},
                    {"type":"image_generation_call","id":"g"},{"type":"message","role":"assistant","id":"m","content":[]}]}"#,
                &["g", "r"],
            ),
            (
                Wire::OpenaiResponses,
                r#"{"prompt":{"id":"p"},"tools":[{"type":"file_search","vector_store_ids":["v","w"]},
                    {"type":"code_interpreter","container":"c"},{"type":"code_interpreter","container":{"type":"auto","file_ids":["f"]}}]}"#,
                &["c", "f", "p", "v", "w"],
            ),
            (
                Wire::OpenaiResponses,
                r#"{"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}],"tools":[{"parameters":{"file_id":"no"}}]}"#,
                &["f"],
            ),
            (
                Wire::Anthropic,
                r#"{"container":{"id":"c","skills":[{"type":"custom","skill_id":"s"},{"type":"anthropic","skill_id":"pdf"}]}}"#,
                &["c", "s"],
            ),
            (
                Wire::Anthropic,
                r#"{"messages":[{"content":[{"type":"container_upload","file_id":"f"}]}],"metadata":{"file_id":"no"}}"#,
                &["f"],
            ),
            (
                Wire::Anthropic,
                r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"document","source":{"file_id":"f"}}]}]}]}"#,
                &["f"],
            ),
            (
                Wire::Gemini,
                r#"{"cachedContent":"cachedContents/1","contents":[{"parts":[{"functionCall":{"args":{"fileUri":"gs://no"}}}]}]}"#,
                &["cachedContents/1"],
            ),
            (
                Wire::Gemini,
                r#"{"contents":[{"parts":[{"fileData":{"fileUri":"https://www.youtube.com/watch?v=1"}},{"file_data":{"file_uri":"gs://b/o"}},
                    {"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/1"}}]}]}"#,
                &["gs://b/o", "https://generativelanguage.googleapis.com/v1beta/files/1"],
            ),
            (
                Wire::Gemini,
                r#"{"tools":[{"fileSearch":{"fileSearchStoreNames":["fileSearchStores/1"]}}]}"#,
                &["fileSearchStores/1"],
            ),
        ];
        for (wire, body, wanted) in cases {
            assert_eq!(named(wire, body), wanted, "{body}");
        }
    }

    #[test]
    fn what_a_reply_gives_is_found_and_what_a_model_only_says_is_not() {
        let reply = r#"{"container":{"id":"c","expires_at":"x"},"content":[
            {"type":"bash_code_execution_tool_result","content":{"type":"r","content":[{"type":"o","file_id":"f"}]}},
            {"type":"tool_use","input":{"file_id":"said"}},{"type":"text","text":"\"file_id\":\"said\""}]}"#;
        let given: Vec<String> =
            given_objects(Wire::Anthropic, json::check(reply).unwrap()).into_iter().collect();
        assert_eq!(given, ["c", "f"]);
    }

    #[test]
    fn addresses_that_are_made_to_be_misread_are_private() {
        for public in
            ["https://www.youtube.com/watch?v=1", "https://example.com/a.pdf", "http://example.com:8080/a"]
        {
            assert!(!is_private(public), "{public}");
        }
        for private in [
            "files/1",
            "gs://bucket/object",
            "HTTPS://GenerativeLanguage.GoogleAPIs.com/v1beta/files/1",
            "https://example.com@generativelanguage.googleapis.com/v1beta/files/1",
            "https://generativelanguage.googleapis.com.:443/v1beta/files/1",
            "https://example.com\\@storage.googleapis.com/x",
            "https:///x",
        ] {
            assert!(is_private(private), "{private}");
        }
    }
}
