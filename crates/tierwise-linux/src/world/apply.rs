//! How a plan becomes system calls, and what came of each move.
//!
//! A page of the engine's is a block of many; it has moved when more than half of what is resident
//! of it lies where it was to go, verified. The rest of it follows ([`Migrator::finish`]): nobody
//! else would ever ask for it, because the engine knows the block in one place. A round is not
//! longer than [`ROUND`]: what does not fit into it is reported as over the budget, and the engine
//! plans it again if it still wants it.

use std::collections::BTreeMap;
use std::time::Duration;

use tierwise_core::migrate::{FailReason, Move, MoveOutcome};
use tierwise_core::units::{PageId, TierId};

use super::blocks::Blocks;
use super::survey::Survey;
use crate::error::Result;
use crate::migrate::mover::Moved;
use crate::migrate::{Calls, Limits, Mover, Request};
use crate::process::Reader;
use crate::process::resident::PAGE_SIZE;
use crate::roots::Roots;
use crate::topology::{Host, nodes};

/// Longest time spent on one plan: half the wait between two looks, so that what is seen is not
/// older than what is decided.
const ROUND: Duration = Duration::from_millis(500);

/// Most bytes handed to the mover at once: what moves in a tenth of a round at a modest 1 GB/s, so
/// that a round ends in time.
const PORTION: u64 = 32 << 20;

/// Fewest: a block of the default size. A machine on which that takes long does not move more by
/// asking for less.
const MIN_PORTION: u64 = 2 << 20;

/// A portion is halved when it took more than a fifth of a round, and doubled when it took less
/// than a twentieth: in between a round is some portions long, and ends at most one late.
const SLOW: Duration = Duration::from_millis(100);
const QUICK: Duration = Duration::from_millis(25);

/// `MAP_HUGE_2MB`: pages that are mapped so are named once.
const HUGE: u64 = 2 << 20;

/// The world of a plan, borrowed from the live world.
#[derive(Debug)]
pub struct MoveContext<'a> {
    /// Trees of the kernel's files.
    pub roots: &'a Roots,
    /// The machine.
    pub host: &'a Host,
    /// The engine's pages.
    pub blocks: &'a mut Blocks,
    /// The survey that knows which of a block's pages are resident.
    pub survey: &'a mut Survey,
}

/// Carries plans out.
#[derive(Debug)]
pub struct Migrator<C> {
    calls: C,
    mover: Mover,
    requests: Vec<Request>,
    /// First request of each move of a portion.
    firsts: Vec<usize>,
    moved: Vec<Moved>,
    targets: Vec<Option<u32>>,
    reader: Reader,
    /// Blocks that moved in part, and where to.
    rest: BTreeMap<PageId, TierId>,
    finishing: Vec<(PageId, TierId)>,
    /// Bytes of a portion at this machine's pace.
    portion: u64,
    cpu: Duration,
}

impl<C: Calls> Migrator<C> {
    /// With full allowances.
    pub fn new(calls: C, limits: &Limits) -> Self {
        Self {
            calls,
            mover: Mover::new(limits),
            requests: Vec::new(),
            firsts: Vec::new(),
            moved: Vec::new(),
            targets: Vec::new(),
            reader: Reader::default(),
            rest: BTreeMap::new(),
            finishing: Vec::new(),
            portion: PORTION,
            cpu: Duration::ZERO,
        }
    }

    /// The kernel.
    pub fn calls(&mut self) -> &mut C {
        &mut self.calls
    }

    /// Bytes moved so far, verified.
    pub fn moved_bytes(&self) -> u64 {
        self.mover.tally().bytes
    }

    /// Pages moved in a call during which their process exited.
    pub fn pages_in_doubt(&self) -> u64 {
        self.mover.tally().in_doubt
    }

    /// CPU time spent on moving since the last call.
    pub fn take_cpu(&mut self) -> Duration {
        std::mem::take(&mut self.cpu)
    }

    /// Carries out moves in their order, or none in a dry run, and adds one outcome for each.
    ///
    /// # Errors
    /// The kernel refuses to move pages at all. There is an outcome for each move even then.
    pub fn apply(
        &mut self,
        moves: &[Move],
        dry_run: bool,
        context: MoveContext<'_>,
        out: &mut Vec<MoveOutcome>,
    ) -> Result<()> {
        let MoveContext { roots, host, blocks, survey } = context;
        if moves.is_empty() {
            return Ok(());
        }
        let cpu = self.calls.cpu();
        let started = self.calls.now();
        self.aim(roots, host);
        let mut at = 0;
        let mut answer = Ok(());
        while at < moves.len() {
            let late = self.calls.now().since(started) >= ROUND;
            if dry_run || late || answer.is_err() {
                out.extend(moves[at..].iter().map(|m| unmoved(m, blocks, FailReason::Budget)));
                break;
            }
            let wanted = moves[at..].iter().map(|m| (m.page, m.to));
            let next = self.gather(wanted, blocks, survey) + at;
            answer = self.run();
            self.report(&moves[at..next], blocks, out);
            at = next;
        }
        self.cpu += self.calls.cpu().saturating_sub(cpu);
        answer
    }

    /// Moves what is left behind of blocks that moved in part, as long as they are still known to
    /// be there; a portion of it at a time.
    ///
    /// # Errors
    /// As [`Migrator::apply`].
    pub fn finish(&mut self, context: MoveContext<'_>) -> Result<()> {
        let MoveContext { roots, host, blocks, survey } = context;
        self.rest.retain(|page, to| blocks.get(*page).is_some_and(|block| block.tier == *to));
        if self.rest.is_empty() {
            return Ok(());
        }
        let cpu = self.calls.cpu();
        self.aim(roots, host);
        let mut wanted = std::mem::take(&mut self.finishing);
        wanted.clear();
        wanted.extend(self.rest.iter().map(|(page, to)| (*page, *to)));
        let taken = self.gather(wanted.iter().copied(), blocks, survey);
        let answer = self.run();
        for (i, (page, _)) in wanted[..taken].iter().enumerate() {
            let range = self.requests_of(i);
            if left_behind(&self.requests[range.clone()], &self.moved[range]) == 0 {
                self.rest.remove(page);
            }
        }
        self.finishing = wanted;
        self.cpu += self.calls.cpu().saturating_sub(cpu);
        answer
    }

    /// For each tier the node with the most room.
    fn aim(&mut self, roots: &Roots, host: &Host) {
        let reader = &mut self.reader;
        let mut free_memory =
            |node: &u32| nodes::free(roots, reader, *node).map_or(0, |free| free.0);
        self.targets.clear();
        for tier in &host.tiers {
            self.targets.push(tier.nodes.iter().copied().max_by_key(&mut free_memory));
        }
    }

    /// Makes requests of as many moves as fit into a portion; at least of one. Returns how many.
    fn gather(
        &mut self,
        moves: impl Iterator<Item = (PageId, TierId)>,
        blocks: &Blocks,
        survey: &mut Survey,
    ) -> usize {
        self.requests.clear();
        self.firsts.clear();
        let mut bytes = 0;
        for (page, to) in moves {
            if bytes >= self.portion {
                break;
            }
            self.firsts.push(self.requests.len());
            let Some(&block) = blocks.get(page) else { continue };
            let Some(node) = self.targets.get(to.index()).copied().flatten() else { continue };
            let (start, end) = (block.number * blocks.size(), (block.number + 1) * blocks.size());
            let Ok(ranges) = survey.resident(&block, start, end, &mut self.calls) else {
                continue;
            };
            for range in ranges {
                // A huge page that reaches beyond the block is named by the part in it.
                let step = if range.huge { HUGE } else { PAGE_SIZE };
                let mut address = range.start;
                while address < range.end {
                    let size = (step - address % step).min(range.end - address);
                    self.requests.push(Request {
                        tenant: block.tenant,
                        process: block.process,
                        address,
                        bytes: size,
                        node,
                    });
                    address += size;
                    bytes += size;
                }
            }
        }
        self.firsts.len()
    }

    /// Moves the portion at hand, and learns how large the next may be.
    fn run(&mut self) -> Result<()> {
        let started = self.calls.now();
        let answer = self.mover.run(&mut self.calls, &self.requests, &mut self.moved);
        let took = self.calls.now().since(started);
        if took > SLOW {
            self.portion = (self.portion / 2).max(MIN_PORTION);
        } else if took < QUICK {
            self.portion = (self.portion * 2).min(PORTION);
        }
        answer
    }

    /// Which requests the i-th move of the portion became.
    fn requests_of(&self, i: usize) -> std::ops::Range<usize> {
        self.firsts[i]..self.firsts.get(i + 1).copied().unwrap_or(self.requests.len())
    }

    /// One outcome a move of the portion.
    fn report(&mut self, moves: &[Move], blocks: &mut Blocks, out: &mut Vec<MoveOutcome>) {
        for (i, m) in moves.iter().enumerate() {
            let range = self.requests_of(i);
            let left = left_behind(&self.requests[range.clone()], &self.moved[range.clone()]);
            let full = self.targets.get(m.to.index()).copied().flatten().is_none();
            let verdict = if full {
                Err(FailReason::TargetFull)
            } else {
                verdict(&self.requests[range.clone()], &self.moved[range])
            };
            let mut outcome = unmoved(m, blocks, FailReason::NotPresent);
            outcome.result =
                if outcome.from.is_none() { Err(FailReason::NotPresent) } else { verdict };
            if outcome.result == Err(FailReason::Already) && outcome.from != Some(m.to) {
                // It is there: what was known was old.
                outcome.result = Ok(());
            }
            self.rest.remove(&m.page);
            if outcome.result.is_ok() {
                blocks.placed(m.page, m.to);
                if left > 0 {
                    self.rest.insert(m.page, m.to);
                }
            }
            out.push(outcome);
        }
    }
}

fn unmoved(m: &Move, blocks: &Blocks, reason: FailReason) -> MoveOutcome {
    let from: Option<TierId> = blocks.get(m.page).map(|block| block.tier);
    MoveOutcome { page: m.page, from, to: m.to, result: Err(reason) }
}

/// Bytes of a block that are there and not where they were to go.
fn left_behind(requests: &[Request], moved: &[Moved]) -> u64 {
    let stays = |moved: &Moved| {
        !matches!(moved.result, Ok(()) | Err(FailReason::Already | FailReason::NotPresent))
    };
    requests.iter().zip(moved).filter(|(_, moved)| stays(moved)).map(|(r, _)| r.bytes).sum()
}

/// What became of a block: moved if more than half of it did, there already if it was, else why
/// most of the rest did not.
fn verdict(requests: &[Request], moved: &[Moved]) -> std::result::Result<(), FailReason> {
    let bytes = |wanted: &dyn Fn(&Moved) -> bool| -> u64 {
        let pairs = requests.iter().zip(moved);
        pairs.filter(|(_, moved)| wanted(moved)).map(|(request, _)| request.bytes).sum()
    };
    let all = bytes(&|_| true);
    let done = bytes(&|m| m.result.is_ok());
    let there = bytes(&|m| m.result == Err(FailReason::Already));
    if all == 0 {
        return Err(FailReason::NotPresent);
    }
    if (done + there) * 2 > all {
        return if done > 0 { Ok(()) } else { Err(FailReason::Already) };
    }
    let failed = |reason: &FailReason| bytes(&|m| m.result == Err(*reason));
    let reasons = FailReason::ALL.into_iter().filter(|r| *r != FailReason::Already);
    Err(reasons.max_by_key(|reason| failed(reason)).unwrap_or(FailReason::Busy))
}
