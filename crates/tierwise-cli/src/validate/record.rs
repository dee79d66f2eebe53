//! The record of runs in the lab's guests, as `python3 -m tierlab bench --json` prints it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;
use crate::input;

/// The run with fast memory only, to which the others are compared.
pub const BOUND: &str = "all-fast";

/// Run times that differ by less mean nothing in an emulated guest, even if repeated runs differ by
/// less still.
const MIN_TIE: f64 = 0.005;

/// The runs of one program.
#[derive(Debug, Clone, Deserialize)]
pub struct ProgramRecord {
    pub program: String,
    /// The program and its input in words.
    pub about: String,
    /// The kernel series: "6.12", "7".
    pub kernel: String,
    pub guest: GuestMachine,
    /// The daemon's unit of placement.
    pub granule_kib: u64,
    pub runs: Vec<GuestRun>,
}

/// The machine of the guest.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct GuestMachine {
    pub cpus: u32,
    /// Latency of a miss by node, the fast one first.
    pub latency_ns: [f64; 2],
}

/// One run under one policy.
#[derive(Debug, Clone, Deserialize)]
pub struct GuestRun {
    pub policy: String,
    /// Kernel settings of the policy that differ from the kernel's defaults.
    #[serde(default)]
    pub settings: BTreeMap<String, u64>,
    pub seconds: f64,
    /// Misses by node, without the kernel's copies of pages.
    pub user_misses: [u64; 2],
    pub migrated_pages: u64,
    pub promoted_pages: u64,
    pub demoted_pages: u64,
    /// CPU seconds of the kernel's threads that tier.
    pub kernel_cpu_s: f64,
    /// CPU seconds of the daemon.
    pub daemon_cpu_s: f64,
    pub resident_mib: f64,
    pub fast_mib_at_start: f64,
    pub watermarks_mib: WatermarksMib,
    /// Seconds for which each of the program's threads has run when the work starts, the longest
    /// first; empty in older records.
    #[serde(default)]
    pub threads_at_start_s: Vec<f64>,
    pub course: Vec<Point>,
}

/// Watermarks of the fast node: the sums of its zones'.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct WatermarksMib {
    pub min: f64,
    pub low: f64,
    pub high: f64,
    pub promo: f64,
}

/// The state at one time of a run.
#[derive(Debug, Clone, Deserialize)]
pub struct Point {
    /// Seconds since the start of the work.
    pub seconds: f64,
    /// The fast node's free MiB.
    pub free_mib: f64,
    /// Its page cache.
    #[serde(default)]
    pub file_mib: f64,
    /// Its anonymous memory, that of the program among it.
    #[serde(default)]
    pub anon_mib: f64,
    /// Misses by node since the start of the work.
    pub user_misses: [u64; 2],
    /// Seconds for which the program's busiest thread has run since its start; zero in older
    /// records.
    #[serde(default)]
    pub run_s: f64,
}

/// Reads a record: a list of programs.
pub fn read(path: &Path) -> Result<Vec<ProgramRecord>, Failure> {
    let text = input::text(path, "is no record of the lab (JSON)")?;
    let programs: Vec<ProgramRecord> = serde_json::from_str(&text).map_err(|error| {
        Failure::User(format!(
            "{}:{}: is no record of the lab: {error}; `python3 -m tierlab bench --json` prints one",
            path.display(),
            error.line()
        ))
    })?;
    for program in &programs {
        program.check().map_err(|why| {
            Failure::User(format!("{}: program \"{}\": {why}", path.display(), program.program))
        })?;
    }
    Ok(programs)
}

impl ProgramRecord {
    /// The runs of a policy. The first one's policy and settings stand for all.
    pub fn runs_of<'a>(&'a self, policy: &'a str) -> impl Iterator<Item = &'a GuestRun> {
        self.runs.iter().filter(move |run| run.policy == policy)
    }

    /// The policies without the bound, in the order of their first runs.
    pub fn policies(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for run in &self.runs {
            if run.policy != BOUND && !names.contains(&run.policy.as_str()) {
                names.push(&run.policy);
            }
        }
        names
    }

    /// Mean run time of a policy; `None` if it has no run.
    pub fn seconds(&self, policy: &str) -> Option<f64> {
        mean(self.runs_of(policy).map(|run| run.seconds))
    }

    /// The share by which run times of one policy differ, or the least that means something.
    pub fn tie(&self) -> f64 {
        let spread = |policy: &str| {
            let times = || self.runs_of(policy).map(|run| run.seconds);
            times().fold(0.0, f64::max) / times().fold(f64::INFINITY, f64::min) - 1.0
        };
        self.policies().into_iter().map(spread).fold(MIN_TIE, f64::max)
    }

    /// MiB of the fast node beside the kernel's; `None` if the record does not have it.
    pub fn fast_node_mib(&self) -> Option<f64> {
        let point = self.runs_of(BOUND).next()?.course.first()?;
        (point.anon_mib > 0.0).then_some(point.free_mib + point.file_mib + point.anon_mib)
    }

    fn check(&self) -> Result<(), String> {
        // The name is a file's, and a name in the scenario.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.program.is_empty() || !self.program.chars().all(is_plain) {
            return Err(format!(
                "program: found \"{}\"; allowed: letters, digits, - and _",
                self.program
            ));
        }
        let [fast, slow] = self.guest.latency_ns;
        if !(1.0..=1e6).contains(&fast) || !(fast..=1e6).contains(&slow) {
            return Err(format!(
                "guest.latency_ns: found {fast} and {slow}; allowed: 1 to 1000000, the fast node's \
                 first"
            ));
        }
        if !self.granule_kib.is_power_of_two() || !(4..=1 << 17).contains(&self.granule_kib) {
            return Err(format!(
                "granule_kib: found {}; allowed: a power of two from 4 to 131072",
                self.granule_kib
            ));
        }
        if self.guest.cpus == 0 {
            return Err("guest.cpus: found 0; allowed: at least 1".to_owned());
        }
        if self.runs_of(BOUND).next().is_none() {
            return Err(format!(
                "has no run of \"{BOUND}\", to which the others are compared; record it with \
                 --policy {BOUND}"
            ));
        }
        for (i, run) in self.runs.iter().enumerate() {
            run.check().map_err(|why| format!("run {} (\"{}\"): {why}", i + 1, run.policy))?;
        }
        Ok(())
    }
}

impl GuestRun {
    /// Share of the misses that the fast node served.
    pub fn fast_share(&self) -> f64 {
        share(self.user_misses)
    }

    /// CPU seconds of tiering beside the program.
    pub fn own_seconds(&self) -> f64 {
        self.kernel_cpu_s + self.daemon_cpu_s
    }

    /// Seconds for which the program's busiest thread has run when the work starts; `None` in older
    /// records.
    pub fn ran_s(&self) -> Option<f64> {
        self.threads_at_start_s.first().copied()
    }

    /// Share of the work's time in which that thread runs. In the rest others do: a store's client.
    pub fn run_share(&self) -> Option<f64> {
        let last = self.course.last()?;
        let ran = last.run_s - self.ran_s()?;
        (last.seconds > 0.0).then(|| (ran / last.seconds).clamp(0.0, 1.0))
    }

    /// Free MiB of the fast node when the work started.
    pub fn free_mib_at_start(&self) -> f64 {
        self.course.first().map_or(self.watermarks_mib.low, |point| point.free_mib)
    }

    /// MiB of page cache on the fast node when the work started; zero in older records.
    pub fn file_mib_at_start(&self) -> f64 {
        self.course.first().map_or(0.0, |point| point.file_mib)
    }

    fn check(&self) -> Result<(), String> {
        // An hour of a guest takes days of its host; no lab has a tebibyte.
        let (seconds, mib) = (3600.0, f64::from(1 << 20));
        let marks = self.watermarks_mib;
        let limits = [
            ("seconds", self.seconds, seconds),
            ("kernel_cpu_s", self.kernel_cpu_s, seconds),
            ("daemon_cpu_s", self.daemon_cpu_s, seconds),
            ("resident_mib", self.resident_mib, mib),
            ("fast_mib_at_start", self.fast_mib_at_start, mib),
            ("watermarks_mib.min", marks.min, mib),
            ("watermarks_mib.low", marks.low, mib),
            ("watermarks_mib.high", marks.high, mib),
            ("watermarks_mib.promo", marks.promo, mib),
            ("course.free_mib", self.free_mib_at_start(), mib),
            ("course.file_mib", self.file_mib_at_start(), mib),
            ("threads_at_start_s", self.ran_s().unwrap_or_default(), seconds),
        ];
        for (key, value, most) in limits {
            if !(0.0..=most).contains(&value) {
                return Err(format!("{key}: found {value}; allowed: 0 to {most}"));
            }
        }
        if self.seconds <= 0.0 || self.resident_mib <= 0.0 {
            return Err("seconds and resident_mib: found 0; allowed: more".to_owned());
        }
        let ascending = marks.min <= marks.low && marks.low <= marks.high;
        if !ascending || marks.high > marks.promo {
            return Err("watermarks_mib: allowed: min, low, high, promo in ascending order".into());
        }
        Ok(())
    }
}

/// Share of the first of two counts.
fn share([fast, slow]: [u64; 2]) -> f64 {
    let all = fast as f64 + slow as f64;
    if all > 0.0 { fast as f64 / all } else { 0.0 }
}

/// Mean; `None` of nothing.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
