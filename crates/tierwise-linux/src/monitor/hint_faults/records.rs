//! Records of the probes: their bytes, and the hint faults and poisonings that they describe.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::monitor::{AccessReport, AddressFault, PoisonedRange, ProcessRange};
use crate::process::Process;
use crate::process::resident::PAGE_SIZE;

/// Bytes of a page that the second-lowest level of the page table maps, with base pages of 4 KiB.
const HUGE_PAGE: u64 = 2 << 20;

/// Threads whose fault of a huge page is not complete yet. A thread has one fault at a time, and
/// only one that ended in between stays; so many are left over from lost records.
const MAX_PENDING: usize = 4096;

/// A function of the kernel that a probe watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    /// `numa_migrate_check` (`mm/memory.c`), which each hint fault calls: the third argument is the
    /// address.
    Fault,
    /// `do_huge_pmd_numa_page` (`mm/huge_memory.c`), which calls the function above for the address
    /// at which a huge page begins.
    HugeFault,
    /// `change_prot_numa` (`mm/mempolicy.c`), which poisons a range: the second argument is its
    /// start and the third its end. The kernel calls it in a thread of the process.
    Poison,
}

/// Numbers of the registers of a function's second and third argument (`enum perf_event_*_regs`).
/// `None`: no probe knows the arguments on this architecture.
const fn arguments() -> Option<(u32, u32)> {
    if cfg!(target_arch = "x86_64") {
        Some((4, 3)) // SI, DX
    } else if cfg!(target_arch = "aarch64") {
        Some((1, 2)) // X1, X2
    } else {
        None
    }
}

impl Probe {
    /// Every probe.
    pub(super) const ALL: [Self; 3] = [Self::Fault, Self::HugeFault, Self::Poison];

    /// The function's names, the newest first. `numa_migrate_check` was `numa_migrate_prep` before
    /// Linux 6.12.
    pub(super) const fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Fault => &["numa_migrate_check", "numa_migrate_prep"],
            Self::HugeFault => &["do_huge_pmd_numa_page"],
            Self::Poison => &["change_prot_numa"],
        }
    }

    /// The registers to sample, as a mask; `None` if they are not known on this architecture.
    pub(super) fn registers(self) -> Option<u64> {
        let (second, third) = arguments()?;
        Some(match self {
            Self::Fault => 1 << third,
            Self::HugeFault => 0,
            Self::Poison => 1 << second | 1 << third,
        })
    }
}

/// A record of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HintRecord {
    pub pid: i32,
    pub thread: i32,
    /// Time on the monotonic clock.
    pub at: Duration,
    pub event: HintEvent,
}

/// The event of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HintEvent {
    Fault(u64),
    HugeFault,
    Poison { start: u64, end: u64 },
}

/// Decodes a sample: process and thread (4 bytes each), time and, if registers were requested,
/// their ABI and their values in ascending order of their numbers. `None` if it is torn, has no
/// registers, or has no user addresses.
pub(super) fn parse(probe: Probe, bytes: &[u8]) -> Option<HintRecord> {
    let word = |i: usize| {
        let word = bytes.get(i * 8..i * 8 + 8)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    };
    let half = |i: usize| Some(i32::from_ne_bytes(bytes.get(i * 4..i * 4 + 4)?.try_into().ok()?));
    let (pid, thread, at) = (half(0)?, half(1)?, Duration::from_nanos(word(1)?));
    if probe == Probe::HugeFault {
        return Some(HintRecord { pid, thread, at, event: HintEvent::HugeFault });
    }
    // PERF_SAMPLE_REGS_ABI_NONE: the kernel had no registers.
    word(2).filter(|&abi| abi != 0)?;
    // Addresses with the top bit are the kernel's.
    let register = |i: usize| word(3 + i).filter(|address| address >> 63 == 0);
    let event = match probe {
        Probe::Poison => {
            let (second, third) = arguments()?;
            let (start, end) = if second < third { (0, 1) } else { (1, 0) };
            let (start, end) = (register(start)?, register(end)?);
            (start < end).then_some(HintEvent::Poison { start, end })?
        }
        _ => HintEvent::Fault(register(0)?),
    };
    Some(HintRecord { pid, thread, at, event })
}

/// Adds records to reports. Remembers the threads whose fault of a huge page has only begun.
#[derive(Debug, Default)]
pub(super) struct RecordJoiner {
    pending: BTreeSet<i32>,
}

impl RecordJoiner {
    /// Adds the records of these processes, which ascend by pid, to a report. Records may come in
    /// any order, because each CPU has its own ring; they are sorted by their time.
    pub(super) fn join(
        &mut self,
        records: &mut Vec<HintRecord>,
        watched: &[Process],
        report: &mut AccessReport,
    ) {
        records.sort_by_key(|record| record.at);
        for HintRecord { pid, thread, at, event } in records.drain(..) {
            let Ok(found) = watched.binary_search_by_key(&pid, |p| p.pid) else { continue };
            let process = watched[found];
            match event {
                HintEvent::HugeFault => {
                    if self.pending.len() >= MAX_PENDING {
                        self.pending.clear();
                    }
                    self.pending.insert(thread);
                }
                HintEvent::Fault(address) => {
                    // A fault of a huge page that another thread handled first ends early. What
                    // follows it is then the fault of another page.
                    let is_huge = self.pending.remove(&thread) && address.is_multiple_of(HUGE_PAGE);
                    let bytes = if is_huge { HUGE_PAGE } else { PAGE_SIZE };
                    report.faults.push(AddressFault { process, address, bytes, at });
                }
                HintEvent::Poison { start, end } => {
                    let range = ProcessRange { process, start, end };
                    report.poisoned.push(PoisonedRange { range, at });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WATCHED: [Process; 2] =
        [Process { pid: 3, start_time: 1 }, Process { pid: 7, start_time: 1 }];

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Process 7, thread 9, at 50 ns, with the 64-bit ABI.
    fn sample(registers: &[u64]) -> Vec<u8> {
        let ids = u64::from_ne_bytes(
            [7_i32.to_ne_bytes(), 9_i32.to_ne_bytes()].concat()[..].try_into().unwrap(),
        );
        bytes(&[&[ids, 50, 2], registers].concat())
    }

    #[test]
    fn poisoned_ranges_have_start_and_end() {
        // In ascending order of the registers' numbers.
        let registers =
            if arguments().unwrap() == (4, 3) { [0x9000, 0x2000] } else { [0x2000, 0x9000] };
        let record = parse(Probe::Poison, &sample(&registers)).unwrap();
        assert_eq!((record.pid, record.thread, record.at), (7, 9, Duration::from_nanos(50)));
        assert_eq!(record.event, HintEvent::Poison { start: 0x2000, end: 0x9000 });
        let [low, high] = registers;
        assert_eq!(parse(Probe::Poison, &sample(&[high, low])), None, "it ends before its start");
    }

    #[test]
    fn torn_and_foreign_samples_are_dropped() {
        let whole = sample(&[0x5000]);
        assert!(parse(Probe::Fault, &whole).is_some());
        for cut in 0..whole.len() {
            assert_eq!(parse(Probe::Fault, &whole[..cut]), None, "{cut}");
        }
        assert_eq!(parse(Probe::Fault, &sample(&[1 << 63])), None, "an address of the kernel");
        assert_eq!(parse(Probe::Fault, &bytes(&[7, 50, 0])), None, "no registers");
    }

    fn record(pid: i32, at: u64, event: HintEvent) -> HintRecord {
        HintRecord { pid, thread: pid, at: Duration::from_nanos(at), event }
    }

    #[test]
    fn huge_pages_fault_as_a_whole() {
        let mut records = vec![
            record(7, 30, HintEvent::Fault(3 * HUGE_PAGE)),
            record(7, 20, HintEvent::HugeFault),
            record(3, 25, HintEvent::Fault(HUGE_PAGE)),
            record(7, 40, HintEvent::Fault(4 * HUGE_PAGE)),
            record(3, 50, HintEvent::HugeFault),
            record(3, 60, HintEvent::Fault(HUGE_PAGE + PAGE_SIZE)),
        ];
        let mut report = AccessReport::default();
        RecordJoiner::default().join(&mut records, &WATCHED, &mut report);
        let found: Vec<_> = report.faults.iter().map(|f| (f.at.as_nanos(), f.bytes)).collect();
        assert_eq!(found, [(25, PAGE_SIZE), (30, HUGE_PAGE), (40, PAGE_SIZE), (60, PAGE_SIZE)]);
    }

    proptest! {
        #[test]
        fn any_bytes_give_sane_records(
            text in prop::collection::vec(any::<u8>(), 0..80),
            pids in prop::collection::vec((1i32..10, any::<u64>(), any::<bool>()), 0..40),
        ) {
            for probe in Probe::ALL {
                let event = parse(probe, &text).map(|record| record.event);
                if let Some(HintEvent::Poison { start, end }) = event {
                    prop_assert!(start < end && end >> 63 == 0);
                }
            }
            let event = |&(pid, at, huge): &(i32, u64, bool)| {
                record(pid, at, if huge { HintEvent::HugeFault } else { HintEvent::Fault(at) })
            };
            let mut records: Vec<_> = pids.iter().map(event).collect();
            let mut report = AccessReport::default();
            RecordJoiner::default().join(&mut records, &WATCHED, &mut report);
            let ours = pids.iter().filter(|(pid, _, huge)| !huge && [3, 7].contains(pid)).count();
            prop_assert_eq!(report.faults.len(), ours, "foreign processes are dropped");
            prop_assert!(report.faults.is_sorted_by_key(|fault| fault.at));
        }
    }
}
