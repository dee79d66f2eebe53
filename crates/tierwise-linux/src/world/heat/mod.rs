//! Memory of what was hot: kept over a restart of the daemon, and of a program.
//!
//! The daemon records the heat of each process's memory every few seconds ([`HeatMemory::record`])
//! and writes it to a file ([`mod@file`]). A process that is found afterwards starts with a record
//! if it is the same process (pid, start time), or another process of the same tenant and program
//! ([`Program`]) while the recorded one has ended. Of several, the one seen last counts, once.
//! Memory of the same process is found by its address, and memory of another one by its place
//! ([`place`]).
//!
//! Heat fades with the time since it was counted: it is halved every [`HALF_LIFE`]. The engine then
//! treats it as its own counts, and ages it as fast as those.

pub mod file;
pub mod place;
pub mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tierwise_core::observe::Remembered;
use tierwise_core::units::PageId;

use self::place::PlacedMapping;
use self::record::{MappingHeat, ProcessHeat, Run, Runs};
use crate::process::resident::PAGE_SIZE;
use crate::process::{Process, Program};

/// Time after which recorded heat counts half. Chosen, not measured: a restart takes seconds or a
/// few minutes and should lose little; after an hour a sixty-fourth is left, which is less than the
/// samples of a second.
const HALF_LIFE: Duration = Duration::from_secs(600);

/// Age at which a record is forgotten: nothing is left of a count of sixteen bits.
const MAX_AGE: Duration = Duration::from_secs(16 * 600);

/// Time in which a restarted program gets the heat of its predecessor for the memory that it
/// allocates: programs load their data in the first minutes. What they allocate later at the same
/// place is other data.
const LOADING: Duration = Duration::from_secs(300);

/// Maximum number of records per tenant: of a tenant with more processes, those seen last.
const MAX_RECORDS: usize = 64;

/// A process whose memory is surveyed.
#[derive(Debug, Clone, Copy)]
pub struct KnownProcess<'a> {
    /// Name of its tenant.
    pub tenant: &'a str,
    /// The process.
    pub process: Process,
    /// Its program.
    pub program: Program,
    /// Its mappings, ascending.
    pub places: &'a [PlacedMapping],
}

/// The record with which a process started.
#[derive(Debug)]
struct Attached {
    heat: Option<ProcessHeat>,
    program: Program,
    since: Duration,
    /// It serves no later block.
    used: bool,
}

/// The recorded heat of all tenants' memory.
#[derive(Debug, Default)]
pub struct HeatMemory {
    /// Of running and of ended processes.
    records: Vec<ProcessHeat>,
    attached: BTreeMap<Process, Attached>,
    /// True if heat counts ticks ([`tierwise_core::observe::Observation::samples_are_ticks`]).
    pub ticks: bool,
}

/// Time since boot, sleep included. All times of records are on this clock.
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

impl HeatMemory {
    /// The records.
    pub fn records(&self) -> &[ProcessHeat] {
        &self.records
    }

    /// Forgets which processes have got their heat: a new engine gets it again, unless a newer one
    /// was recorded.
    pub fn start_again(&mut self) {
        for (_, attached) in std::mem::take(&mut self.attached) {
            let newer = |heat: &ProcessHeat| self.records.iter().any(|r| r.process == heat.process);
            self.records.extend(attached.heat.filter(|heat| !newer(heat)));
        }
    }

    /// Forgets the processes that have left.
    pub fn keep(&mut self, stays: impl Fn(&Process) -> bool) {
        self.attached.retain(|process, _| stays(process));
    }

    /// Adds to `out` the heat of new blocks of a process, as it is `now`. A block is its number,
    /// its address divided by `size`, and its page. `is_alive` tells whether a recorded process
    /// still runs.
    pub fn recall(
        &mut self,
        known: KnownProcess<'_>,
        now: Duration,
        size: u64,
        blocks: &[(u64, PageId)],
        is_alive: impl FnMut(&Process) -> bool,
        out: &mut Vec<Remembered>,
    ) {
        // A process that executes another program has other memory.
        let attached = self.attached.get(&known.process);
        if attached.is_none_or(|attached| attached.program != known.program) {
            let (heat, program) = (self.take(&known, is_alive), known.program);
            let attached = Attached { heat, program, since: now, used: false };
            self.attached.insert(known.process, attached);
        }
        let Some(attached) = self.attached.get_mut(&known.process) else { return };
        let Some(heat) = attached.heat.as_ref().filter(|_| !attached.used) else { return };
        let same = heat.process == known.process;
        for &(number, page) in blocks {
            let (from, to) = (number * size, (number + 1) * size);
            let mean = if same { heat.between(from, to) } else { of_place(heat, &known, from, to) };
            let faded = faded(mean, now.saturating_sub(Duration::from_millis(heat.seen_ms)));
            if faded > 0 {
                out.push(Remembered { page, heat: faded });
            }
        }
        // What the same process allocates later is new memory.
        attached.used = same || now.saturating_sub(attached.since) >= LOADING;
    }

    /// Takes the record with which a process starts.
    fn take(
        &mut self,
        known: &KnownProcess<'_>,
        mut is_alive: impl FnMut(&Process) -> bool,
    ) -> Option<ProcessHeat> {
        let fits = |r: &ProcessHeat| r.tenant == known.tenant && r.program == known.program;
        let same = self.records.iter().position(|r| fits(r) && r.process == known.process);
        let found = same.or_else(|| {
            let records = self.records.iter().enumerate().filter(|(_, r)| fits(r));
            let ended = records.filter(|(_, r)| !is_alive(&r.process));
            ended.max_by_key(|(_, r)| r.seen_ms).map(|(at, _)| at)
        });
        found.map(|at| self.records.swap_remove(at))
    }

    /// Records the heat of a process's blocks, ascending, in place of its last record.
    pub fn record(
        &mut self,
        known: KnownProcess<'_>,
        now: Duration,
        size: u64,
        blocks: &[(u64, PageId)],
        heat: impl Fn(PageId) -> u16,
    ) {
        self.records.retain(|r| r.process != known.process);
        let mut mappings = Vec::new();
        for placed in known.places {
            let first = blocks.partition_point(|(number, _)| (number + 1) * size <= placed.start);
            let mut runs = Runs::default();
            for &(number, page) in blocks[first..].iter().take_while(|b| b.0 * size < placed.end) {
                let (from, to) = (number * size, (number + 1) * size);
                let (from, to) = (from.max(placed.start), to.min(placed.end));
                let heat = coarse(heat(page));
                if heat > 0 {
                    let first = (from - placed.start) / PAGE_SIZE;
                    runs.add(Run { first, pages: (to - from) / PAGE_SIZE, heat });
                }
            }
            if !runs.0.is_empty() {
                mappings.push(MappingHeat { placed: *placed, runs });
            }
        }
        if !mappings.is_empty() {
            let (tenant, seen_ms) = (known.tenant.to_owned(), now.as_millis() as u64);
            let KnownProcess { process, program, .. } = known;
            self.records.push(ProcessHeat { tenant, process, program, seen_ms, mappings });
        }
    }

    /// Forgets old records, and those of each tenant beyond [`MAX_RECORDS`].
    pub fn trim(&mut self, now: Duration) {
        let oldest = now.saturating_sub(MAX_AGE).as_millis() as u64;
        self.records.retain(|r| r.seen_ms >= oldest);
        self.records.sort_by(|a, b| a.tenant.cmp(&b.tenant).then(b.seen_ms.cmp(&a.seen_ms)));
        let mut last = (String::new(), 0);
        self.records.retain(|r| {
            if r.tenant != last.0 {
                last = (r.tenant.clone(), 0);
            }
            last.1 += 1;
            last.1 <= MAX_RECORDS
        });
    }
}

/// Mean heat that a record has for the block of another process, over the parts of the block that
/// have a place in both.
fn of_place(heat: &ProcessHeat, known: &KnownProcess<'_>, from: u64, to: u64) -> f64 {
    let first = known.places.partition_point(|placed| placed.end <= from);
    let (mut sum, mut bytes) = (0.0, 0.0);
    for placed in known.places[first..].iter().take_while(|placed| placed.start < to) {
        let (from, to) = (from.max(placed.start), to.min(placed.end));
        let Some(old) = heat.mappings.iter().find(|m| m.placed.place == placed.place) else {
            continue;
        };
        if let Some(start) = old.placed.address_of(placed, from) {
            let length = (to - from).min(old.placed.end - start);
            sum += heat.between(start, start + length) * length as f64;
            bytes += length as f64;
        }
    }
    if bytes > 0.0 { sum / bytes } else { 0.0 }
}

/// The heat that is left after a time.
fn faded(heat: f64, age: Duration) -> u16 {
    let left = heat * (-age.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2();
    // A count of sixteen bits at most; a conversion from a float saturates.
    left.round() as u16
}

/// The two highest bits of a heat: neighbours that differ by chance make one run.
fn coarse(heat: u16) -> u16 {
    let low = heat.checked_ilog2().unwrap_or(0).saturating_sub(1);
    heat >> low << low
}
