//! Applies plans: turns moves into system calls, and reports the outcome of each.
//!
//! One page of the engine is a block of many base pages. It has moved when more than half of its
//! resident memory is verified to be in the target tier. The rest follows ([`Migrator::finish`]):
//! the engine knows only one tier per block, and never plans that rest again. A round takes at most
//! [`ROUND`] of a CPU, and [`LONGEST_ROUND`] where other programs use the CPUs. Moves that do not
//! fit into it are reported as over the budget; the next rounds go on with them until there is
//! another plan. A plan demotes before it promotes. Here demotions and promotions take turns, a
//! portion each: otherwise a round that is too short for all would only demote, and the memory that
//! this frees would stay empty.

use std::collections::BTreeMap;
use std::time::Duration;

use tierwise_core::migrate::{FailReason, Move, MoveOutcome};
use tierwise_core::observe::TenantReading;
use tierwise_core::units::{PageId, TenantId, TierId, Timestamp};

use super::blocks::Blocks;
use super::exchange::{ExchangeDebt, Exchanged};
use super::shifts::Shifts;
use super::survey::Survey;
use super::turns::{Turns, makes_room};
use crate::error::Result;
use crate::migrate::mover::Moved;
use crate::migrate::{Calls, Limits, MoveRequest, Mover};
use crate::process::Reader;
use crate::process::resident::PAGE_SIZE;
use crate::roots::Roots;
use crate::topology::{LinuxHost, nodes};

/// Maximum CPU time for one plan: half the longest wait between two rounds, so that accesses are
/// not older than the decisions based on them.
const ROUND: Duration = Duration::from_millis(500);

/// Maximum time for one plan. A daemon that shares a CPU with three others still moves as much, and
/// a command waits for at most two seconds.
const LONGEST_ROUND: Duration = Duration::from_secs(2);

/// Maximum bytes per call of the mover: what moves in less than a tenth of a round at a modest 1
/// GB/s, so that a round ends in time.
const PORTION: u64 = 32 << 20;

/// Minimum, and the first portion: a block of the default size. A machine on which that takes long
/// does not move more in smaller portions.
const MIN_PORTION: u64 = 2 << 20;

/// A portion is halved if it took more than a fifth of a round, and doubled if it took less than a
/// twentieth. In between, a round has several portions and is late by at most one.
const SLOW: Duration = Duration::from_millis(100);
const QUICK: Duration = Duration::from_millis(25);

/// Pages that have to move before their cost counts as measured: as many as
/// [`crate::kernel_tiering::copy_cost`] copies, 1 MiB.
const MEASURED: u64 = 256;

/// Size of a huge page (`MAP_HUGE_2MB`), which takes one request.
const HUGE: u64 = 2 << 20;

/// Parts of the live world that a migration borrows.
#[derive(Debug)]
pub struct MoveContext<'a> {
    /// Mount points of the kernel's file systems.
    pub roots: &'a Roots,
    /// The machine.
    pub host: &'a LinuxHost,
    /// The engine's pages.
    pub blocks: &'a mut Blocks,
    /// Survey that finds a block's resident pages.
    pub survey: &'a mut Survey,
}

/// Applies plans.
#[derive(Debug)]
pub struct Migrator<C> {
    calls: C,
    mover: Mover,
    requests: Vec<MoveRequest>,
    /// Index of the first request of each move of a portion.
    firsts: Vec<usize>,
    moved: Vec<Moved>,
    targets: Vec<Option<u32>>,
    reader: Reader,
    /// Blocks that moved in part, and their target tiers.
    rest: BTreeMap<PageId, TierId>,
    finishing: Vec<(PageId, TierId)>,
    turns: Turns,
    /// The last round had no time for all of its moves.
    unfinished: bool,
    /// What moved since [`Migrator::correct`].
    shifts: Shifts,
    /// Bytes per portion at this machine's pace.
    portion: u64,
    debt: ExchangeDebt,
    cpu: Duration,
    /// CPU time spent on migration since the start.
    spent: Duration,
}

impl<C: Calls> Migrator<C> {
    /// Sets targets of calls ([`Mover::set_targets`]).
    pub(super) fn set_targets(&mut self, targets: impl IntoIterator<Item = (TenantId, Duration)>) {
        self.mover.set_targets(targets);
    }

    /// A migrator with full allowances.
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
            turns: Turns::default(),
            unfinished: false,
            shifts: Shifts::default(),
            portion: MIN_PORTION,
            debt: ExchangeDebt::default(),
            cpu: Duration::ZERO,
            spent: Duration::ZERO,
        }
    }

    /// Starts a round, which may have no moves.
    pub fn start_round(&mut self) {
        self.unfinished = false;
    }

    /// True if the last round had no time for all of its moves.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// System calls.
    pub fn calls(&mut self) -> &mut C {
        &mut self.calls
    }

    /// Bytes moved so far, as verified.
    pub fn moved_bytes(&self) -> u64 {
        self.mover.tally().bytes
    }

    /// Pages moved in a call during which their process exited.
    pub fn pages_in_doubt(&self) -> u64 {
        self.mover.tally().in_doubt
    }

    /// CPU time spent on migration since the last call.
    pub fn take_cpu(&mut self) -> Duration {
        let cpu = std::mem::take(&mut self.cpu);
        self.spent += cpu;
        cpu
    }

    /// CPU time of migrating one base page, finding it and checking it afterwards included, over
    /// all moves so far. `None` before [`MEASURED`] pages have moved.
    pub fn move_cost(&self) -> Option<Duration> {
        let pages = self.moved_bytes() / PAGE_SIZE;
        (pages >= MEASURED).then(|| self.spent.div_f64(pages as f64))
    }

    /// Corrects the tenants' memory by tier by what has moved since the last call.
    pub fn correct(&mut self, host: &LinuxHost, tenants: &mut [TenantReading]) {
        self.shifts.correct(host, tenants);
    }

    /// Applies moves, or none in a dry run, and adds one outcome per move, in their order.
    ///
    /// # Errors
    /// The kernel refuses to move any page. Even then every move gets an outcome.
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
        self.select_targets(roots, host);
        self.debt.start(started);
        let mut turns = std::mem::take(&mut self.turns);
        turns.start(moves, blocks, self.portion);
        let Turns { moves: turn, outcomes, .. } = &mut turns;
        let mut at = 0;
        let mut answer = Ok(());
        while at < turn.len() {
            let is_late = self.is_late(started, cpu);
            if dry_run || is_late || answer.is_err() {
                self.unfinished = is_late && !dry_run;
                outcomes.extend(turn[at..].iter().map(|m| unmoved(m, blocks, FailReason::Budget)));
                break;
            }
            let is_due = self.debt.is_due(self.calls.now(), blocks.size());
            let waits = |m: &Move| is_due && makes_room(m.cause);
            if waits(&turn[at]) {
                outcomes.push(unmoved(&turn[at], blocks, FailReason::Budget));
                at += 1;
                continue;
            }
            let wanted = turn[at..].iter().take_while(|m| !waits(m));
            let wanted = wanted.map(|m| (m.page, m.to, makes_room(m.cause)));
            let next = self.gather(wanted, blocks, survey) + at;
            answer = self.run();
            self.report(&turn[at..next], blocks, outcomes);
            at = next;
        }
        turns.end(out);
        self.turns = turns;
        self.cpu += self.calls.cpu().saturating_sub(cpu);
        answer
    }

    /// True at the end of a round that started at this time, and at this CPU time.
    fn is_late(&mut self, started: Timestamp, cpu: Duration) -> bool {
        self.calls.cpu().saturating_sub(cpu) >= ROUND
            || self.calls.now().since(started) >= LONGEST_ROUND
    }

    /// Moves the rest of blocks that moved in part, one portion per call. A block whose known tier
    /// has changed since is left as it is.
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
        self.select_targets(roots, host);
        let mut wanted = std::mem::take(&mut self.finishing);
        wanted.clear();
        wanted.extend(self.rest.iter().map(|(page, to)| (*page, *to)));
        let rest = wanted.iter().map(|&(page, to)| (page, to, false));
        let taken = self.gather(rest, blocks, survey);
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

    /// Selects the node with the most free memory of each tier as the target.
    fn select_targets(&mut self, roots: &Roots, host: &LinuxHost) {
        let reader = &mut self.reader;
        let mut free_memory =
            |node: &u32| nodes::free(roots, reader, *node).map_or(0, |free| free.0);
        self.targets.clear();
        for tier in &host.tiers {
            self.targets.push(tier.nodes.iter().copied().max_by_key(&mut free_memory));
        }
    }

    /// Makes requests of as many moves as fit into a portion, and of at least one. A move is a
    /// page, its target, and true if it makes room for another. Returns their number.
    fn gather(
        &mut self,
        moves: impl Iterator<Item = (PageId, TierId, bool)>,
        blocks: &Blocks,
        survey: &mut Survey,
    ) -> usize {
        self.requests.clear();
        self.firsts.clear();
        let mut bytes = 0;
        for (page, to, makes_room) in moves {
            if bytes >= self.portion {
                break;
            }
            self.firsts.push(self.requests.len());
            let Some(&block) = blocks.get(page) else { continue };
            let target = |tier: TierId| self.targets.get(tier.index()).copied().flatten();
            let Some(node) = target(to) else { continue };
            let room_on = target(block.tier).filter(|_| makes_room);
            let (start, end) = (block.number * blocks.size(), (block.number + 1) * blocks.size());
            let Ok(ranges) = survey.resident(&block, start, end, &mut self.calls) else {
                continue;
            };
            for range in ranges {
                // A huge page that extends beyond the block is requested by its part inside it.
                let step = if range.huge { HUGE } else { PAGE_SIZE };
                let mut address = range.start;
                while address < range.end {
                    let size = (step - address % step).min(range.end - address);
                    self.requests.push(MoveRequest {
                        tenant: block.tenant,
                        process: block.process,
                        address,
                        bytes: size,
                        node,
                        room_on,
                    });
                    address += size;
                    bytes += size;
                }
            }
        }
        self.firsts.len()
    }

    /// Moves the current portion, and adapts the size of the next one to the time that it took.
    fn run(&mut self) -> Result<()> {
        let started = self.calls.now();
        let answer = self.mover.run(&mut self.calls, &self.requests, &mut self.moved);
        self.shifts.add(&self.requests, &self.moved);
        let took = self.calls.now().since(started);
        if took > SLOW {
            self.portion = (self.portion / 2).max(MIN_PORTION);
        } else if took < QUICK {
            self.portion = (self.portion * 2).min(PORTION);
        }
        answer
    }

    /// Range of the requests of the i-th move of the portion.
    fn requests_of(&self, i: usize) -> std::ops::Range<usize> {
        self.firsts[i]..self.firsts.get(i + 1).copied().unwrap_or(self.requests.len())
    }

    /// Adds one outcome per move of the portion.
    fn report(&mut self, moves: &[Move], blocks: &mut Blocks, out: &mut Vec<MoveOutcome>) {
        let mut part = Exchanged::default();
        for (i, m) in moves.iter().enumerate() {
            let range = self.requests_of(i);
            let bytes: u64 = self.requests[range.clone()].iter().map(|request| request.bytes).sum();
            let left = left_behind(&self.requests[range.clone()], &self.moved[range.clone()]);
            let full = self.targets.get(m.to.index()).copied().flatten().is_none();
            let result = if full {
                Err(FailReason::TargetFull)
            } else {
                result_of(&self.requests[range.clone()], &self.moved[range])
            };
            let mut outcome = unmoved(m, blocks, FailReason::NotPresent);
            outcome.result =
                if outcome.from.is_none() { Err(FailReason::NotPresent) } else { result };
            if outcome.result == Err(FailReason::Already) && outcome.from != Some(m.to) {
                // The page is in the target tier; the known tier was out of date.
                outcome.result = Ok(());
            }
            self.rest.remove(&m.page);
            let promotion = outcome.from.is_some_and(|from| m.to < from);
            match outcome.result {
                Ok(()) if promotion => part.promoted += bytes,
                Ok(()) if makes_room(m.cause) => part.made_room += bytes,
                Err(FailReason::Busy | FailReason::TargetFull) if promotion => part.failed += bytes,
                _ => {}
            }
            if outcome.result.is_ok() {
                blocks.placed(m.page, m.to);
                if left > 0 {
                    self.rest.insert(m.page, m.to);
                }
            }
            out.push(outcome);
        }
        self.debt.record(self.calls.now(), part);
    }
}

fn unmoved(m: &Move, blocks: &Blocks, reason: FailReason) -> MoveOutcome {
    let from: Option<TierId> = blocks.get(m.page).map(|block| block.tier);
    MoveOutcome { page: m.page, from, to: m.to, result: Err(reason) }
}

/// Resident bytes of a block outside the target tier.
fn left_behind(requests: &[MoveRequest], moved: &[Moved]) -> u64 {
    let stays = |moved: &Moved| {
        !matches!(moved.result, Ok(()) | Err(FailReason::Already | FailReason::NotPresent))
    };
    requests.iter().zip(moved).filter(|(_, moved)| stays(moved)).map(|(r, _)| r.bytes).sum()
}

/// Result for a block: moved if more than half of it moved or was there already, `Already` if none
/// of that had to move, otherwise the most common reason, by bytes.
fn result_of(requests: &[MoveRequest], moved: &[Moved]) -> std::result::Result<(), FailReason> {
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
