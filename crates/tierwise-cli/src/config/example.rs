//! An example configuration, generated from the schema, so that it cannot be stale.

use super::schema::{ConfigTable, Key};

/// Columns of the comments, beside the two of "# ".
const WIDTH: usize = 96;

/// Returns every key with its meaning. A key with a default is a comment: the default holds anyway.
pub fn example(tables: &[ConfigTable]) -> String {
    let mut text = String::from(
        "# The configuration of tierwised. Every key has its default; remove its \"#\" to change \
         it.\n\
         # `tierwise config check FILE` checks it; `tierwise daemon reload` loads it into a \
         running daemon.\n",
    );
    for table in tables {
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
        if !table.name.is_empty() {
            comment(&mut text, &table.about);
            let head = if table.many {
                format!("#[[{}]]\n", table.name)
            } else {
                format!("[{}]\n", table.name)
            };
            text.push_str(&head);
        }
        for key in &table.keys {
            one(&mut text, key, table.name.is_empty());
        }
    }
    text
}

fn one(text: &mut String, key: &Key, spaced: bool) {
    comment(text, &key.about);
    text.push_str(&format!("#{} = {}\n", key.name, key.example));
    if spaced {
        text.push('\n');
    }
}

fn comment(text: &mut String, about: &str) {
    let mut line = String::new();
    for word in about.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            text.push_str(&format!("# {line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        text.push_str(&format!("# {line}\n"));
    }
}

#[cfg(test)]
mod tests {
    use tierwised::config::Config;

    use super::super::schema::tables;
    use super::*;

    #[test]
    fn as_printed_it_has_the_defaults() {
        let text = example(&tables());
        assert_eq!(Config::parse("example", &text).unwrap(), Config::default());
        assert!(!text.contains("\n\n\n"), "{text}");
    }

    #[test]
    fn every_example_key_is_accepted() {
        let tables = tables();
        for table in &tables {
            let required = |key: &&Key| key.required;
            for key in &table.keys {
                let mut text = match (table.name.as_str(), table.many) {
                    ("", _) => String::new(),
                    (name, false) => format!("[{name}]\n"),
                    (name, true) => format!("[[{name}]]\n"),
                };
                for key in table.keys.iter().filter(required).filter(|k| k.name != key.name) {
                    text.push_str(&format!("{} = {}\n", key.name, key.example));
                }
                let names_processes = ["cgroup", "pids", "qemu"].contains(&key.name.as_str());
                if table.name == "tenant" && !names_processes {
                    text.push_str("pids = [1]\n");
                }
                if ["slo_ms", "full_load"].contains(&key.name.as_str()) {
                    text.push_str("class = \"latency-critical\"\n");
                }
                if key.name == "full_load" {
                    text.push_str("slo_ms = 2\n");
                }
                text.push_str(&format!("{} = {}\n", key.name, key.example));
                Config::parse("example", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            }
        }
    }
}
