//! damo's JSON: a list of records, one for each monitored target; a record is a list of snapshots,
//! and a snapshot a list of regions. Times are in nanoseconds. Numbers are numbers or texts, some
//! with commas ("4,096").
//!
//! The records follow one after the other, each from its start, so that all snapshots are held and
//! sorted by time. Regions without an access are dropped while they are read.

use std::fmt;
use std::io::{BufRead, Read};

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};

use super::super::ImportProblem;
use super::super::lines::LineProblem;
use super::super::windows::WindowBuilder;
use super::Region;

/// Limit of the unpacked text. A region has some 250 bytes in it and 24 in memory, so that this is
/// some 100 MB: half a day of a hundred regions every 100 ms.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Deserialize)]
struct Record {
    target_id: Option<Number>,
    snapshots: Vec<Snapshot>,
}

#[derive(Deserialize)]
struct Snapshot {
    end_time: Number,
    #[serde(deserialize_with = "accessed")]
    regions: Vec<Region>,
}

#[derive(Deserialize)]
struct RawRegion {
    start: Number,
    end: Number,
    nr_accesses: Option<Accesses>,
}

#[derive(Deserialize)]
struct Accesses {
    samples: Option<Number>,
}

/// A number, or a text with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number(i128);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a whole number")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
        Ok(Number(number.into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Number, E> {
        Ok(Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Number, E> {
        Ok(Number(number as i128))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
        let number = text.replace(',', "").parse().map(Number);
        number.map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl Number {
    fn natural<T: TryFrom<i128>, E: Error>(self, name: &str) -> Result<T, E> {
        let refused = |_| E::custom(format_args!("{name} is {}, out of range", self.0));
        T::try_from(self.0).map_err(refused)
    }
}

/// Reads a list of regions, and keeps those that were accessed.
fn accessed<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Region>, D::Error> {
    struct Regions;

    impl<'de> Visitor<'de> for Regions {
        type Value = Vec<Region>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a list of regions")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut regions = Vec::new();
            while let Some(raw) = list.next_element::<RawRegion>()? {
                regions.extend(raw.accessed()?);
            }
            Ok(regions)
        }
    }
    from.deserialize_seq(Regions)
}

impl RawRegion {
    fn accessed<E: Error>(self) -> Result<Option<Region>, E> {
        let samples = self.nr_accesses.and_then(|accesses| accesses.samples);
        // damo marks the end of a record by an empty region of -1 accesses.
        let nr_accesses = samples.map_or(0, |samples| samples.0.max(0));
        let region = Region {
            start: self.start.natural("start")?,
            end: self.end.natural("end")?,
            nr_accesses: Number(nr_accesses).natural("nr_accesses")?,
        };
        if region.end < region.start {
            return Err(E::custom("a region ends before it starts"));
        }
        Ok((region.nr_accesses > 0).then_some(region))
    }
}

/// Reads records to the end of the input.
pub(super) fn read(
    input: &mut dyn BufRead,
    windows: &mut WindowBuilder<'_>,
) -> Result<(), ImportProblem> {
    let mut limited = input.take(MAX_BYTES);
    let records: Vec<Record> = match serde_json::from_reader(&mut limited) {
        Ok(records) => records,
        Err(error) if error.io_error_kind().is_some() => {
            return Err(ImportProblem::Read(error.into()));
        }
        Err(error) => {
            let reason = match limited.limit() {
                0 => "the record is longer than 1 GiB of JSON; record with longer intervals".into(),
                _ => error.to_string(),
            };
            return Err(ImportProblem::Line(error.line() as u64, "JSON".into(), reason));
        }
    };
    let mut snapshots = Vec::new();
    for (number, record) in records.into_iter().enumerate() {
        let target = u64::try_from(record.target_id.map_or(0, |id| id.0)).unwrap_or(number as u64);
        snapshots.extend(record.snapshots.into_iter().map(|snapshot| (target, snapshot)));
    }
    snapshots.sort_by_key(|(_, snapshot)| snapshot.end_time.0);
    for (target, snapshot) in snapshots {
        let out_of_range = |reason: &str| {
            let text = format!("end_time {}", snapshot.end_time.0);
            ImportProblem::Line(0, text, reason.to_owned())
        };
        let ns = u64::try_from(snapshot.end_time.0)
            .map_err(|_| out_of_range("the time is out of range"))?;
        windows.at(ns).map_err(|problem| match problem {
            LineProblem::Form(reason) => out_of_range(reason),
            LineProblem::Other(problem) => problem,
        })?;
        for region in snapshot.regions {
            region.add(target, windows)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn numbers_may_be_texts_with_commas() {
        for (text, number) in [("7", 7), ("\"140,731,667\"", 140_731_667), ("-1", -1), ("2.0", 2)] {
            assert_eq!(serde_json::from_str::<Number>(text).unwrap(), Number(number));
        }
        assert!(serde_json::from_str::<Number>("\"many\"").is_err());
    }

    #[test]
    fn regions_without_access_are_dropped() {
        let region = |samples: &str| {
            format!("{{\"start\":\"4,096\",\"end\":\"8,192\",\"nr_accesses\":{samples}}}")
        };
        let text = format!(
            "{{\"end_time\":\"5\",\"regions\":[{},{},{}]}}",
            region("{\"samples\":0}"),
            region("{\"samples\":3,\"percent\":50.0}"),
            region("{\"samples\":-1}")
        );
        let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
        assert_eq!(snapshot.regions, [Region { start: 4096, end: 8192, nr_accesses: 3 }]);
    }
}
