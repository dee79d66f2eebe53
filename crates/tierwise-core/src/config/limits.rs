//! Amounts of a tier's memory, the values of tenants' floors and caps.

use toml::Spanned;
use toml::de::DeValue;

use super::error::ConfigError;
use super::section::Section;
use super::slip;
use crate::tenant::Limit;
use crate::units::Bytes;

/// The allowed forms of a limit.
const LIMIT: &str = "a size (\"16GiB\"), a share of the resident set (0.7), \"auto\", or \"none\"";

impl Section<'_> {
    /// Reads an amount of a tier's memory: a size, a share of the resident set (a number from 0 to
    /// 1), "auto", or "none", which is `Some(None)`. An absent key is `None`.
    ///
    /// # Errors
    /// The key holds something else.
    pub fn limit_or_none(&self, key: &'static str) -> Result<Option<Option<Limit>>, ConfigError> {
        let Some(value) = self.value(key).map(Spanned::get_ref) else { return Ok(None) };
        self.parse_limit(key, value).map(Some)
    }

    fn parse_limit(&self, key: &str, value: &DeValue<'_>) -> Result<Option<Limit>, ConfigError> {
        let share =
            |text: &str| text.parse().ok().filter(|s| (0.0..=1.0).contains(s)).map(Limit::Resident);
        let parsed = match value {
            DeValue::String(text) if text == "auto" => Some(Some(Limit::Auto)),
            DeValue::String(text) if text == "none" => Some(None),
            DeValue::String(text) => Bytes::parse(text).ok().map(|b| Some(Limit::Bytes(b))),
            DeValue::Float(f) => share(f.as_str()).map(Some),
            DeValue::Integer(i) => share(i.as_str()).map(Some),
            _ => None,
        };
        parsed.ok_or_else(|| {
            let hint = slip::hint(key, value, &(0.0..=1.0));
            self.wrong(key, value, format!("{LIMIT}{hint}"))
        })
    }

    /// Limits by tier, fastest first: one for the fastest tier, or a list; "none" for a tier
    /// without one.
    ///
    /// # Errors
    /// The key holds something else.
    pub fn limits(&self, key: &'static str) -> Result<Vec<Option<Limit>>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let all = match value.get_ref() {
            DeValue::Array(array) => array.iter().collect(),
            _ => vec![value],
        };
        all.into_iter().map(|item| self.parse_limit(key, item.get_ref())).collect()
    }
}
