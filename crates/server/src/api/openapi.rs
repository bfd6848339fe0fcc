//! The `OpenAPI` document, made from the rows that the router is made from.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::operation::{Operation, RequestBody, ResponseBody, Right};

/// The document.
pub(crate) fn document(operations: &[Operation]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations {
        let path = paths.entry(format!("/api{}", operation.path)).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(operation.verb.name().into(), described(operation, &mut schemas));
        }
    }
    let problem = schemas.subschema_for::<super::shapes::ProblemShape>();
    let definitions = schemas.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Scrollback",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Records of conversations, the views made of them, and the calls that saw those. Everything belongs to the tenant of the key that asks; without keys that is `default`.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "responses": { "problem": {
                "description": "What went wrong, and what to do about it.",
                "content": { "application/problem+json": { "schema": problem } },
            } },
        },
        "security": [{ "key": [] }, {}],
    })
}

fn described(operation: &Operation, schemas: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = parts(operation.path)
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    if let Some(query) = operation.query {
        parameters.extend(from_query(&query(schemas)));
    }
    let content = match operation.answered {
        ResponseBody::Json(shape) => json!({ "application/json": { "schema": shape(schemas) } }),
        ResponseBody::Text(media) => json!({ media: { "schema": { "type": "string" } } }),
    };
    let mut responses = Map::new();
    responses.insert(
        operation.status.as_u16().to_string(),
        json!({ "description": operation.says, "content": content }),
    );
    for status in operation.statuses() {
        responses.insert(status.to_string(), json!({ "$ref": "#/components/responses/problem" }));
    }
    let may = match operation.right {
        Right::Read => "Requires a key with scope `read` or `admin`.",
        Right::Write => "Requires a key with scope `admin`.",
    };
    let mut described = json!({
        "operationId": operation.name,
        "summary": operation.says,
        "description": may,
        "parameters": parameters,
        "responses": responses,
    });
    let body = match operation.given {
        RequestBody::Nothing => None,
        RequestBody::Json(shape) => Some(json!({ "application/json": { "schema": shape(schemas) } })),
        RequestBody::Bytes => Some(json!({ "application/octet-stream": { "schema": {} } })),
    };
    if let (Some(content), Some(members)) = (body, described.as_object_mut()) {
        members.insert("requestBody".into(), json!({ "required": true, "content": content }));
    }
    described
}

/// The names in a path's braces.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn from_query(query: &Schema) -> Vec<Value> {
    let required: Vec<&str> = query
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let Some(members) = query.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let says = schema.as_object_mut().and_then(|members| members.remove("description"));
        let needed = required.contains(&name.as_str());
        json!({ "name": name, "in": "query", "required": needed, "description": says.unwrap_or_default(), "schema": schema })
    };
    members.iter().map(parameter).collect()
}

impl Operation {
    /// The statuses of everything that may go wrong.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let mut statuses = vec![400, 401, 403, 503];
        if self.path.contains('{') {
            statuses.push(404);
        }
        if !matches!(self.given, RequestBody::Nothing) {
            statuses.extend([408, 413, 415]);
        }
        statuses.extend_from_slice(self.problems);
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    }
}
