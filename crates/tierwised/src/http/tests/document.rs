//! Tests of the OpenAPI document against the answers.

use serde_json::Value;

use super::client::{EventStream, get};
use super::start;

fn document() -> (super::HttpServer, Value) {
    let (server, _views) = start();
    let document = get(&server, "/api/v1/openapi.json").json();
    (server, document)
}

#[test]
fn api_description_covers_all_paths() {
    let (_server, document) = document();
    assert_eq!(document["info"]["title"], "tierwised");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let message = |what: &Value, place: &str| {
        assert!(what["description"].as_str().is_some_and(|text| text.len() > 3), "{place}");
    };
    let paths = document["paths"].as_object().unwrap();
    for (path, item) in paths {
        let operation = &item["get"];
        assert!(operation["summary"].is_string(), "{path}");
        assert_eq!(item.as_object().unwrap().len(), 1, "{path}: reading only");
        operation["responses"]
            .as_object()
            .unwrap()
            .values()
            .for_each(|answer| message(answer, path));
        operation["parameters"].as_array().into_iter().flatten().for_each(|key| message(key, path));
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        message(schema, name);
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            message(property, &format!("{name}.{key}"));
        }
    }
}

#[test]
fn every_answer_matches_its_schema() {
    let (server, document) = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        let content = item["get"]["responses"]["200"]["content"].as_object().unwrap();
        let (media_type, body) = content.iter().next().unwrap();
        let answered = if media_type == "text/event-stream" {
            EventStream::open(&server).1.next().unwrap()
        } else {
            let answer = get(&server, &path.replace("{name}", "shop"));
            assert_eq!(answer.status, 200, "{path}");
            assert!(answer.header("content-type").unwrap().starts_with(media_type), "{path}");
            if media_type != "application/json" {
                continue;
            }
            answer.json()
        };
        fits(&document, &body["schema"], &answered, path);
    }
}

/// Asserts that a value has the form of a schema: references, alternatives, types, and every key of
/// an object known and present.
fn fits(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let found = document.pointer(reference.trim_start_matches('#')).unwrap();
        return fits(document, found, value, place);
    }
    let Some(kind) = kind_of(schema, value) else {
        // A schema without a type takes anything.
        assert!(schema["type"].is_null(), "{place}: {value} is no {}", schema["type"]);
        return;
    };
    match kind {
        "array" => value.as_array().unwrap().iter().enumerate().for_each(|(index, item)| {
            fits(document, &schema["items"], item, &format!("{place}[{index}]"));
        }),
        "object" => object_fits(document, schema, value, place),
        "string" if schema["enum"].is_array() => {
            assert!(schema["enum"].as_array().unwrap().contains(value), "{place}: {value}");
        }
        _ => {}
    }
}

fn object_fits(document: &Value, schema: &Value, value: &Value, place: &str) {
    let Some(properties) = schema["properties"].as_object() else { return };
    for (key, item) in value.as_object().unwrap() {
        let property =
            properties.get(key).unwrap_or_else(|| panic!("{place}.{key} is not described"));
        fits(document, property, item, &format!("{place}.{key}"));
    }
    for key in schema["required"].as_array().into_iter().flatten() {
        assert!(!value[key.as_str().unwrap()].is_null(), "{place}.{key} is missing");
    }
}

/// The value's type among the schema's types.
fn kind_of<'a>(schema: &'a Value, value: &Value) -> Option<&'a str> {
    let has = |kind: &str| match kind {
        "array" => value.is_array(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    };
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => Vec::from_iter(kind.as_str()),
    };
    kinds.into_iter().find(|kind| has(kind))
}
