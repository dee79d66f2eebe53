//! A table of a configuration file, read key by key.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, nearest};
use super::{line_of, slip};
use crate::units::Bytes;

/// The allowed sizes.
const SIZE: &str = "a size above zero, up to 4096TiB, for instance \"16GiB\"";

/// A table being read. It records the keys that were read, so that [`Section::finish`] can refuse
/// the others.
#[derive(Debug)]
pub struct Section<'a> {
    file: &'a str,
    text: &'a str,
    path: String,
    offset: usize,
    table: Option<&'a DeTable<'a>>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(
        file: &'a str,
        text: &'a str,
        path: String,
        offset: usize,
        table: Option<&'a DeTable<'a>>,
    ) -> Self {
        Self { file, text, path, offset, table, asked: RefCell::default() }
    }

    /// A section without any key: every value is its default.
    pub fn empty() -> Section<'static> {
        Section::new("(defaults)", "", String::new(), 0, None)
    }

    /// Returns true if the file has this section.
    pub fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// The keys present, in alphabetical order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.table.into_iter().flat_map(|t| t.keys()).map(|k| k.get_ref().as_ref())
    }

    pub(super) fn value(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.borrow_mut().push(key);
        self.table.and_then(|t| t.get(key))
    }

    fn key_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Makes an error at a key of this section, or at the section itself if the key is absent.
    pub fn error(&self, key: &str, problem: impl Display) -> ConfigError {
        let offset = self.table.and_then(|t| t.get(key)).map_or(self.offset, |v| v.span().start);
        ConfigError {
            file: self.file.to_owned(),
            line: line_of(self.text, offset),
            key: self.key_path(key),
            problem: problem.to_string(),
        }
    }

    pub(super) fn wrong(
        &self,
        key: &str,
        found: &DeValue<'_>,
        allowed: impl Display,
    ) -> ConfigError {
        self.error(key, format!("found {}; allowed: {allowed}", describe(found)))
    }

    /// A sub-table; empty if absent.
    ///
    /// # Errors
    /// The key holds something else.
    pub fn section(&self, key: &'static str) -> Result<Section<'a>, ConfigError> {
        let at =
            |offset, table| Section::new(self.file, self.text, self.key_path(key), offset, table);
        match self.value(key) {
            None => Ok(at(self.offset, None)),
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => Ok(at(value.span().start, Some(table))),
                other => Err(self.wrong(key, other, format!("a table, [{}]", self.key_path(key)))),
            },
        }
    }

    /// An array of tables, in order; empty if absent.
    ///
    /// # Errors
    /// The key holds something else.
    pub fn sections(&self, key: &'static str) -> Result<Vec<Section<'a>>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let allowed = || format!("an array of tables, [[{}]]", self.key_path(key));
        let DeValue::Array(array) = value.get_ref() else {
            return Err(self.wrong(key, value.get_ref(), allowed()));
        };
        let mut out = Vec::with_capacity(array.len());
        for (i, item) in array.iter().enumerate() {
            let DeValue::Table(table) = item.get_ref() else {
                return Err(self.wrong(key, item.get_ref(), allowed()));
            };
            let path = format!("{}[{i}]", self.key_path(key));
            out.push(Section::new(self.file, self.text, path, item.span().start, Some(table)));
        }
        Ok(out)
    }

    /// A text, if present.
    ///
    /// # Errors
    /// The key holds something else.
    pub fn text(&self, key: &'static str) -> Result<Option<&'a str>, ConfigError> {
        match self.value(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text.as_ref())),
            Some(other) => Err(self.wrong(key, other, "a text in quotes")),
        }
    }

    /// A text that must be present.
    ///
    /// # Errors
    /// The key is absent, or holds something else.
    pub fn required_text(&self, key: &'static str) -> Result<&'a str, ConfigError> {
        self.text(key)?.ok_or_else(|| self.error(key, "missing; write a text in quotes"))
    }

    /// A list of texts; empty if absent.
    ///
    /// # Errors
    /// The key holds something else.
    pub fn texts(&self, key: &'static str) -> Result<Vec<&'a str>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let wrong = |found| self.wrong(key, found, "a list of texts, [\"a\", \"b\"]");
        let DeValue::Array(array) = value.get_ref() else { return Err(wrong(value.get_ref())) };
        array
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(text) => Ok(text.as_ref()),
                other => Err(wrong(other)),
            })
            .collect()
    }

    /// Reads true or false, or returns the default.
    ///
    /// # Errors
    /// The key holds something else.
    pub fn flag_or(&self, key: &'static str, default: bool) -> Result<bool, ConfigError> {
        match self.value(key).map(Spanned::get_ref) {
            None => Ok(default),
            Some(DeValue::Boolean(on)) => Ok(*on),
            Some(other) => Err(self.wrong(key, other, "true or false")),
        }
    }

    /// A whole number within `allowed`, if present.
    ///
    /// # Errors
    /// The value is not a whole number, or is outside the range.
    pub fn whole(
        &self,
        key: &'static str,
        allowed: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ConfigError> {
        let Some(value) = self.value(key).map(Spanned::get_ref) else { return Ok(None) };
        let parsed = match value {
            DeValue::Integer(i) => u64::from_str_radix(i.as_str(), i.radix()).ok(),
            _ => None,
        };
        parsed.filter(|n| allowed.contains(n)).map(Some).ok_or_else(|| {
            let hint = slip::whole(key, value, &allowed);
            self.wrong(
                key,
                value,
                format!("a whole number {}{hint}", range_words(&allowed, &u64::MAX)),
            )
        })
    }

    /// A whole number within `allowed`.
    ///
    /// # Errors
    /// Those of [`Section::whole`].
    pub fn whole_or(
        &self,
        key: &'static str,
        default: u64,
        allowed: RangeInclusive<u64>,
    ) -> Result<u64, ConfigError> {
        Ok(self.whole(key, allowed)?.unwrap_or(default))
    }

    /// A list of whole numbers; empty if absent.
    ///
    /// # Errors
    /// The key holds something else.
    pub fn wholes(&self, key: &'static str) -> Result<Vec<u64>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let wrong = |found| self.wrong(key, found, "a list of whole numbers, [10, 20]");
        let DeValue::Array(array) = value.get_ref() else { return Err(wrong(value.get_ref())) };
        let whole = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
            DeValue::Integer(i) => u64::from_str_radix(i.as_str(), i.radix()).ok(),
            _ => None,
        };
        array.iter().map(|item| whole(item).ok_or_else(|| wrong(item.get_ref()))).collect()
    }

    /// A number within `allowed`, if present.
    ///
    /// # Errors
    /// The value is not a number, or is outside the range.
    pub fn number(
        &self,
        key: &'static str,
        allowed: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ConfigError> {
        let Some(value) = self.value(key).map(Spanned::get_ref) else { return Ok(None) };
        let parsed = match value {
            DeValue::Integer(i) => i.as_str().parse::<f64>().ok(),
            DeValue::Float(f) => f.as_str().parse::<f64>().ok(),
            _ => None,
        };
        parsed.filter(|n| allowed.contains(n)).map(Some).ok_or_else(|| {
            let hint = slip::hint(key, value, &allowed);
            self.wrong(key, value, format!("a number {}{hint}", range_words(&allowed, &f64::MAX)))
        })
    }

    /// A number within `allowed`.
    ///
    /// # Errors
    /// Those of [`Section::number`].
    pub fn number_or(
        &self,
        key: &'static str,
        default: f64,
        allowed: RangeInclusive<f64>,
    ) -> Result<f64, ConfigError> {
        Ok(self.number(key, allowed)?.unwrap_or(default))
    }

    /// A list of numbers within `allowed`; empty if absent.
    ///
    /// # Errors
    /// The key holds something else, or a number outside the range.
    pub fn numbers(
        &self,
        key: &'static str,
        allowed: RangeInclusive<f64>,
    ) -> Result<Vec<f64>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let words = range_words(&allowed, &f64::MAX);
        let wrong = |found| {
            let hint = slip::hint(key, found, &allowed);
            self.wrong(key, found, format!("a list of numbers {words}{hint}"))
        };
        let DeValue::Array(array) = value.get_ref() else { return Err(wrong(value.get_ref())) };
        let number = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
            DeValue::Integer(i) => i.as_str().parse::<f64>().ok(),
            DeValue::Float(f) => f.as_str().parse::<f64>().ok(),
            _ => None,
        };
        let within = |item| number(item).filter(|n| allowed.contains(n));
        array.iter().map(|item| within(item).ok_or_else(|| wrong(item.get_ref()))).collect()
    }

    /// A time in whole milliseconds, or the default; the key ends in `_ms`.
    ///
    /// # Errors
    /// Those of [`Section::whole`], in milliseconds.
    pub fn millis_or(
        &self,
        key: &'static str,
        default: Duration,
        allowed: RangeInclusive<u64>,
    ) -> Result<Duration, ConfigError> {
        Ok(self.whole(key, allowed)?.map_or(default, Duration::from_millis))
    }

    /// A size: whole bytes, or a text like "64KiB". Never zero, and in either form no larger than
    /// [`Bytes::parse`] allows.
    ///
    /// # Errors
    /// The value is not a size, is zero, or is larger than any memory.
    pub fn bytes(&self, key: &'static str) -> Result<Option<Bytes>, ConfigError> {
        let Some(value) = self.value(key).map(Spanned::get_ref) else { return Ok(None) };
        let parsed = match value {
            DeValue::Integer(i) => u64::from_str_radix(i.as_str(), i.radix())
                .ok()
                .and_then(|bytes| Bytes::parse(&bytes.to_string()).ok()),
            DeValue::String(text) => Bytes::parse(text).ok(),
            _ => None,
        };
        parsed.filter(|b| b.0 > 0).map(Some).ok_or_else(|| self.wrong(key, value, SIZE))
    }

    /// A size, or the default.
    ///
    /// # Errors
    /// Those of [`Section::bytes`].
    pub fn bytes_or(&self, key: &'static str, default: Bytes) -> Result<Bytes, ConfigError> {
        Ok(self.bytes(key)?.unwrap_or(default))
    }

    /// Reads one of the allowed words and returns its value, or the default.
    ///
    /// # Errors
    /// The key holds another word; the error has the nearest one and all allowed ones.
    pub fn choice_or<T: Clone>(
        &self,
        key: &'static str,
        default: T,
        allowed: &[(&str, T)],
    ) -> Result<T, ConfigError> {
        let Some(word) = self.text(key)? else { return Ok(default) };
        if let Some((_, value)) = allowed.iter().find(|(name, _)| *name == word) {
            return Ok(value.clone());
        }
        let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
        Err(self.unknown_name(key, word, &names))
    }

    /// Makes the error for a name that is not in `known`.
    pub fn unknown_name(&self, key: &str, found: &str, known: &[&str]) -> ConfigError {
        let hint = nearest(found, known.iter().copied())
            .map_or(String::new(), |name| format!(" (did you mean \"{name}\"?)"));
        self.error(key, format!("found \"{found}\"{hint}; allowed: {}", known.join(", ")))
    }

    /// Refuses the first of `keys` that is present, because it has no effect, for the reason given.
    ///
    /// # Errors
    /// One of the keys is present.
    pub fn refuse_ignored(&self, keys: &[&str], why: &str) -> Result<(), ConfigError> {
        match keys.iter().find(|key| self.table.is_some_and(|table| table.contains_key(**key))) {
            None => Ok(()),
            Some(key) => Err(self.error(key, format!("has no effect: {why}; remove it"))),
        }
    }

    /// Refuses every key that was not read. Call it last.
    ///
    /// # Errors
    /// The first unknown key, with the nearest known one.
    pub fn finish(&self) -> Result<(), ConfigError> {
        let asked = self.asked.borrow();
        for key in self.table.into_iter().flat_map(|t| t.keys()) {
            let name = key.get_ref().as_ref();
            if !asked.contains(&name) {
                let advice = nearest(name, asked.iter().copied()).map_or_else(
                    || format!("allowed: {}", asked.join(", ")),
                    |near| format!("did you mean \"{near}\"?"),
                );
                let mut error = self.error(name, format!("unknown key; {advice}"));
                error.line = line_of(self.text, key.span().start);
                return Err(error);
            }
        }
        Ok(())
    }
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(i) => i.to_string(),
        DeValue::Float(f) => f.to_string(),
        DeValue::Boolean(b) => b.to_string(),
        DeValue::Datetime(d) => d.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn range_words<T: PartialOrd + Display>(range: &RangeInclusive<T>, endless: &T) -> String {
    if range.end() >= endless {
        format!("of at least {}", range.start())
    } else {
        format!("from {} to {}", range.start(), range.end())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Document;

    fn refusal(
        text: &str,
        read: impl Fn(&super::Section<'_>) -> Option<super::ConfigError>,
    ) -> String {
        let document = Document::parse("x.toml", text).unwrap();
        read(&document.root()).unwrap().to_string()
    }

    #[test]
    fn errors_name_place_and_allowed_values() {
        assert_eq!(
            refusal("\nn = 0", |s| s.whole("n", 1..=9).err()),
            "x.toml:2: n: found 0; allowed: a whole number from 1 to 9"
        );
        assert_eq!(
            refusal("n = -1", |s| s.whole("n", 1..=u64::MAX).err()),
            "x.toml:1: n: found -1; allowed: a whole number of at least 1; did you mean 1?"
        );
        assert_eq!(
            refusal("c = \"0GiB\"", |s| s.bytes("c").err()),
            "x.toml:1: c: found \"0GiB\"; allowed: a size above zero, up to 4096TiB, for instance \
             \"16GiB\""
        );
        assert_eq!(
            refusal("k = \"anno\"", |s| s.choice_or("k", 0, &[("anon", 1), ("file", 2)]).err()),
            "x.toml:1: k: found \"anno\" (did you mean \"anon\"?); allowed: anon, file"
        );
        assert_eq!(
            refusal("[a]\n[[a.b]]\nx = 1", |s| {
                s.section("a").unwrap().sections("b").unwrap()[0].flag_or("x", true).err()
            }),
            "x.toml:3: a.b[0].x: found 1; allowed: true or false"
        );
    }

    #[test]
    fn sizes_have_one_limit_in_all_forms() {
        let read = |size: &str| {
            let text = format!("c = {size}");
            let document = Document::parse("x.toml", &text).unwrap();
            document.root().bytes("c").map(|bytes| bytes.unwrap().0).map_err(|e| e.to_string())
        };
        for size in ["4503599627370496", "0x10000000000000", "\"4503599627370496\"", "\"4096TiB\""]
        {
            assert_eq!(read(size), Ok(1 << 52), "{size}");
        }
        // Whole bytes stay exact up to the limit.
        assert_eq!(read("4503599627370495"), Ok((1 << 52) - 1));
        for size in ["4503599627370497", "0x10000000000001", "\"4503599627370497\"", "\"4097TiB\""]
        {
            assert!(read(size).unwrap_err().contains(super::SIZE), "{size}");
        }
    }

    #[test]
    fn broken_toml_names_its_line() {
        let error = Document::parse("x.toml", "a = 1\nb = = 2").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(error.problem.starts_with("not valid TOML"), "{error}");
    }
}
