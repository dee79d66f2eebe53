//! A histogram in Prometheus' text format, parsed as it arrives. Each byte is read once; only one
//! line and the buckets are kept.
//!
//! ```
//! use tierwised::run::latency::histogram::quantile;
//!
//! // Upper bounds in seconds and cumulative counts: 100 requests, 98 of them within 10 ms.
//! let buckets = [(0.001, 50.0), (0.01, 98.0), (0.1, 100.0), (f64::INFINITY, 100.0)];
//! assert_eq!(quantile(&buckets, 0.5), Some(0.001));
//! // Halfway into the third bucket, as Prometheus' histogram_quantile() interpolates.
//! let p99 = quantile(&buckets, 0.99).unwrap();
//! assert!((p99 - 0.055).abs() < 1e-12, "{p99}");
//! assert_eq!(quantile(&[], 0.99), None);
//! ```

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tierwise_linux::bytes::quoted;

/// Max bytes of a line: label values of some kilobytes are rare. A longer line is skipped.
const MAX_LINE: usize = 64 << 10;

/// Max bounds of a histogram: Micrometer's have 276, other libraries' some tens.
pub(super) const MAX_BOUNDS: usize = 4096;

/// A bucket's upper bound; no NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bound(f64);

impl Eq for Bound {}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A histogram that is being read, summed over all labels except the bound.
#[derive(Debug)]
pub(super) struct LatencyHistogram {
    metric: String,
    buckets: BTreeMap<Bound, f64>,
    /// The start of a line whose end has not arrived yet.
    started: Vec<u8>,
    /// The current line exceeds [`MAX_LINE`].
    skipping: bool,
}

impl LatencyHistogram {
    pub(super) fn new(metric: &str) -> Self {
        Self {
            metric: metric.to_owned(),
            buckets: BTreeMap::new(),
            started: Vec::new(),
            skipping: false,
        }
    }

    /// Takes the next bytes of the text.
    ///
    /// # Errors
    /// A line of this histogram is malformed, or there are more than [`MAX_BOUNDS`] bounds.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let whole = piece.last() == Some(&b'\n');
            let fits = self.started.len() + piece.len() <= MAX_LINE;
            if whole && fits && self.started.is_empty() && !self.skipping {
                self.line(piece)?;
                continue;
            }
            if !fits {
                self.started.clear();
                self.skipping = true;
            }
            if !self.skipping {
                self.started.extend_from_slice(piece);
            }
            if whole {
                let line = std::mem::take(&mut self.started);
                self.skipping = false;
                self.line(&line)?;
            }
        }
        Ok(())
    }

    /// Returns the buckets, upper bound and cumulative count, ascending. Comes after the last
    /// bytes.
    ///
    /// # Errors
    /// The last line is malformed, or there is no bucket.
    pub(super) fn finish(mut self) -> Result<Vec<(f64, f64)>, String> {
        let line = std::mem::take(&mut self.started);
        self.line(&line)?;
        if self.buckets.is_empty() {
            let metric = quoted(&self.metric);
            return Err(format!(
                "found no histogram {metric}; its lines start with the name and _bucket"
            ));
        }
        Ok(self.buckets.into_iter().map(|(bound, count)| (bound.0, count)).collect())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let Some(rest) = line.strip_prefix(self.metric.as_bytes()) else { return Ok(()) };
        let Some(rest) = rest.strip_prefix(b"_bucket") else { return Ok(()) };
        let rest = rest.trim_ascii_start();
        if !rest.starts_with(b"{") {
            return Ok(());
        }
        let Some((bound, count)) = bucket(&rest[1..]) else {
            return Err(format!(
                "found {}; expected a label le with a number or +Inf, and a count",
                quoted(line.trim_ascii_end())
            ));
        };
        let full = self.buckets.len() >= MAX_BOUNDS;
        match self.buckets.get_mut(&Bound(bound)) {
            Some(known) => *known += count,
            None if full => {
                let metric = quoted(&self.metric);
                return Err(format!("{metric} has more than {MAX_BOUNDS} different bounds"));
            }
            None => drop(self.buckets.insert(Bound(bound), count)),
        }
        Ok(())
    }
}

/// Parses a bound and a count from the text after the opening brace of a bucket's line.
fn bucket(line: &[u8]) -> Option<(f64, f64)> {
    let mut rest = line;
    let mut bound = None;
    loop {
        rest = rest.trim_ascii_start();
        if let Some(after) = rest.strip_prefix(b"}") {
            rest = after;
            break;
        }
        if let Some(after) = rest.strip_prefix(b",") {
            rest = after;
            continue;
        }
        let equals = rest.iter().position(|byte| *byte == b'=')?;
        let name = rest[..equals].trim_ascii();
        let value = rest[equals + 1..].trim_ascii_start().strip_prefix(b"\"")?;
        let end = end_of_value(value)?;
        if name == b"le" {
            bound = Some(number(&value[..end])?);
        }
        rest = &value[end + 1..];
    }
    let count = rest.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    let count = number(count).filter(|count| count.is_finite() && *count >= 0.0)?;
    // Both zeros are one bucket.
    Some((bound? + 0.0, count))
}

/// The position of a label value's closing quote. A backslash escapes the next byte.
fn end_of_value(value: &[u8]) -> Option<usize> {
    let mut escaped = false;
    value.iter().position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    })
}

/// Parses a number that is not NaN.
fn number(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// The requests since the last reading; all of them if the service restarted.
pub(super) fn difference(before: &[(f64, f64)], now: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let same =
        before.len() == now.len() && before.iter().zip(now).all(|(a, b)| a.0 == b.0 && a.1 <= b.1);
    if !same {
        return now.to_vec();
    }
    before.iter().zip(now).map(|(a, b)| (b.0, b.1 - a.1)).collect()
}

/// Returns a quantile of cumulative buckets, interpolated within its bucket, or the highest finite
/// bound if the quantile is beyond. Senseless buckets give a senseless number, possibly NaN.
pub fn quantile(buckets: &[(f64, f64)], quantile: f64) -> Option<f64> {
    let all = buckets.last()?.1;
    if all <= 0.0 {
        return None;
    }
    let rank = quantile * all;
    let at = buckets.iter().position(|bucket| bucket.1 >= rank)?;
    let (low, below) = if at == 0 { (0.0, 0.0) } else { buckets[at - 1] };
    let (high, upto) = buckets[at];
    if high.is_infinite() {
        return Some(low);
    }
    Some(low + (high - low) * (rank - below) / (upto - below).max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, piece: usize) -> Result<Vec<(f64, f64)>, String> {
        let mut histogram = LatencyHistogram::new("h");
        for piece in text.as_bytes().chunks(piece) {
            histogram.take(piece)?;
        }
        histogram.finish()
    }

    #[test]
    fn buckets_sum_over_any_labels() {
        let text = "# HELP h x\nh_bucket{m=\"a}b,le=\\\"9\\\"\",le=\"0.01\"} 3 \
                    1700000000\nh_bucket { le = \"0.01\" , m=\"\" } 4\n\
                    h_bucket{le=\"+Inf\",} 9 # {trace=\"x\"} 1\nh_buckets{le=\"1\"} 7\nh_sum \
                    5\nh_bucket_total{le=\"1\"} 2\r\nh_bucket{le=\"-0\"} 1\nh_bucket{le=\"0\"} 1";
        for piece in [1, 7, 1 << 20] {
            assert_eq!(read(text, piece).unwrap(), [(0.0, 2.0), (0.01, 7.0), (f64::INFINITY, 9.0)]);
        }
    }

    #[test]
    fn senseless_numbers_give_no_latency() {
        for line in [
            "h_bucket{le=\"NaN\"} 1",
            "h_bucket{le=\"1\"} NaN",
            "h_bucket{le=\"1\"} -1",
            "h_bucket{le=\"1\"} +Inf",
            "h_bucket{le=\"1\"",
            "h_bucket{le=\"x\"} 1",
            "h_bucket{a=\"1\"} 1",
            "h_bucket{} 1",
        ] {
            let message = read(line, 64).unwrap_err();
            assert!(message.contains("expected a label le"), "{line}: {message}");
        }
        let huge = "h_bucket{le=\"-1e308\"} 1\nh_bucket{le=\"1e308\"} \
                    1e308\nh_bucket{le=\"1e99999\"} 1e308\n";
        let buckets = read(huge, 64).unwrap();
        assert_eq!(buckets[2].0, f64::INFINITY);
        assert!(quantile(&buckets, 0.99).is_some_and(|p99| p99 > 1e300));
    }

    #[test]
    fn excess_bounds_are_refused() {
        let lines =
            |n: usize| (0..n).map(|i| format!("h_bucket{{le=\"{i}\"}} {i}\n")).collect::<String>();
        assert_eq!(read(&lines(MAX_BOUNDS), 4096).unwrap().len(), MAX_BOUNDS);
        let message = read(&lines(20_000), 4096).unwrap_err();
        assert_eq!(message, "\"h\" has more than 4096 different bounds");
    }

    #[test]
    fn endless_line_is_skipped_not_kept() {
        let mut histogram = LatencyHistogram::new("h");
        for _ in 0..100 {
            histogram.take(&[b'x'; 4096]).unwrap();
            assert!(histogram.started.capacity() <= 2 * MAX_LINE);
        }
        histogram.take(b"\nh_bucket{le=\"1\"} 1\n").unwrap();
        assert_eq!(histogram.finish().unwrap(), [(1.0, 1.0)]);
    }

    #[test]
    fn long_line_is_skipped_however_split() {
        let long = "x".repeat(MAX_LINE);
        let text = format!("h_bucket{{m=\"{long}\",le=\"1\"}} 1\nh_bucket{{le=\"2\"}} 3\n");
        for piece in [7, MAX_LINE, usize::MAX] {
            assert_eq!(read(&text, piece).unwrap(), [(2.0, 3.0)]);
        }
    }

    #[test]
    fn restarted_service_is_read_whole() {
        let old = [(1.0, 50.0), (f64::INFINITY, 60.0)];
        let new = [(1.0, 5.0), (f64::INFINITY, 6.0)];
        assert_eq!(difference(&old, &new), new);
        assert_eq!(quantile(&new, 0.99), Some(1.0));
    }

    proptest! {
        #[test]
        fn no_text_panics_however_it_is_cut(
            text in "(h_bucket|\\{|\\}|le=|\"|,|1e300|-5|NaN|Inf| \
                     |\n|[0-9]|.){0,60}", piece in 1usize..9
        ) {
            let whole = read(&text, 1 << 20);
            prop_assert_eq!(&whole, &read(&text, piece));
            if let Ok(buckets) = whole {
                let _ = (quantile(&buckets, 0.99), difference(&buckets, &buckets));
            }
        }
    }
}
