//! Parsers of the command line's numbers and times. A refusal names the allowed values; clap puts
//! the option and the value found before it.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Returns a parser of whole numbers within a range.
pub fn whole<T: FromStr + PartialOrd + Display + Clone>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text: &str| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!("allowed: a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// Returns a parser of numbers within a range.
pub fn number(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text: &str| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("allowed: a number from {} to {}", range.start(), range.end()))
    }
}

/// Returns a parser of times within a range.
pub fn time(range: RangeInclusive<Duration>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text: &str| {
        let time = humantime::parse_duration(text).ok().filter(|time| range.contains(time));
        time.ok_or_else(|| {
            let [min, max] = [range.start(), range.end()].map(|&t| humantime::format_duration(t));
            format!("allowed: a whole number with a unit, from {min} to {max}")
        })
    }
}

/// The process ids of 64-bit Linux (`PID_MAX_LIMIT`).
pub const PIDS: RangeInclusive<i32> = 1..=4_194_304;

/// Limit of instructions per window: a recorder counts them in 31 bits.
pub const WINDOW: RangeInclusive<u64> = 1..=u32::MAX as u64 / 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_allowed_values() {
        let message = whole(3..=9_u32)("nan").unwrap_err();
        assert_eq!(message, "allowed: a whole number from 3 to 9");
        for wrong in ["1", "NaN", "much"] {
            let message = number(0.001..=0.99)(wrong).unwrap_err();
            assert_eq!(message, "allowed: a number from 0.001 to 0.99", "{wrong}");
        }
        let range = Duration::from_millis(100)..=Duration::from_secs(60);
        let message = time(range.clone())("0").unwrap_err();
        assert_eq!(message, "allowed: a whole number with a unit, from 100ms to 1m");
        assert_eq!(time(range)("100ms").unwrap(), Duration::from_millis(100));
    }
}
