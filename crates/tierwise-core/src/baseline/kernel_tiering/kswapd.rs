//! kswapd with demotion enabled, over the multi-gen LRU (`mm/vmscan.c`).
//!
//! - `wakeup_kswapd` wakes it when a promotion finds no room (`migrate_misplaced_folio_prepare`),
//!   and when an allocation finds every tier below its low watermark (`wake_all_kswapds`).
//! - `pgdat_balanced`: it is done when a zone has more free than its promo watermark.
//! - `balance_pgdat`: it shrinks the node at priorities from 12 down to 1. The priority rises
//!   after each pass that scanned less than its target. Then it starts again, unless sixteen such
//!   rounds in a row have reclaimed nothing (`kswapd_test_hopeless`).
//! - `kswapd_shrink_node`: a pass's target is the high watermark, and 32 pages at least.
//! - `set_initial_priority`: a node of few inactive pages starts at priority 6.
//! - `shrink_many`, `try_to_shrink_lruvec`: a pass visits each tenant, and scans its size divided
//!   by two to the power of the priority, in batches of 64 pages. After aging it leaves the tenant
//!   (7.3: after one more batch).
//! - `should_abort_scan`: a pass ends when it reached its target, or when every zone has 64 pages
//!   more free than its promo watermark.
//! - `demote_folio_list`: what was not accessed moves to the next slower tier above its min
//!   watermark.
//!
//! kswapd is a thread like the program's. A batch is one step; between two steps the program's
//! threads get as much CPU time as the step took. Where a CPU is idle that time passes while
//! kswapd works; where all are in use it comes after.

use std::time::Duration;

use super::generations::{BATCH, Evicted, Folios, Generations, frames};
use super::release::Release;
use super::zones::Zones;
use crate::migrate::MigrationPlan;
use crate::observe::KernelCosts;
use crate::page::PageTable;
use crate::select::FreePages;
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{PageId, Pages, TierId, Timestamp};

/// `DEF_PRIORITY`
const DEF_PRIORITY: u32 = 12;
/// `SWAP_CLUSTER_MAX`
const SWAP_CLUSTER_MAX: u64 = 32;
/// `MAX_RECLAIM_RETRIES`
const MAX_RETRIES: u32 = 16;

/// The pages of a tier and its kswapd.
#[derive(Debug)]
pub(super) struct Node {
    tier: TierId,
    /// By tenant.
    pub(super) lruvecs: Vec<Generations>,
    balance: Option<Balance>,
    /// Rounds in a row that reclaimed nothing (`kswapd_failures`).
    failures: u32,
    /// The end of the last step, and the CPU time that it took.
    last: (Timestamp, Duration),
    victims: Vec<PageId>,
}

/// `balance_pgdat`'s state.
#[derive(Debug, Clone, Copy)]
struct Balance {
    priority: u32,
    /// Base pages reclaimed since the start.
    reclaimed: u64,
    pass: Option<Pass>,
}

/// `kswapd_shrink_node`'s state.
#[derive(Debug, Clone, Copy)]
struct Pass {
    target: u64,
    scanned: u64,
    reclaimed: u64,
    /// The tenant being shrunk.
    lruvec: usize,
    /// Base pages that are still to be scanned of it; `None` before its first batch.
    left: Option<u64>,
}

/// The data that a step reads and changes.
pub(super) struct KswapdStep<'a, 'p> {
    pub(super) release: Release,
    pub(super) folios: &'a mut Folios,
    pub(super) pages: &'a mut PageTable,
    pub(super) topology: &'a Topology,
    pub(super) free: &'a mut FreePages,
    pub(super) zones: &'a mut Zones,
    pub(super) plan: &'p mut MigrationPlan,
    pub(super) costs: KernelCosts,
}

impl Node {
    pub(super) fn new(tier: TierId) -> Self {
        Self {
            tier,
            lruvecs: Vec::new(),
            balance: None,
            failures: 0,
            last: (Timestamp::ZERO, Duration::ZERO),
            victims: Vec::new(),
        }
    }

    /// `wakeup_kswapd`. A node that is balanced, or hopeless, does not wake.
    pub(super) fn wake(
        &mut self,
        now: Timestamp,
        free: &FreePages,
        zones: &Zones,
        topology: &Topology,
    ) {
        let slowest = topology.slower(self.tier).is_none();
        if slowest || self.balance.is_some() || self.failures >= MAX_RETRIES {
            return;
        }
        if !is_balanced(self.tier, free, zones, topology) {
            self.balance = Some(Balance::START);
            self.last = (now, Duration::ZERO);
        }
    }

    /// Returns true if kswapd works.
    pub(super) fn is_awake(&self) -> bool {
        self.balance.is_some()
    }

    /// The time from which the next step may be made, if kswapd works: the program has then run for
    /// `ran` since the last step. `None` for a world that does not know run times.
    pub(super) fn due(&self, now: Timestamp, ran: Option<Duration>) -> Option<Timestamp> {
        self.balance?;
        let (at, took) = self.last;
        Some(match ran {
            // On CPUs that all are in use the program runs after kswapd.
            None => at + 2 * took,
            Some(ran) => (at + took).max(now + took.saturating_sub(ran)),
        })
    }

    /// Makes a step. Returns true if it did any work.
    pub(super) fn step(&mut self, now: Timestamp, step: &mut KswapdStep<'_, '_>) -> bool {
        while let Some(balance) = self.balance {
            let worked = match balance.pass {
                None => self.start_pass(balance, step),
                Some(pass) => self.shrink(now, balance, pass, step),
            };
            if worked {
                return true;
            }
        }
        false
    }

    /// Starts the next pass of `balance_pgdat`, or ends it.
    fn start_pass(&mut self, mut balance: Balance, step: &KswapdStep<'_, '_>) -> bool {
        if is_balanced(self.tier, step.free, step.zones, step.topology) {
            self.failures = 0;
            self.balance = None;
            return false;
        }
        if balance.priority < 1 {
            self.failures = if balance.reclaimed > 0 { 0 } else { self.failures + 1 };
            self.balance = (self.failures < MAX_RETRIES).then_some(Balance::START);
            return false;
        }
        let high = step.topology.tier(self.tier).watermarks.high.0;
        let target = high.max(SWAP_CLUSTER_MAX);
        balance.priority = self.initial_priority(balance.priority, target);
        balance.pass = Some(Pass { target, scanned: 0, reclaimed: 0, lruvec: 0, left: None });
        self.balance = Some(balance);
        false
    }

    /// `set_initial_priority`
    fn initial_priority(&self, priority: u32, target: u64) -> u32 {
        if priority != DEF_PRIORITY || target < BATCH {
            return priority;
        }
        let inactive: u64 = self.lruvecs.iter().map(Generations::inactive).sum();
        let found = i64::from(fls(inactive)) - 1 - i64::from(fls(target - 1));
        found.clamp(i64::from(DEF_PRIORITY / 2), i64::from(DEF_PRIORITY)) as u32
    }

    /// One round of `try_to_shrink_lruvec`'s loop. Returns true if it evicted or aged.
    fn shrink(
        &mut self,
        now: Timestamp,
        balance: Balance,
        mut pass: Pass,
        step: &mut KswapdStep<'_, '_>,
    ) -> bool {
        let Some(lruvec) = self.lruvecs.get_mut(pass.lruvec) else {
            self.end_pass(balance, pass);
            return false;
        };
        let left = pass.left.unwrap_or_else(|| lruvec.size() >> balance.priority);
        if left == 0 {
            (pass.lruvec, pass.left) = (pass.lruvec + 1, None);
            self.balance = Some(Balance { pass: Some(pass), ..balance });
            return false;
        }
        let before = step.pages.scan_cost();
        let aged = lruvec.should_age(balance.priority < DEF_PRIORITY, step.release);
        if aged {
            lruvec.age(step.release, step.folios, step.pages);
        }
        self.victims.clear();
        let evicted = if aged && step.release == Release::V6_12 {
            // Aging ends the visit (`get_nr_to_scan`).
            Evicted::default()
        } else {
            let most = if step.release == Release::V7_3 { left.min(BATCH) } else { u64::MAX };
            lruvec.evict(most, step.release, step.folios, step.pages, &mut self.victims)
        };
        let demoted = self.demote(pass.lruvec, step);
        pass.scanned += evicted.isolated;
        pass.reclaimed += demoted;
        let reads = step.pages.scan_cost().scanned - before.scanned;
        self.last = (now, step.costs.of(demoted, reads));
        self.go_on(balance, pass, left, aged, evicted, step);
        true
    }

    /// Plans the demotion of the victims. Returns the base pages that move; the others are put
    /// back.
    fn demote(&mut self, lruvec: usize, step: &mut KswapdStep<'_, '_>) -> u64 {
        let all = frames(&self.victims, step.pages);
        let mut kept = Pages(0);
        for &page in &self.victims {
            let frames = Pages(step.pages.frames(page));
            let level = WatermarkLevel::Min;
            match step.free.slower_that_fits(frames, self.tier, step.topology, level) {
                Some(to) => {
                    step.plan.background(page, to);
                    if step.folios.is_lower(page) {
                        step.zones.free_lower(frames.0);
                        step.folios.set_lower(page, false);
                    }
                    step.free.record(frames, self.tier, to);
                }
                None => {
                    kept += frames;
                    self.lruvecs[lruvec].put_back(page, step.release, step.folios, step.pages);
                }
            }
        }
        (all - kept).0
    }

    /// What follows a batch: the next batch, the next tenant or the end of the pass.
    fn go_on(
        &mut self,
        balance: Balance,
        mut pass: Pass,
        left: u64,
        aged: bool,
        evicted: Evicted,
        step: &KswapdStep<'_, '_>,
    ) {
        let promo = step.topology.tier(self.tier).watermarks.promo;
        let free = step.free.of(self.tier);
        let is_safe = match self.tier {
            TierId::FASTEST => step.zones.all_above(free, promo, BATCH),
            _ => free > promo + Pages(BATCH),
        };
        if pass.reclaimed >= pass.target || is_safe {
            return self.end_pass(balance, pass);
        }
        let left = left.saturating_sub(evicted.scanned);
        if aged || evicted.scanned == 0 || left == 0 {
            (pass.lruvec, pass.left) = (pass.lruvec + 1, None);
        } else {
            pass.left = Some(left);
        }
        self.balance = Some(Balance { pass: Some(pass), ..balance });
    }

    /// The end of `kswapd_shrink_node`.
    fn end_pass(&mut self, balance: Balance, pass: Pass) {
        let enough = pass.scanned.max(pass.reclaimed) >= pass.target;
        let raise = !enough || pass.reclaimed == 0;
        self.balance = Some(Balance {
            priority: balance.priority - u32::from(raise),
            reclaimed: balance.reclaimed + pass.reclaimed,
            pass: None,
        });
    }
}

impl Balance {
    const START: Self = Self { priority: DEF_PRIORITY, reclaimed: 0, pass: None };
}

/// `pgdat_balanced`
fn is_balanced(tier: TierId, free: &FreePages, zones: &Zones, topology: &Topology) -> bool {
    let promo = topology.tier(tier).watermarks.promo;
    match tier {
        TierId::FASTEST => zones.any_above(free.of(tier), promo, 0),
        _ => free.of(tier) > promo,
    }
}

/// `fls_long`: the place of the highest bit, counted from one.
fn fls(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

#[cfg(test)]
mod tests;
