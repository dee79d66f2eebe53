//! Amounts and limits as text: `"2MiB"`, `"25%"`, `"auto"`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tierwise_core::tenant::Limit;
use tierwise_core::units::Bytes;

/// A value in the place of an amount or a limit. A number is refused; the error suggests a text
/// with the likely unit.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "allowed: an amount in quotes with its unit, as \"80GB\"")]
enum Written {
    Text(String),
    Whole(i64),
    Real(f64),
}

impl TryFrom<Written> for Amount {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let (found, meant) = match written {
            Written::Text(text) => return Self::try_from(text),
            Written::Whole(bytes) => (bytes.to_string(), u64::try_from(bytes).ok()),
            Written::Real(number) => (number.to_string(), None),
        };
        let meant =
            meant.map_or_else(String::new, |bytes| format!("; did you mean \"{}\"?", Bytes(bytes)));
        Err(format!("found {found}; allowed: an amount in quotes with its unit{meant}"))
    }
}

impl TryFrom<Written> for LimitText {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let number = match written {
            Written::Text(text) => return Self::try_from(text),
            Written::Whole(number) => number as f64,
            Written::Real(number) => number,
        };
        // Up to one it is a fraction, above one a percentage.
        let percent = if number <= 1.0 { number * 100.0 } else { number };
        let meant = if percent > 0.0 && percent <= 100.0 {
            format!("; did you mean \"{percent}%\"?")
        } else {
            String::new()
        };
        Err(allowed(&number.to_string()) + &meant)
    }
}

/// An amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct Amount {
    text: String,
    bytes: Bytes,
}

impl Amount {
    /// One of the defaults in this crate.
    pub(super) fn new(text: &'static str) -> Self {
        let bytes = Bytes::parse(text).unwrap_or(Bytes(0));
        Self { text: text.into(), bytes }
    }

    /// The amount in bytes.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }
}

impl TryFrom<String> for Amount {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match Bytes::parse(&text) {
            Ok(bytes) => Ok(Self { text, bytes }),
            Err(_) => Err(format!(
                "found {text:?}; allowed: an amount of up to 4096TiB, for instance \"64KiB\" or \
                 \"1.5GiB\""
            )),
        }
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.text
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "An amount of memory: 4KiB, 2MiB, \
             80GB.", "examples": ["80GB"]})
    }
}

/// A floor or a cap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct LimitText {
    text: String,
    limit: Limit,
}

impl LimitText {
    /// The limit of an amount.
    pub fn of_bytes(bytes: Bytes) -> Self {
        Self { text: format!("{}B", bytes.0), limit: Limit::Bytes(bytes) }
    }

    /// The parsed limit.
    pub fn limit(&self) -> Limit {
        self.limit
    }
}

impl TryFrom<String> for LimitText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let limit = if text == "auto" {
            Limit::Auto
        } else if let Some(number) = text.strip_suffix('%') {
            let percent: f64 = number.trim().parse().map_err(|_| quoted(&text))?;
            if !(0.0..=100.0).contains(&percent) {
                return Err(quoted(&text));
            }
            Limit::Resident(percent / 100.0)
        } else {
            Limit::Bytes(Bytes::parse(&text).map_err(|_| quoted(&text))?)
        };
        Ok(Self { text, limit })
    }
}

fn quoted(text: &str) -> String {
    allowed(&format!("{text:?}"))
}

fn allowed(found: &str) -> String {
    format!(
        "found {found}; allowed: an amount (\"80GB\"), a part of the tenant's resident memory \
         (\"25%\"), or, for a floor, \"auto\""
    )
}

impl From<LimitText> for String {
    fn from(limit: LimitText) -> Self {
        limit.text
    }
}

impl JsonSchema for LimitText {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "An amount of memory (80GB), a part of the tenant's resident memory \
                            (25%), or auto.",
            "examples": ["80GB", "25%", "auto"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed_from_text() {
        let limit = |text: &str| LimitText::try_from(text.to_owned()).map(|l| l.limit());
        assert_eq!(limit("80GB"), Ok(Limit::Bytes(Bytes(80_000_000_000))));
        assert_eq!(limit("25%"), Ok(Limit::Resident(0.25)));
        assert_eq!(limit("auto"), Ok(Limit::Auto));
        for bad in ["-1%", "101%", "x%", "NaN%", "much", ""] {
            assert!(limit(bad).unwrap_err().contains("allowed: an amount"), "{bad}");
        }
    }
}
