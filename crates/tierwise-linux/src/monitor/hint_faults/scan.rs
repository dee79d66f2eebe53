//! The kernel's scan: the settings that make it poison pages and promote none, and its pace.
//!
//! With `kernel.numa_balancing` 2 the kernel poisons slow pages only (`change_pte_range`,
//! `prot_numa_skip`). Mode 1 would poison fast ones too, but not those of a program with one thread
//! that runs beside them, and it would make each page that is accessed all the time fault once per
//! pass.
//!
//! The kernel promotes nothing with a rate limit of 0, unless much of a fast zone is free: more
//! than the promo watermark, 1 GiB or a sixteenth of the node (`pgdat_free_space_enough`,
//! `kernel/sched/fair.c`). What it promotes then is an external migration.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::kernel_tiering::{VmstatCounters, fault_cost};
use crate::roots::Roots;
use crate::settings::{Knob, MEMORY_TIERING, Settings};

/// Settings that the scan takes. The limit comes before the mode (`settings/promotion.rs`).
pub(super) const KNOBS: [Knob; 5] = [
    Knob::PromoteRateLimit,
    Knob::ScanSize,
    Knob::ScanPeriodMin,
    Knob::ScanPeriodMax,
    Knob::NumaBalancing,
];

/// Shortest time in which all of a process's memory is scanned once: the kernel's own
/// `scan_period_min_ms`. The time is that of the process's threads on a CPU.
const SHORTEST_PASS: Duration = Duration::from_secs(1);

/// The kernel's own `scan_size_mb`, at which it scans up to 2,560 MiB in the shortest pass.
const SCAN_MIB: f64 = 256.0;

/// The kernel's own `scan_period_max_ms`; the longest period is at least that of a pass.
const LONGEST_PERIOD_MS: u64 = 60_000;

/// Longest pass: a day says nothing about what is hot now, and costs nothing.
const LONGEST_PASS: f64 = 86_400.0;

/// CPU time of poisoning a page: some 75 ns on server CPUs
/// (`tierwise-sim/src/costs.rs`, `poison_ns`).
const POISON_COST: Duration = Duration::from_nanos(75);

/// Largest steps of the pace. It slows down faster than it speeds up, because a pass that is too
/// expensive costs the tenants time.
const FASTER: f64 = 0.5;
const SLOWER: f64 = 8.0;

/// A change of the pace by less is not worth writing to the kernel.
const SMALLEST_CHANGE: f64 = 0.1;

/// Computes how slowly the kernel scans, by the cost of the faults.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScanPace {
    /// CPU time of one fault.
    fault: Duration,
    /// Length of a pass in [`SHORTEST_PASS`]es.
    pass: f64,
    /// CPU time since the last change, and when that was.
    spent: Duration,
    since: Duration,
}

impl ScanPace {
    /// A pace at which even a fault on each of `pages` per pass costs no more than `allowed`, in
    /// parts of one CPU.
    pub(super) fn new(fault: Duration, pages: u64, allowed: f64, now: Duration) -> Self {
        let whole = (fault + POISON_COST).as_secs_f64() * pages as f64;
        let pass = (whole / allowed.max(f64::MIN_POSITIVE)).clamp(1.0, LONGEST_PASS);
        Self { fault, pass, spent: Duration::ZERO, since: now }
    }

    /// Adds the cost of so many faults and poisoned pages. Returns it.
    pub(super) fn spend(&mut self, faults: u64, poisoned: u64) -> Duration {
        let cost = |each: Duration, count| each.mul_f64(count as f64);
        let cost = cost(self.fault, faults) + cost(POISON_COST, poisoned);
        self.spent += cost;
        cost
    }

    /// Adapts the pace once a pass, or as soon as a pass has cost more than is allowed for it.
    /// Returns true if the pace changed.
    pub(super) fn adapt(&mut self, allowed: f64, now: Duration) -> bool {
        let pass = SHORTEST_PASS.mul_f64(self.pass);
        let elapsed = now.saturating_sub(self.since);
        let most = pass.mul_f64(allowed.max(0.0));
        if elapsed < SHORTEST_PASS || elapsed < pass && self.spent <= most {
            return false;
        }
        // Early in a pass it is not known whether the cost goes on or was all of the pass's.
        let time = if elapsed < pass { (elapsed + pass) / 2 } else { elapsed };
        let part = self.spent.as_secs_f64() / time.as_secs_f64();
        let step = (part / allowed.max(f64::MIN_POSITIVE)).clamp(FASTER, SLOWER);
        (self.spent, self.since) = (Duration::ZERO, now);
        let wanted = (self.pass * step).clamp(1.0, LONGEST_PASS);
        let changed = (wanted / self.pass - 1.0).abs() >= SMALLEST_CHANGE;
        if changed {
            self.pass = wanted;
        }
        changed
    }

    /// Memory per scan in MiB, and the scan period in milliseconds. A thread that was scanned
    /// before keeps its period, so the memory per scan is smaller as well; a thread that starts
    /// takes a period that is shorter the less memory a scan has (`task_scan_min`). With both, a
    /// pass takes as long for one as for the other.
    fn settings(&self) -> (u64, u64) {
        let mib = (SCAN_MIB / self.pass).max(1.0) as u64;
        (mib, SHORTEST_PASS.mul_f64(self.pass).as_millis() as u64)
    }

    /// Length of a pass.
    pub(super) fn pass(&self) -> Duration {
        SHORTEST_PASS.mul_f64(self.pass)
    }
}

/// The scan that runs. Dropping it restores the settings.
#[derive(Debug)]
pub(super) struct KernelScan {
    roots: Roots,
    settings: Settings,
    pace: ScanPace,
    counters: VmstatCounters,
    started: Instant,
}

/// Path of the state file of the scan's settings.
pub fn hint_fault_record(state: &Path) -> PathBuf {
    state.join("hint-faults.json")
}

impl KernelScan {
    /// Takes the settings and starts the scan. `pages` are the targets' resident pages. `balances`:
    /// the kernel's balancing between nodes with CPUs goes on.
    ///
    /// # Errors
    /// A setting is not there, is refused, or the state file cannot be written.
    pub(super) fn start(
        roots: &Roots,
        record: &Path,
        balances: bool,
        pages: u64,
        allowed: f64,
    ) -> Result<Self> {
        let (settings, _) = Settings::open(roots, record)?;
        let counters = VmstatCounters::read(roots)?;
        let pace = ScanPace::new(fault_cost(), pages, allowed, Duration::ZERO);
        let started = Instant::now();
        let mut scan = Self { roots: roots.clone(), settings, pace, counters, started };
        scan.settings.take(Knob::PromoteRateLimit, "0")?;
        scan.set_pace()?;
        let mode: u64 = Knob::NumaBalancing.read(roots)?.parse().unwrap_or_default();
        let mode = if balances { mode | MEMORY_TIERING } else { MEMORY_TIERING };
        scan.settings.take(Knob::NumaBalancing, &mode.to_string())?;
        Ok(scan)
    }

    fn set_pace(&mut self) -> Result<()> {
        let (mib, period) = self.pace.settings();
        self.settings.take(Knob::ScanSize, &mib.to_string())?;
        self.settings.take(Knob::ScanPeriodMax, &period.max(LONGEST_PERIOD_MS).to_string())?;
        self.settings.take(Knob::ScanPeriodMin, &period.to_string())
    }

    /// Reads the kernel's counters, and adapts the pace to what may be spent, in parts of one CPU.
    /// Returns the CPU time of faults and poisoning since the last call: estimated, because the
    /// kernel does not measure it, and of all processes.
    ///
    /// # Errors
    /// The counters cannot be read, or a setting is refused.
    pub(super) fn account(&mut self, allowed: f64) -> Result<Duration> {
        let now = VmstatCounters::read(&self.roots)?;
        let before = std::mem::replace(&mut self.counters, now);
        let cost = self.pace.spend(
            now.hint_faults.saturating_sub(before.hint_faults),
            now.poisoned.saturating_sub(before.poisoned),
        );
        if self.pace.adapt(allowed, self.started.elapsed()) {
            tracing::debug!("hint faults: a pass now takes {:?}", self.pace.pass());
            self.set_pace()?;
        }
        Ok(cost)
    }

    /// Restores the settings.
    ///
    /// # Errors
    /// A setting cannot be read or written.
    pub(super) fn stop(mut self) -> Result<()> {
        self.settings.restore().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::settings::{Knob, restore_after};
    use crate::topology::fixture;

    pub(in crate::monitor::hint_faults) fn machine() -> (tempfile::TempDir, Roots) {
        let (tree, roots) = fixture::copy("cxl-three-tier");
        let debug = roots.sys.join("kernel/debug/sched/numa_balancing");
        let files = [
            ("scan_size_mb", "256"),
            ("scan_period_min_ms", "1000"),
            ("scan_period_max_ms", "60000"),
        ];
        files.iter().for_each(|(name, value)| fixture::put(&debug.join(name), value));
        fixture::put(&roots.proc.join("vmstat"), &vmstat(0));
        fs::write(Knob::NumaBalancing.path(&roots), "1").unwrap();
        (tree, roots)
    }

    fn vmstat(faults: u64) -> String {
        format!(
            "pgpromote_success 0\npgpromote_candidate 0\npgdemote_kswapd 0\n\
             numa_hint_faults {faults}\nnuma_pte_updates {faults}\n"
        )
    }

    fn shown(roots: &Roots) -> [String; 5] {
        KNOBS.map(|knob| knob.read(roots).unwrap())
    }

    #[test]
    fn scan_promotes_nothing_and_is_restored() {
        let (tree, roots) = machine();
        let (record, before) = (hint_fault_record(tree.path()), shown(&roots));
        let start = |balances| KernelScan::start(&roots, &record, balances, 0, 0.01).unwrap();
        let scan = start(false);
        assert_eq!(shown(&roots), ["0", "256", "1000", "60000", "2"]);
        scan.stop().unwrap();
        assert_eq!(shown(&roots), before);
        drop(start(true));
        assert_eq!(shown(&roots), before);
        let scan = start(true);
        assert_eq!(shown(&roots)[4], "3", "balancing between nodes goes on");
        // As after kill -9: the file stays, and its lock does not.
        let left = fs::read(&record).unwrap();
        drop(scan);
        fs::write(&record, left).unwrap();
        ["0", "256", "1000", "60000", "3"]
            .iter()
            .zip(KNOBS)
            .for_each(|(value, knob)| fs::write(knob.path(&roots), value).unwrap());
        restore_after(&roots, &record, || Ok(())).unwrap();
        assert_eq!(shown(&roots), before);
    }

    #[test]
    fn missing_settings_leave_the_others() {
        for missing in KNOBS {
            let (tree, roots) = machine();
            fs::remove_file(missing.path(&roots)).unwrap();
            let read = || KNOBS.map(|knob| knob.read(&roots).ok());
            let before = read();
            let record = hint_fault_record(tree.path());
            let error = KernelScan::start(&roots, &record, false, 0, 0.01).unwrap_err().to_string();
            assert!(error.contains(missing.name()), "{error}");
            assert_eq!(read(), before);
        }
    }

    #[test]
    fn expensive_faults_slow_the_scan() {
        let (tree, roots) = machine();
        let record = hint_fault_record(tree.path());
        let mut scan = KernelScan::start(&roots, &record, false, 0, 0.01).unwrap();
        fs::write(roots.proc.join("vmstat"), vmstat(1_000_000_000)).unwrap();
        scan.started = scan.started.checked_sub(SHORTEST_PASS).unwrap();
        assert!(scan.account(0.01).unwrap() > Duration::from_secs(1));
        assert_eq!(shown(&roots)[1..4], ["32", "8000", "60000"], "eight times as long");
    }

    proptest! {
        #[test]
        fn pace_keeps_to_its_allowance(
            pages in 1_u64..1 << 20,
            touched in 0.01_f64..1.0,
            allowed in 0.001_f64..1.0,
        ) {
            let fault = Duration::from_nanos(1200);
            let second = Duration::from_secs(1);
            let mut now = Duration::ZERO;
            let mut pace = ScanPace::new(fault, pages, allowed, now);
            let mut part = 0.0;
            for _ in 0..20_000 {
                now += second;
                let poisoned = pages as f64 / pace.pass().as_secs_f64();
                part = pace.spend((poisoned * touched) as u64, poisoned as u64).as_secs_f64();
                pace.adapt(allowed, now);
            }
            prop_assert!(part <= allowed * 1.15, "{part} of {allowed}");
            // A pass that is nearly the shortest is not worth a change to it.
            let is_shortest = pace.pass() <= SHORTEST_PASS.mul_f64(1.0 / (1.0 - SMALLEST_CHANGE));
            prop_assert!(part >= allowed * 0.85 || is_shortest, "{part} of {allowed}");
        }
    }
}
