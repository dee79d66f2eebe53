//! The most likely intended value for a number that is not allowed.
//!
//! ```
//! use tierwise_core::config::Document;
//!
//! let text = "fast_share = 33\nslo_ms = \"20ms\"\n";
//! let document = Document::parse("x.toml", text).unwrap();
//! let error = |key, limit| document.root().number(key, 0.0..=limit).unwrap_err().to_string();
//! assert_eq!(
//!     error("fast_share", 1.0),
//!     "x.toml:1: fast_share: found 33; allowed: a number from 0 to 1; did you mean 0.33?"
//! );
//! assert!(error("slo_ms", 1e6).ends_with("; did you mean 20?"));
//! ```

use std::ops::RangeInclusive;

use toml::de::DeValue;

/// The highest end of a range of fractions or of multiples of one. A number above such a range is
/// probably a percentage.
const FRACTION: f64 = 10.0;

/// Units of time by their names, in seconds, and the ending of a key that counts in them.
const TIMES: [(&str, &str, f64); 4] =
    [("ns", "_ns", 1e-9), ("us", "_us", 1e-6), ("ms", "_ms", 1e-3), ("s", "_s", 1.0)];

/// Returns "; did you mean 0.33?" if the value is in the range once a usual mistake is mended: a
/// percentage instead of a fraction, a needless minus sign, a unit after the number, a unit of time
/// other than the key's.
pub(super) fn hint(key: &str, found: &DeValue<'_>, allowed: &RangeInclusive<f64>) -> String {
    let meant = match found {
        DeValue::Integer(i) => of_number(key, i.as_str().parse().ok(), allowed),
        DeValue::Float(f) => of_number(key, f.as_str().parse().ok(), allowed),
        DeValue::String(text) => of_text(key, text, allowed),
        _ => None,
    };
    meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"))
}

/// Like [`hint`], for whole numbers: it suggests only whole ones.
pub(super) fn whole(key: &str, found: &DeValue<'_>, allowed: &RangeInclusive<u64>) -> String {
    let allowed = *allowed.start() as f64..=*allowed.end() as f64;
    let hint = hint(key, found, &allowed);
    let positive = matches!(found, DeValue::Integer(i) if !i.as_str().starts_with('-'));
    // Small counts are never percentages.
    let few = positive && *allowed.end() <= FRACTION;
    if few || hint.contains('.') { String::new() } else { hint }
}

fn of_number(key: &str, found: Option<f64>, allowed: &RangeInclusive<f64>) -> Option<f64> {
    let found = found.filter(|number| number.is_finite())?;
    if found < 0.0 {
        return within(allowed, -found).or_else(|| of_number(key, Some(-found), allowed));
    }
    if *allowed.end() <= FRACTION {
        return (found <= 100.0).then(|| within(allowed, found / 100.0)).flatten();
    }
    // One unit of time up or down: a number that is wrong by more is another mistake.
    let a_time = TIMES.iter().any(|&(_, ending, _)| key.ends_with(ending));
    let near = [found * 1e3, found / 1e3];
    near.into_iter().filter(|&meant| a_time && meant > 0.0).find_map(|m| within(allowed, m))
}

fn of_text(key: &str, text: &str, allowed: &RangeInclusive<f64>) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || ".-+".contains(c)));
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    match unit.trim() {
        "" => within(allowed, number).or_else(|| of_number(key, Some(number), allowed)),
        "%" if key.ends_with("percent") => within(allowed, number),
        "%" => within(allowed, number / 100.0),
        unit => {
            let seconds = TIMES.iter().find(|(name, ..)| *name == unit)?.2;
            let counts_in = TIMES.iter().rev().find(|(_, ending, _)| key.ends_with(ending))?.2;
            within(allowed, number * seconds / counts_in)
        }
    }
}

/// Returns the number if it is allowed, rounded to nine decimals: a division leaves errors in the
/// last digits.
fn within(allowed: &RangeInclusive<f64>, meant: f64) -> Option<f64> {
    // No user writes more than nine decimals.
    let meant: f64 = format!("{meant:.9}").parse().ok()?;
    allowed.contains(&meant).then_some(meant)
}

#[cfg(test)]
mod tests {
    use super::super::Document;

    fn hint(line: &str, key: &'static str, allowed: std::ops::RangeInclusive<f64>) -> String {
        let document = Document::parse("x.toml", line).unwrap();
        let error = document.root().number(key, allowed).unwrap_err().to_string();
        error.split_once("; did you mean ").map_or("", |(_, meant)| meant).to_owned()
    }

    #[test]
    fn usual_mistakes_get_a_hint() {
        let one = 0.0..=1.0;
        assert_eq!(hint("share = 33", "share", one.clone()), "0.33?");
        assert_eq!(hint("share = 33.3", "share", one.clone()), "0.333?");
        assert_eq!(hint("share = \"33%\"", "share", one.clone()), "0.33?");
        assert_eq!(hint("share = \"0.33\"", "share", one.clone()), "0.33?");
        assert_eq!(hint("share = -0.33", "share", one.clone()), "0.33?");
        assert_eq!(hint("share = -33", "share", one), "0.33?");
        assert_eq!(hint("load = 80", "load", 0.0..=10.0), "0.8?");
        assert_eq!(hint("cpu_percent = \"3%\"", "cpu_percent", 0.0..=100.0), "3?");
        let ms = 0.001..=1e5;
        assert_eq!(hint("slo_ms = \"5 ms\"", "slo_ms", ms.clone()), "5?");
        assert_eq!(hint("slo_ms = \"5s\"", "slo_ms", ms.clone()), "5000?");
        assert_eq!(hint("slo_ms = 2000000", "slo_ms", ms), "2000?");
        assert_eq!(hint("load_ns = 0.073", "load_ns", 0.1..=1e6), "73?");
    }

    #[test]
    fn unlikely_mistakes_get_no_hint() {
        let one = 0.0..=1.0;
        for line in ["share = 101", "share = nan", "share = inf", "share = \"much\"", "share = []"]
        {
            assert_eq!(hint(line, "share", one.clone()), "", "{line}");
        }
        assert_eq!(hint("gbps = 0", "gbps", 0.001..=1e7), "");
        assert_eq!(hint("load_ns = 0", "load_ns", 0.1..=1e6), "");
        assert_eq!(hint("slo_ms = \"5 weeks\"", "slo_ms", 0.001..=1e5), "");
    }
}
