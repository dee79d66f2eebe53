//! Values of a plan file with their places, for keys that no code knows: parameters.

use tierwise_core::config::{ConfigError, nearest};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

/// The file that is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SweepFile<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl SweepFile<'_> {
    /// An error at a byte of the file.
    pub(crate) fn error(
        &self,
        offset: usize,
        key: &str,
        problem: impl Into<String>,
    ) -> ConfigError {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        ConfigError {
            file: self.file.to_owned(),
            line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
            key: key.to_owned(),
            problem: problem.into(),
        }
    }

    /// Refuses keys that no plan has.
    pub(crate) fn only(&self, table: &DeTable<'_>, known: &[&str]) -> Result<(), ConfigError> {
        for key in table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let near = nearest(name, known.iter().copied());
                let advice = near.map_or_else(
                    || format!("; allowed: {}", known.join(", ")),
                    |near| format!("; did you mean \"{near}\"?"),
                );
                return Err(self.error(key.span().start, name, format!("unknown key{advice}")));
            }
        }
        Ok(())
    }
}

/// A value of the file.
#[derive(Debug, Clone)]
pub(crate) struct Spot<'a> {
    /// Its key with the tables' names.
    pub key: String,
    /// Its key below the table that was asked for.
    pub path: String,
    /// Its first byte.
    pub offset: usize,
    pub value: &'a DeValue<'a>,
}

/// The values of a table and of the tables in it, in alphabetical order.
pub(crate) fn leaves<'a>(name: &str, table: &'a DeTable<'a>, out: &mut Vec<Spot<'a>>) {
    walk(name, "", table, out);
}

fn walk<'a>(name: &str, path: &str, table: &'a DeTable<'a>, out: &mut Vec<Spot<'a>>) {
    for (key, value) in table.iter() {
        let key: &str = key.get_ref();
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match value.get_ref() {
            DeValue::Table(inner) => walk(name, &path, inner, out),
            found => out.push(Spot {
                key: format!("{name}.{path}"),
                path,
                offset: value.span().start,
                value: found,
            }),
        }
    }
}

/// A single value; `None` for a list, a table or a time.
pub(crate) fn single(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::String(text.to_string())),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(Value::Integer),
        DeValue::Float(n) => n.as_str().parse().ok().map(Value::Float),
        DeValue::Boolean(flag) => Some(Value::Boolean(*flag)),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// A whole number from zero up.
pub(crate) fn whole(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(n) => u64::from_str_radix(n.as_str(), n.radix()).ok(),
        _ => None,
    }
}

/// The elements of a list that is not empty.
pub(crate) fn elements<'a>(value: &'a DeValue<'a>) -> Option<&'a [Spanned<DeValue<'a>>]> {
    match value {
        DeValue::Array(array) if !array.is_empty() => Some(array),
        _ => None,
    }
}
