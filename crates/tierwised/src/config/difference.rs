//! The differences between two configurations as lines, for a reload to print.

use serde_json::Value;

use super::Config;

/// Returns every key whose value differs, as `key: old -> new`, in the order of the file. Tenants
/// are compared by name.
///
/// ```
/// use tierwised::config::{Config, difference};
///
/// let old = Config::default();
/// let mut new = old.clone();
/// new.policy = "multi-clock".into();
/// new.cpu.budget_percent = 2.0;
/// assert_eq!(
///     difference(&old, &new),
///     ["policy: \"tierwise\" -> \"multi-clock\"", "cpu.budget_percent: 1.0 -> 2.0"]
/// );
/// ```
pub fn difference(old: &Config, new: &Config) -> Vec<String> {
    let value = |config: &Config| serde_json::to_value(config).unwrap_or(Value::Null);
    let mut lines = Vec::new();
    compare("", &value(old), &value(new), &mut lines);
    lines
}

fn compare(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let added = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(added) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, at(a.get(key)), at(b.get(key)), lines);
            }
        }
        (Value::Array(_), _) | (_, Value::Array(_)) if named(old) && named(new) => {
            let (a, b) = (by_name(old), by_name(new));
            let added = b.iter().filter(|(name, _)| !a.iter().any(|(n, _)| n == name));
            for (name, _) in a.iter().chain(added) {
                let of = |all: &[(String, Value)]| {
                    all.iter().find(|(n, _)| n == name).map_or(Value::Null, |(_, v)| v.clone())
                };
                compare(&format!("{path}[{name}]"), &of(&a), &of(&b), lines);
            }
        }
        (Value::Null, Value::Object(_)) => lines.push(format!("{path}: added")),
        (Value::Object(_), Value::Null) => lines.push(format!("{path}: removed")),
        (a, b) if a != b => lines.push(format!("{path}: {} -> {}", word(a), word(b))),
        _ => {}
    }
}

fn at(value: Option<&Value>) -> &Value {
    value.unwrap_or(&Value::Null)
}

fn word(value: &Value) -> String {
    if value.is_null() { "unset".into() } else { value.to_string() }
}

/// Returns true for null and for a list of tables with names.
fn named(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(|item| item.get("name").is_some()),
        other => other.is_null(),
    }
}

fn by_name(value: &Value) -> Vec<(String, Value)> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |item: &Value| item["name"].as_str().unwrap_or_default().to_owned();
    items.iter().map(|item| (name(item), item.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse("t.toml", text).unwrap()
    }

    #[test]
    fn tenants_are_compared_by_name() {
        let old = config(
            "[[tenant]]\nname = \"a\"\npids = [1]\n[[tenant]]\nname = \"b\"\npids = [2]\nfloor \
             = \"1GB\"\n",
        );
        let new = config(
            "[[tenant]]\nname = \"b\"\npids = [2]\nfloor = \"2GB\"\n[[tenant]]\nname \
             = \"c\"\npids = [3]\n",
        );
        let expected =
            ["tenant[a]: removed", "tenant[b].floor: \"1GB\" -> \"2GB\"", "tenant[c]: added"];
        assert_eq!(difference(&old, &new), expected);
        assert_eq!(difference(&new, &new), [""; 0]);
        let none = config("");
        assert_eq!(difference(&none, &new), ["tenant[b]: added", "tenant[c]: added"]);
    }
}
