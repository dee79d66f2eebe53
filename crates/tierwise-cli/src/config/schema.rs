//! The schema as a list of tables with keys, the source of the example and the reference.

use serde_json::{Map, Value};
use tierwised::config::Config;

/// A table of the file.
#[derive(Debug)]
pub struct ConfigTable {
    /// Its name; empty for the keys before the first table.
    pub name: String,
    /// True if it may occur several times: `[[name]]`.
    pub many: bool,
    /// Its purpose.
    pub about: String,
    /// Its keys, in the order of the code.
    pub keys: Vec<Key>,
}

/// A key of a table.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub about: String,
    /// The allowed values, in words.
    pub kind: String,
    /// The default, as TOML; `None` if there is none.
    pub default: Option<String>,
    /// True if it must be present.
    pub required: bool,
    /// An example value, as TOML.
    pub example: String,
}

/// Every table of the configuration.
pub fn tables() -> Vec<ConfigTable> {
    let schema = Config::schema();
    let reader = Reader { schema: &schema };
    let (tables, keys): (Vec<_>, Vec<_>) =
        properties(&schema).partition(|(_, value)| reader.table(value).is_some());
    let top = ConfigTable {
        name: String::new(),
        many: false,
        about: text(&schema, "description"),
        keys: keys.into_iter().map(|(name, value)| reader.key(name, value, &schema)).collect(),
    };
    let rest = tables.into_iter().flat_map(|(name, value)| reader.tables(name, value));
    std::iter::once(top).chain(rest).collect()
}

struct Reader<'a> {
    schema: &'a Value,
}

impl<'a> Reader<'a> {
    /// Returns the target of a reference, or the value itself.
    fn resolve(&self, value: &'a Value) -> &'a Value {
        let pointer = value["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        pointer.and_then(|pointer| self.schema.pointer(pointer)).unwrap_or(value)
    }

    /// Returns the table of a property, and true for a list of tables.
    fn table(&self, value: &'a Value) -> Option<(&'a Value, bool)> {
        let many = value["type"] == "array";
        let table = self.resolve(if many { &value["items"] } else { value });
        (table["type"] == "object").then_some((table, many))
    }

    /// Returns the table of a property, and the tables in it: `[[kubernetes.class]]`.
    fn tables(&self, name: &str, value: &'a Value) -> Vec<ConfigTable> {
        let Some((table, many)) = self.table(value) else { return Vec::new() };
        let (inner, keys): (Vec<_>, Vec<_>) =
            properties(table).partition(|(_, value)| self.table(value).is_some());
        let keys = keys.into_iter().map(|(key, value)| self.key(key, value, table)).collect();
        let about = text(value, "description");
        let outer = ConfigTable { name: name.to_owned(), many, about, keys };
        let inner =
            inner.into_iter().flat_map(|(key, value)| self.tables(&format!("{name}.{key}"), value));
        std::iter::once(outer).chain(inner).collect()
    }

    fn key(&self, name: &str, value: &'a Value, table: &Value) -> Key {
        let default = value.get("default").filter(|d| !d.is_null()).and_then(toml);
        let required = table["required"].as_array();
        let required = required.is_some_and(|all| all.iter().any(|key| key == name));
        let kinds = self.kinds(value);
        let example = kinds.iter().find_map(|kind| self.example(kind));
        Key {
            name: name.to_owned(),
            about: text(value, "description"),
            kind: kinds.iter().map(|kind| self.words(kind, value)).collect::<Vec<_>>().join(" or "),
            example: default.clone().or(example).unwrap_or_else(|| "\"\"".into()),
            default,
            required,
        }
    }

    /// Returns the alternatives of a value, without "nothing".
    fn kinds(&self, value: &'a Value) -> Vec<&'a Value> {
        let value = self.resolve(value);
        let of = value["anyOf"].as_array().or_else(|| value["oneOf"].as_array());
        match of {
            Some(all) => all
                .iter()
                .filter(|kind| kind["type"] != "null")
                .flat_map(|kind| self.kinds(kind))
                .collect(),
            None => vec![value],
        }
    }

    /// Describes the values of a kind of a key. A type describes itself; a key's own description is
    /// in the column before.
    fn words(&self, kind: &Value, key: &Value) -> String {
        if let Some(word) = kind.get("const") {
            return format!("`{word}`");
        }
        if let Some(words) = kind["enum"].as_array() {
            return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
        }
        match base(kind) {
            "string" if kind.get("examples").is_some() && !std::ptr::eq(kind, key) => {
                format!("a text: {}", text(kind, "description").trim_end_matches('.'))
            }
            "string" => "a text".into(),
            "integer" => "a whole number".into(),
            "number" => "a number".into(),
            "boolean" => "`true` or `false`".into(),
            "array" => "a list of whole numbers".into(),
            "object" => {
                let names: Vec<String> = properties(kind).map(|(n, _)| format!("`{n}`")).collect();
                format!("a table {}", names.join(", "))
            }
            other => other.to_owned(),
        }
    }

    fn example(&self, kind: &'a Value) -> Option<String> {
        if let Some(word) = kind.get("const") {
            return toml(word);
        }
        if let Some(first) = kind["examples"].get(0).or_else(|| kind["enum"].get(0)) {
            return toml(first);
        }
        Some(match base(kind) {
            "string" => "\"name\"".into(),
            "integer" => "1".into(),
            "number" => "1.0".into(),
            "boolean" => "false".into(),
            "array" => "[1]".into(),
            "object" => {
                let keys = properties(kind).filter_map(|(name, value)| {
                    let inner = self.kinds(value);
                    Some(format!("{name} = {}", inner.iter().find_map(|k| self.example(k))?))
                });
                format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
            }
            _ => return None,
        })
    }
}

/// Returns the type of a value, without "or nothing".
fn base(kind: &Value) -> &str {
    match &kind["type"] {
        Value::Array(types) => {
            types.iter().filter_map(Value::as_str).find(|&t| t != "null").unwrap_or_default()
        }
        other => other.as_str().unwrap_or_default(),
    }
}

fn properties(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value["properties"].as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().replace('\n', " ")
}

/// Formats a value as TOML: JSON's texts, numbers, switches and flat lists are the same there.
fn toml(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Object(_) => None,
        other => Some(other.to_string()),
    }
}
