//! The heat of a process's memory, as data: in memory, and as text in a state file.

use serde::{Deserialize, Serialize};

use super::place::PlacedMapping;
use crate::process::resident::PAGE_SIZE;
use crate::process::{Process, Program};

/// Neighbouring pages of the same heat. Numbers are in base pages from the start of their mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First page.
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
    /// Heat ([`tierwise_core::observe::Remembered::heat`]).
    pub heat: u16,
}

/// The runs of a mapping, ascending. As text they are hexadecimal, "first.pages.heat" each, because
/// a file may have a hundred thousand of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Runs(pub Vec<Run>);

impl From<Runs> for String {
    fn from(runs: Runs) -> Self {
        let word = |run: &Run| format!("{:x}.{:x}.{:x}", run.first, run.pages, run.heat);
        runs.0.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}

impl TryFrom<String> for Runs {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut runs = Vec::new();
        let mut next = 0;
        for word in text.split_ascii_whitespace() {
            let run = run(word).filter(|run| run.first >= next && run.pages > 0 && run.heat > 0);
            let end = run.and_then(|run| run.first.checked_add(run.pages));
            let (Some(run), Some(end)) = (run, end) else {
                return Err(format!(
                    "found the run {word:.40?}; allowed: FIRST.PAGES.HEAT, hexadecimal, ascending"
                ));
            };
            next = end;
            runs.push(run);
        }
        Ok(Self(runs))
    }
}

fn run(word: &str) -> Option<Run> {
    let mut parts = word.split('.');
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    let (first, pages, heat) = (number()?, number()?, u16::try_from(number()?).ok()?);
    parts.next().is_none().then_some(Run { first, pages, heat })
}

impl Runs {
    /// Adds a run after the others, joined to the last one if that ends there and is as hot.
    pub fn add(&mut self, run: Run) {
        match self.0.last_mut() {
            Some(last) if last.first + last.pages == run.first && last.heat == run.heat => {
                last.pages += run.pages;
            }
            _ => self.0.push(run),
        }
    }

    /// The sum of heat times bytes between two distances from the start of the mapping, in bytes.
    fn sum(&self, from: u64, to: u64) -> f64 {
        let ends = |run: &Run| run.first.saturating_add(run.pages).saturating_mul(PAGE_SIZE);
        let first = self.0.partition_point(|run| ends(run) <= from);
        let runs = self.0[first..].iter();
        runs.take_while(|run| run.first.saturating_mul(PAGE_SIZE) < to)
            .map(|run| {
                let bytes = ends(run).min(to) - (run.first * PAGE_SIZE).max(from);
                bytes as f64 * f64::from(run.heat)
            })
            .sum()
    }
}

/// The heat of one mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingHeat {
    /// The mapping.
    #[serde(flatten)]
    pub placed: PlacedMapping,
    /// Its pages that were accessed.
    pub runs: Runs,
}

/// The heat of the memory of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessHeat {
    /// Name of its tenant.
    pub tenant: String,
    /// The process.
    #[serde(flatten)]
    pub process: Process,
    /// Its program.
    pub program: Program,
    /// Time of the last count, in milliseconds since boot.
    pub seen_ms: u64,
    /// The mappings with heat, ascending.
    pub mappings: Vec<MappingHeat>,
}

impl ProcessHeat {
    /// Mean heat between two addresses of this process; zero where it has none.
    pub fn between(&self, from: u64, to: u64) -> f64 {
        if from >= to {
            return 0.0;
        }
        let first = self.mappings.partition_point(|m| m.placed.end <= from);
        let mappings = self.mappings[first..].iter();
        let sum: f64 = mappings
            .take_while(|m| m.placed.start < to)
            .map(|m| {
                let distance = |address: u64| address.saturating_sub(m.placed.start);
                m.runs.sum(distance(from), distance(to))
            })
            .sum();
        sum / (to - from) as f64
    }

    /// Removes the runs below a heat, and the mappings without a run.
    pub fn drop_below(&mut self, heat: u16) {
        self.mappings.iter_mut().for_each(|m| m.runs.0.retain(|run| run.heat >= heat));
        self.mappings.retain(|m| !m.runs.0.is_empty());
    }

    /// Refuses content that no daemon writes.
    pub fn check(&self) -> Result<(), String> {
        let mut next = 0;
        for MappingHeat { placed, runs } in &self.mappings {
            let (start, end) = (placed.start, placed.end);
            if start < next || start >= end || (start | end) % PAGE_SIZE != 0 {
                return Err(format!(
                    "found a mapping from {start:#x} to {end:#x} after {next:#x}; allowed: whole \
                     pages, ascending"
                ));
            }
            let last = runs.0.last().map_or(0, |run| run.first + run.pages);
            if last > (end - start) / PAGE_SIZE {
                return Err(format!(
                    "found heat of page {last} in a mapping of {} pages",
                    (end - start) / PAGE_SIZE
                ));
            }
            next = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::place::Place;
    use super::*;

    fn heat(runs: &str) -> ProcessHeat {
        let place = Place::Heap;
        let placed = PlacedMapping { place, start: 0x10000, end: 0x20000, offset: 0 };
        let mappings = vec![MappingHeat { placed, runs: runs.to_owned().try_into().unwrap() }];
        let (process, program) = (Process { pid: 7, start_time: 9 }, Program(5));
        ProcessHeat { tenant: "shop".into(), process, program, seen_ms: 1, mappings }
    }

    #[test]
    fn mean_heat_weighs_by_length() {
        // Pages 0 and 1 have heat 8, page 3 has 16; the mapping has sixteen pages.
        let heat = heat("0.2.8 3.1.10");
        assert_eq!(heat.between(0x10000, 0x12000), 8.0);
        assert_eq!(heat.between(0x10000, 0x14000), 8.0);
        assert_eq!(heat.between(0x11000, 0x15000), 6.0);
        assert_eq!(heat.between(0x8000, 0x18000), 2.0);
        assert_eq!(heat.between(0x20000, 0x30000), 0.0);
        assert_eq!(heat.between(0x10000, 0x10000), 0.0);
    }

    #[test]
    fn text_has_every_member_again() {
        let heat = heat("0.2.8 3.1.10");
        let text = serde_json::to_string(&heat).unwrap();
        assert!(text.contains(r#""runs":"0.2.8 3.1.10""#), "{text}");
        assert_eq!(serde_json::from_str::<ProcessHeat>(&text).unwrap(), heat);
        heat.check().unwrap();
        let mut long = heat.clone();
        long.mappings[0].placed.end = 0x13000;
        assert!(long.check().unwrap_err().contains("heat of page 4 in a mapping of 3 pages"));
        long.mappings[0].placed.end = 0x10000;
        assert!(long.check().unwrap_err().contains("allowed: whole pages"));
    }

    #[test]
    fn impossible_runs_are_refused() {
        for text in ["0", "0.1", "0.1.2.3", "0.0.1", "0.1.0", "1.2.3 2.1.1", "0.1.10000", "x.1.1"] {
            let refused = Runs::try_from(text.to_owned()).unwrap_err();
            assert!(refused.contains("FIRST.PAGES.HEAT"), "{text}: {refused}");
        }
        assert!(Runs::try_from("ffffffffffffffff.1.1".to_owned()).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9a-f. ]{0,60}") {
            if let Ok(runs) = Runs::try_from(text) {
                let again = Runs::try_from(String::from(runs.clone())).unwrap();
                prop_assert!(runs.sum(0, u64::MAX).is_finite());
                prop_assert_eq!(again, runs);
            }
        }
    }
}
