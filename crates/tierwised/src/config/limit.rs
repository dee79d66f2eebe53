//! Amounts and limits as they are written: `"2MiB"`, `"25%"`, `"auto"`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tierwise_core::tenant::Limit;
use tierwise_core::units::Bytes;

/// An amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
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

    /// How much it is.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }
}

impl TryFrom<String> for Amount {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = Bytes::parse(&text)?;
        Ok(Self { text, bytes })
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
        json_schema!({"type": "string", "description": "An amount of memory: 4KiB, 2MiB, 80GB.", "examples": ["80GB"]})
    }
}

/// A floor or a cap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LimitText {
    text: String,
    limit: Limit,
}

impl LimitText {
    /// What it says.
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
            let percent: f64 = number.trim().parse().map_err(|_| allowed(&text))?;
            if !(0.0..=100.0).contains(&percent) {
                return Err(allowed(&text));
            }
            Limit::Resident(percent / 100.0)
        } else {
            Limit::Bytes(Bytes::parse(&text).map_err(|_| allowed(&text))?)
        };
        Ok(Self { text, limit })
    }
}

fn allowed(text: &str) -> String {
    format!(
        "found {text:?}; allowed: an amount (\"80GB\"), a part of what the tenant has resident (\"25%\"), or, for a \
         floor, \"auto\""
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
            "description": "An amount of memory (80GB), a part of what the tenant has resident (25%), or auto.",
            "examples": ["80GB", "25%", "auto"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_as_they_are_written() {
        let limit = |text: &str| LimitText::try_from(text.to_owned()).map(|l| l.limit());
        assert_eq!(limit("80GB"), Ok(Limit::Bytes(Bytes(80_000_000_000))));
        assert_eq!(limit("25%"), Ok(Limit::Resident(0.25)));
        assert_eq!(limit("auto"), Ok(Limit::Auto));
        for bad in ["-1%", "101%", "x%", "NaN%", "much", ""] {
            assert!(limit(bad).unwrap_err().contains("allowed: an amount"), "{bad}");
        }
    }
}
