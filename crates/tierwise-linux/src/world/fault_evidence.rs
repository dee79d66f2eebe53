//! The hotness of slow blocks by their pages' hint faults.
//!
//! A page that was poisoned and faults within the time of a DAMON check (the sampling interval)
//! after that is a check that found it accessed: both mean an access within that time. So the part
//! of a block's pages that fault so soon is the part of DAMON's checks that would find the block
//! accessed, and slow blocks have the same scale as fast ones, which DAMON watches. A later fault
//! counts for as much of a check as the check is of its time.
//!
//! The kernel scans memory again and again; a *pass* of a block is the time from one poisoning to
//! the next. A page that is poisoned already stays as it was. Two bits of each page therefore tell
//! apart the pages that this pass poisoned, whose time is known, and the others, which were idle at
//! least since the pass before.

use std::time::Duration;

use tierwise_core::observe::{HintFault, Observation};
use tierwise_core::units::{PageId, TierId, Timestamp};

use super::blocks::{Block, Blocks};
use crate::monitor::{AccessReport, AddressFault, PoisonedRange};
use crate::process::Process;
use crate::process::resident::PAGE_SIZE;

/// Poisonings of parts of a block that are so close belong to one pass: the kernel scans mapping by
/// mapping, and no faster than all memory once a second (`hint_faults/scan.rs`).
const ONE_PASS: Duration = Duration::from_millis(100);

/// The state of one block.
#[derive(Debug)]
struct BlockEvidence {
    /// The block's identity; its page's number may be another block's later.
    owner: (Process, u64),
    /// When this pass began, and the one before it.
    pass: Duration,
    before: Option<Duration>,
    /// By page: poisoned in this pass.
    poisoned: Box<[u64]>,
    /// By page: faulted since it was last poisoned.
    faulted: Box<[u64]>,
    /// Sum of the parts of checks, of this pass.
    checks: f64,
    /// Pages that faulted in this pass, and those of them that did so within the window.
    faults: u64,
    soon: u64,
    /// Part of the checks that find it accessed, and whether half of its pages are accessed within
    /// the window, by the pass before; unknown in the first.
    last: Option<(f64, bool)>,
}

/// The time of one of DAMON's checks, and of all of an aggregation interval.
#[derive(Debug, Clone, Copy, Default)]
struct CheckTimes {
    check: Duration,
    window: Duration,
}

/// How much a block is accessed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BlockHeat {
    /// Part of the checks that find it accessed, 0 to 1.
    pub checks: f64,
    /// Half of its pages are accessed within an aggregation interval: it counts as referenced, as
    /// the median page of a granule does in the simulator (`granule::median_touch`).
    pub referenced: bool,
}

impl BlockEvidence {
    fn new(owner: (Process, u64), pages: u64, at: Duration) -> Self {
        let bits = |filled: bool| {
            let word = if filled { u64::MAX } else { 0 };
            vec![word; pages.div_ceil(64) as usize].into_boxed_slice()
        };
        // What is poisoned first was not poisoned before.
        let (poisoned, faulted) = (bits(false), bits(true));
        Self {
            owner,
            pass: at,
            before: None,
            poisoned,
            faulted,
            checks: 0.0,
            faults: 0,
            soon: 0,
            last: None,
        }
    }

    /// Poisons pages, by their place in the block.
    fn poison(&mut self, pages: std::ops::Range<u64>, at: Duration, heat: BlockHeat) {
        if at > self.pass + ONE_PASS {
            self.last = Some((heat.checks, heat.referenced));
            (self.before, self.pass) = (Some(self.pass), at);
            (self.checks, self.faults, self.soon) = (0.0, 0, 0);
            self.poisoned.fill(0);
        }
        for page in pages {
            let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
            self.poisoned[word] |= self.faulted[word] & bit;
            self.faulted[word] &= !bit;
        }
    }

    /// Records the fault of a page. Returns the time when it was poisoned, or the latest time that
    /// it may have been; `None` if it faulted since, so that a record of its poisoning was lost.
    fn fault(&mut self, page: u64, at: Duration, times: CheckTimes) -> Option<Duration> {
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        if self.faulted[word] & bit != 0 || at < self.pass {
            return None;
        }
        self.faulted[word] |= bit;
        let is_of_pass = self.poisoned[word] & bit != 0;
        let since = if is_of_pass { self.pass } else { self.before.unwrap_or(self.pass) };
        let latency = at.saturating_sub(since);
        self.faults += 1;
        self.soon += u64::from(latency <= times.window);
        self.checks += (times.check.as_secs_f64() / latency.as_secs_f64()).min(1.0);
        Some(since)
    }

    /// The heat of a block of so many resident pages. A pass that has only begun knows less than
    /// the one before.
    fn heat(&self, resident: u64, now: Duration, window: Duration) -> BlockHeat {
        let checks = (self.checks / resident.max(1) as f64).min(1.0);
        let referenced = is_half(self.soon, resident);
        match self.last {
            Some((before, was)) if now < self.pass + window => {
                BlockHeat { checks: checks.max(before), referenced: referenced | was }
            }
            _ => BlockHeat { checks, referenced },
        }
    }
}

/// True if so many pages are at least half of those resident.
fn is_half(pages: u64, resident: u64) -> bool {
    pages > 0 && pages * 2 >= resident
}

/// The hint faults of all slow blocks.
#[derive(Debug, Default)]
pub(super) struct FaultEvidence {
    /// By page.
    blocks: Vec<Option<Box<BlockEvidence>>>,
    times: CheckTimes,
    /// Time of the last event.
    now: Duration,
}

impl FaultEvidence {
    /// Adds a report's poisonings and faults, and reports each block of which half faulted. `start`
    /// is the monotonic clock's time at the observation's time 0.
    pub(super) fn add(
        &mut self,
        report: &AccessReport,
        blocks: &Blocks,
        start: Duration,
        out: &mut Observation,
    ) {
        let window = report.check * report.max_accesses;
        self.times = CheckTimes { check: report.check, window };
        let mut poisoned = report.poisoned.iter().peekable();
        for fault in &report.faults {
            while let Some(first) = poisoned.next_if(|range| range.at <= fault.at) {
                self.poison(first, blocks);
            }
            self.now = self.now.max(fault.at);
            self.fault(fault, blocks, start, out);
        }
        poisoned.for_each(|range| self.poison(range, blocks));
    }

    /// Heat of a block by its hint faults; `None` if none of it was poisoned since it is slow.
    pub(super) fn heat(&self, page: PageId, block: &Block) -> Option<BlockHeat> {
        let evidence = self.blocks.get(page.index())?.as_ref()?;
        let is_its = evidence.owner == (block.process, block.number);
        (is_its && block.tier != TierId::FASTEST)
            .then(|| evidence.heat(block.resident.into(), self.now, self.times.window))
    }

    /// Forgets what is known of a fast block: its pages are no longer poisoned.
    pub(super) fn forget(&mut self, page: PageId) {
        if let Some(evidence) = self.blocks.get_mut(page.index()) {
            *evidence = None;
        }
    }

    fn poison(&mut self, PoisonedRange { range, at }: &PoisonedRange, blocks: &Blocks) {
        self.now = self.now.max(*at);
        for &(number, page) in blocks.within(range.process, range.start, range.end) {
            let Some(block) = blocks.get(page).filter(|block| block.tier != TierId::FASTEST) else {
                continue;
            };
            let first = number * blocks.size();
            let from = range.start.saturating_sub(first) / PAGE_SIZE;
            let to = (range.end.min(first + blocks.size()) - first).div_ceil(PAGE_SIZE);
            let (now, window) = (*at, self.times.window);
            let evidence = self.of(page, block, blocks.size() / PAGE_SIZE, *at);
            let heat = evidence.heat(block.resident.into(), now, window);
            evidence.poison(from..to, *at, heat);
        }
    }

    fn fault(
        &mut self,
        fault: &AddressFault,
        blocks: &Blocks,
        start: Duration,
        out: &mut Observation,
    ) {
        let AddressFault { process, address, bytes, at } = *fault;
        let (size, times) = (blocks.size(), self.times);
        for &(number, page) in blocks.within(process, address, address.saturating_add(bytes)) {
            let Some(block) = blocks.get(page) else { continue };
            let Some(Some(evidence)) = self.blocks.get_mut(page.index()) else { continue };
            if block.tier == TierId::FASTEST || evidence.owner != (process, number) {
                continue;
            }
            let first = number * size;
            let from = address.saturating_sub(first) / PAGE_SIZE;
            let to = (address.saturating_add(bytes).min(first + size) - first).div_ceil(PAGE_SIZE);
            for index in from..to {
                let was_half = is_half(evidence.faults, block.resident.into());
                let Some(since) = evidence.fault(index, at, times) else { continue };
                if !was_half && is_half(evidence.faults, block.resident.into()) {
                    let time = |at: Duration| Timestamp::ZERO + at.saturating_sub(start);
                    let (poisoned_at, at) = (time(since), time(at));
                    // The probe does not tell loads from stores.
                    out.hint_faults.push(HintFault { page, poisoned_at, at, write: false });
                }
            }
        }
    }

    /// Evidence about a block, which is poisoned now.
    fn of(&mut self, page: PageId, block: &Block, pages: u64, at: Duration) -> &mut BlockEvidence {
        if self.blocks.len() <= page.index() {
            self.blocks.resize_with(page.index() + 1, || None);
        }
        let owner = (block.process, block.number);
        let place = &mut self.blocks[page.index()];
        if place.as_ref().is_none_or(|evidence| evidence.owner != owner) {
            *place = None;
        }
        place.get_or_insert_with(|| Box::new(BlockEvidence::new(owner, pages, at)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::monitor::ProcessRange;
    use crate::world::blocks::FoundBlock;
    use tierwise_core::units::TenantId;

    const PROCESS: Process = Process { pid: 7, start_time: 1 };
    /// Four blocks of 64 pages each: the first is fast.
    const SIZE: u64 = 64 * PAGE_SIZE;
    const CHECK: Duration = Duration::from_millis(20);
    const START: Duration = Duration::from_secs(100);

    fn blocks() -> Blocks {
        let mut blocks = Blocks::new(SIZE);
        let found = [0, 1, 2, 3].map(|number| FoundBlock {
            number,
            tier: Some(TierId(u8::from(number > 0))),
            resident: 64,
        });
        let (mut a, mut f, mut e) = (Vec::new(), Vec::new(), Vec::new());
        blocks.update(PROCESS, TenantId(0), &found, &mut a, &mut f, &mut e);
        blocks
    }

    fn at(ms: u64) -> Duration {
        START + Duration::from_millis(ms)
    }

    fn poisoned(start: u64, end: u64, ms: u64) -> PoisonedRange {
        PoisonedRange { range: ProcessRange { process: PROCESS, start, end }, at: at(ms) }
    }

    fn fault(page: u64, ms: u64) -> AddressFault {
        AddressFault { process: PROCESS, address: page * PAGE_SIZE, bytes: PAGE_SIZE, at: at(ms) }
    }

    /// Twenty checks of 20 ms.
    fn report(poisoned: Vec<PoisonedRange>, faults: Vec<AddressFault>) -> AccessReport {
        AccessReport { poisoned, faults, check: CHECK, max_accesses: 20, ..AccessReport::default() }
    }

    fn heat(evidence: &FaultEvidence, blocks: &Blocks, page: u32) -> Option<BlockHeat> {
        evidence.heat(PageId(page), blocks.get(PageId(page)).unwrap())
    }

    #[test]
    fn soon_faults_are_hot_late_not() {
        let (blocks, mut evidence) = (blocks(), FaultEvidence::default());
        let mut out = Observation::default();
        // All pages of block 1 fault at once, those of block 2 after 500 ms, and one of block 3.
        let faults = (64..128).map(|page| fault(page, 5)).chain([fault(192, 9)]);
        let late = (128..192).map(|page| fault(page, 500));
        let report = report(vec![poisoned(0, 4 * SIZE, 0)], faults.chain(late).collect());
        evidence.add(&report, &blocks, START, &mut out);
        assert_eq!(heat(&evidence, &blocks, 0), None, "a fast block");
        let hot = heat(&evidence, &blocks, 1).unwrap();
        assert_eq!(hot, BlockHeat { checks: 1.0, referenced: true });
        let cool = heat(&evidence, &blocks, 2).unwrap();
        assert!((cool.checks - 0.04).abs() < 1e-9 && !cool.referenced, "{cool:?}");
        let cold = heat(&evidence, &blocks, 3).unwrap();
        assert!((cold.checks - 1.0 / 64.0).abs() < 1e-9 && !cold.referenced, "{cold:?}");
        // The fault of a block is that of its median page.
        let found: Vec<_> =
            out.hint_faults.iter().map(|f| (f.page.0, f.at.0 / 1_000_000)).collect();
        assert_eq!(found, [(1, 5), (2, 500)]);
        assert!(out.hint_faults.iter().all(|fault| fault.poisoned_at == Timestamp(0)));
    }

    #[test]
    fn page_poisoned_long_ago_is_cold() {
        let (blocks, mut evidence) = (blocks(), FaultEvidence::default());
        let mut add = |report: AccessReport| {
            let mut out = Observation::default();
            evidence.add(&report, &blocks, START, &mut out);
            let heat = heat(&evidence, &blocks, 1).unwrap();
            (
                heat.checks,
                out.hint_faults.iter().map(|fault| fault.poisoned_at.0).collect::<Vec<_>>(),
            )
        };
        let scan = |ms| poisoned(SIZE, 2 * SIZE, ms);
        let soon = |ms| (64..128).map(move |page| fault(page, ms)).collect::<Vec<_>>();
        assert_eq!(add(report(vec![scan(0)], Vec::new())), (0.0, vec![]));
        // The second scan found them poisoned already.
        let (checks, since) = add(report(vec![scan(1000)], soon(1010)));
        assert!((checks - 20.0 / 1010.0).abs() < 1e-9, "{checks}");
        assert_eq!(since, [0]);
        // The third poisons them again.
        assert_eq!(add(report(vec![scan(2000)], soon(2010))), (1.0, vec![2_000_000_000]));
        // While a pass has only begun, the one before counts.
        assert_eq!(add(report(vec![scan(3000)], Vec::new())).0, 1.0);
        assert_eq!(add(report(vec![scan(4000)], Vec::new())).0, 0.0);
    }

    #[test]
    fn scans_of_parts_are_one_pass() {
        let (blocks, mut evidence) = (blocks(), FaultEvidence::default());
        let mut out = Observation::default();
        let halves =
            vec![poisoned(SIZE, SIZE + SIZE / 2, 0), poisoned(SIZE + SIZE / 2, 2 * SIZE, 10)];
        let faults: Vec<_> = (64..128).map(|page| fault(page, 20)).collect();
        evidence.add(&report(halves, faults), &blocks, START, &mut out);
        assert_eq!(heat(&evidence, &blocks, 1).unwrap().checks, 1.0);
        assert_eq!(out.hint_faults.len(), 1);
    }

    #[test]
    fn huge_fault_is_of_all_pages() {
        let (blocks, mut evidence) = (blocks(), FaultEvidence::default());
        let mut out = Observation::default();
        let fault = AddressFault { bytes: 4 * SIZE, ..fault(0, 10) };
        let report = report(vec![poisoned(0, 4 * SIZE, 0)], vec![fault]);
        evidence.add(&report, &blocks, START, &mut out);
        let found: Vec<_> = out.hint_faults.iter().map(|fault| fault.page.0).collect();
        assert_eq!(found, [1, 2, 3]);
    }

    #[test]
    fn moved_block_starts_without_evidence() {
        let (mut blocks, mut evidence) = (blocks(), FaultEvidence::default());
        let mut out = Observation::default();
        evidence.add(
            &report(vec![poisoned(SIZE, 2 * SIZE, 0)], vec![fault(64, 1)]),
            &blocks,
            START,
            &mut out,
        );
        assert!(heat(&evidence, &blocks, 1).is_some());
        blocks.placed(PageId(1), TierId(0));
        assert_eq!(heat(&evidence, &blocks, 1), None);
        evidence.forget(PageId(1));
        blocks.placed(PageId(1), TierId(1));
        assert_eq!(heat(&evidence, &blocks, 1), None, "it is not poisoned any more");
    }

    proptest! {
        #[test]
        fn any_records_give_sane_heat(
            scans in prop::collection::vec((0_u64..300, 1_u64..300, 0_u64..5000), 0..30),
            faults in prop::collection::vec((0_u64..300, 0_u64..5000, any::<bool>()), 0..200),
        ) {
            let (blocks, mut evidence) = (blocks(), FaultEvidence::default());
            let mut out = Observation::default();
            let scan = |&(page, pages, ms): &(u64, u64, u64)| {
                poisoned(page * PAGE_SIZE, (page + pages) * PAGE_SIZE, ms)
            };
            let touch = |&(page, ms, huge): &(u64, u64, bool)| {
                AddressFault { bytes: if huge { 2 << 20 } else { PAGE_SIZE }, ..fault(page, ms) }
            };
            let faults = faults.iter().map(touch).collect();
            let report = report(scans.iter().map(scan).collect(), faults);
            evidence.add(&report, &blocks, START, &mut out);
            for page in 0..4 {
                if let Some(heat) = heat(&evidence, &blocks, page) {
                    prop_assert!((0.0..=1.0).contains(&heat.checks), "{heat:?}");
                }
            }
            prop_assert!(out.hint_faults.iter().all(|f| f.page.0 > 0 && f.poisoned_at <= f.at));
        }
    }
}
