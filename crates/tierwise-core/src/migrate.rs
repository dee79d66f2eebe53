//! Moves as data: a policy's plan, its budget and the outcomes.
//!
//! A policy fills a [`MigrationPlan`]. The [`Planner`] cuts it to the [`Budget`], in the order in
//! which the policy listed the moves. The world applies it and answers with one [`MoveOutcome`] per
//! move. A move that failed is an outcome, never an error.

use std::time::Duration;

use crate::observe::Signals;
use crate::page::ScanCost;
use crate::topology::WatermarkLevel;
use crate::units::{Bandwidth, Bytes, PageId, Pages, TenantId, TierId, Timestamp};

/// The thread that is charged for a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeTo {
    /// A kernel thread (kswapd, kpromoted) or the daemon. The application continues, and stalls
    /// only if it touches the page while the page is unmapped.
    Background,
    /// The thread that faulted: migration on the hint fault path, or direct reclaim.
    FaultingThread,
}

/// The reason for a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cause {
    /// The policy's own rule, without further details.
    #[default]
    Policy,
    /// The page was hot enough for the faster tier.
    Hot,
    /// The page was cold and the tier ran short (kswapd).
    Pressure,
    /// The page made room for a hotter page.
    MakeRoom,
    /// The page's tenant holds its share and has hotter pages.
    AtShare,
    /// The page's tenant came near its cap.
    NearCap,
    /// The page's tenant held its cap or more.
    AtCap,
    /// The share of the page's tenant shrank.
    Shrink,
    /// The share of the page's tenant grew.
    Grow,
}

impl Cause {
    /// Returns the words that follow "it was promoted" or "it was demoted".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Policy => "by the policy's own rule",
            Self::Hot => "because it was hot enough for the faster tier",
            Self::Pressure => "because it was cold and the tier ran short",
            Self::MakeRoom => "to make room for a hotter page",
            Self::AtShare => "because its tenant holds its share and has hotter pages",
            Self::NearCap => "because its tenant came near its cap",
            Self::AtCap => "because its tenant reached its cap",
            Self::Shrink => "because its tenant's share shrank",
            Self::Grow => "because its tenant's share grew",
        }
    }
}

/// One page and its target tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The page.
    pub page: PageId,
    /// The target tier.
    pub to: TierId,
    /// The thread that waits for the move.
    pub charge_to: ChargeTo,
    /// The reason.
    pub cause: Cause,
}

/// The maximum of memory that a tenant may hold in a tier. Its allocations beyond it go to the next
/// tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// The tenant.
    pub tenant: TenantId,
    /// The tier.
    pub tier: TierId,
    /// The limit in base pages.
    pub pages: Pages,
}

/// A run of pages with consecutive numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    /// First page.
    pub first: PageId,
    /// Number of pages.
    pub count: u32,
}

/// The placement of new pages until the next plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Fastest tier first (the kernel's default on a machine whose CPUs are beside the fast
    /// tier), or slowest first.
    pub fastest_first: bool,
    /// Free pages that an allocation leaves in each tier before it falls back to the next. The
    /// kernel's allocator leaves [`WatermarkLevel::Low`] (`get_page_from_freelist`,
    /// `ALLOC_WMARK_LOW`) as long as another node has free memory, then [`WatermarkLevel::Min`].
    pub leave_free: WatermarkLevel,
}

impl Default for Placement {
    fn default() -> Self {
        Self { fastest_first: true, leave_free: WatermarkLevel::Low }
    }
}

/// The moves and settings that a policy requests. Buffers are reused.
#[derive(Debug, Clone, Default)]
pub struct MigrationPlan {
    /// Moves, in the order in which the world applies them: a demotion that frees memory precedes
    /// the promotion that needs it.
    pub moves: Vec<Move>,
    /// Pages to poison, so that their next access is a hint fault.
    pub poison: Vec<PageRange>,
    /// The access signals that the policy requires from now on.
    pub signals: Signals,
    /// The placement of new pages from now on.
    pub placement: Placement,
    /// The tenants' limits from now on. Tenants and tiers that are not named have none.
    pub caps: Vec<Cap>,
    /// Tenants of which few samples suffice from now on, with their misses per sample. A world that
    /// samples whole CPUs need not read them.
    pub sparse: Vec<(TenantId, u32)>,
    /// The scans that made this plan: charged to a background core.
    pub scan: ScanCost,
    /// Base pages that are hotter than others in a faster tier and stay where they are, because the
    /// exchange would take more time than it saves.
    pub unpaid: Pages,
    /// True if the moves exchange pages in place, as the system call `exchange_pages` of
    /// Memstrata's kernel does (section 4.3): a promotion is followed by the demotion that gives
    /// its frame back, so that the pair may use the pages that a tier keeps free.
    pub in_place: bool,
}

impl MigrationPlan {
    /// Adds a move that a kernel thread makes.
    pub fn background(&mut self, page: PageId, to: TierId) {
        let (charge_to, cause) = (ChargeTo::Background, Cause::Policy);
        self.moves.push(Move { page, to, charge_to, cause });
    }

    /// Adds a move that the application waits for.
    pub fn on_fault(&mut self, page: PageId, to: TierId) {
        let (charge_to, cause) = (ChargeTo::FaultingThread, Cause::Policy);
        self.moves.push(Move { page, to, charge_to, cause });
    }

    /// Empties the lists. Keeps their memory, and the settings that hold from now on.
    pub fn clear(&mut self) {
        self.moves.clear();
        self.poison.clear();
        self.scan = ScanCost::default();
        self.unpaid = Pages(0);
        self.in_place = false;
    }
}

/// The reason why a page did not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailReason {
    /// Locked or pinned, or its reference count was elevated (`-EBUSY`, `-EAGAIN`).
    Busy,
    /// No free page in the target tier (`-ENOMEM`).
    TargetFull,
    /// The page was unmapped before the move (`-ENOENT`).
    NotPresent,
    /// The plan exceeded the budget and was cut before this move.
    Budget,
    /// The page is in the target tier already.
    Already,
}

impl FailReason {
    /// Every reason, in index order.
    pub const ALL: [Self; 5] =
        [Self::Busy, Self::TargetFull, Self::NotPresent, Self::Budget, Self::Already];

    /// The name in counters: `promote_fail_<name>`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::TargetFull => "target_full",
            Self::NotPresent => "not_present",
            Self::Budget => "budget",
            Self::Already => "already",
        }
    }
}

/// The result of one move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveOutcome {
    /// The page.
    pub page: PageId,
    /// The tier where the page was; `None` if the page was not present.
    pub from: Option<TierId>,
    /// The target tier.
    pub to: TierId,
    /// Success, or the reason for the failure.
    pub result: Result<(), FailReason>,
}

/// The limit on migrations. Unlimited by default: published policies have their own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Bytes copied per second, over all tiers.
    pub bandwidth: Option<Bandwidth>,
}

/// Cuts plans to the budget with a token bucket. A move larger than the bucket starts when the
/// bucket is full, and later moves wait until its debt is paid. Up to any time, all moves together
/// have at most the bytes of the budget and of one burst, or of the largest move if that is larger.
#[derive(Debug, Clone)]
pub struct Planner {
    budget: Budget,
    /// Bytes that may be moved now; negative if a move larger than the bucket left a debt.
    tokens: i128,
    refilled: Timestamp,
}

impl Planner {
    /// Tokens accumulate for at most this long, so that a long idle time does not end in a burst
    /// that takes the memory bandwidth for longer than an application notices.
    const BURST: Duration = Duration::from_secs(1);

    /// Starts with a full bucket.
    pub fn new(budget: Budget) -> Self {
        Self { budget, tokens: Self::burst(budget), refilled: Timestamp::ZERO }
    }

    fn burst(budget: Budget) -> i128 {
        budget.bandwidth.map_or(0, |bandwidth| Self::earned(bandwidth, Self::BURST))
    }

    /// Bytes that may be moved in a time. The product of two 64-bit numbers, divided, fits.
    fn earned(bandwidth: Bandwidth, time: Duration) -> i128 {
        (u128::from(bandwidth.0) * time.as_nanos() / 1_000_000_000) as i128
    }

    /// Drops moves beyond the budget from the end of `moves`, and reports each to `cut`.
    pub fn cut(
        &mut self,
        now: Timestamp,
        moves: &mut Vec<Move>,
        bytes_of: impl Fn(PageId) -> Bytes,
        mut cut: impl FnMut(Move),
    ) {
        let Some(bandwidth) = self.budget.bandwidth else { return };
        let (burst, earned) =
            (Self::burst(self.budget), Self::earned(bandwidth, now.since(self.refilled)));
        // `refilled` advances only if the elapsed time yields a token, so that no time is lost to
        // rounding.
        if earned > 0 {
            self.tokens = burst.min(self.tokens + earned);
            self.refilled = now;
        }
        let mut kept = 0;
        for m in moves.iter() {
            let bytes = i128::from(bytes_of(m.page).0);
            let full = burst > 0 && self.tokens == burst;
            if bytes > self.tokens && !full {
                break;
            }
            self.tokens -= bytes;
            kept += 1;
        }
        moves.drain(kept..).for_each(&mut cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves_of(pages: std::ops::Range<u32>) -> Vec<Move> {
        let mut plan = MigrationPlan::default();
        pages.for_each(|page| plan.background(PageId(page), TierId(0)));
        plan.moves
    }

    #[test]
    fn budget_cuts_the_tail_and_refills() {
        let mut planner = Planner::new(Budget { bandwidth: Some(Bandwidth(8192)) });
        let three = moves_of(0..3);
        let mut cut = Vec::new();
        let mut moves = three.clone();
        planner.cut(Timestamp::ZERO, &mut moves, |_| Bytes(4096), |m| cut.push(m.page));
        assert_eq!((moves.len(), cut), (2, vec![PageId(2)]));

        // Half a second yields the budget of one page.
        let mut moves = three;
        planner.cut(Timestamp(500_000_000), &mut moves, |_| Bytes(4096), |_| ());
        assert_eq!(moves.len(), 1);
    }
    #[test]
    fn move_beyond_a_burst_delays_others() {
        let mut planner = Planner::new(Budget { bandwidth: Some(Bandwidth(8192)) });
        // Page 0 is as large as four seconds of the budget.
        let bytes = |page: PageId| Bytes(if page == PageId(0) { 32_768 } else { 4096 });
        let moved: Vec<usize> = (0..8)
            .map(|half| {
                let mut moves = moves_of(if half == 0 { 0..2 } else { 1..3 });
                planner.cut(Timestamp(half * 500_000_000), &mut moves, bytes, |_| ());
                moves.len()
            })
            .collect();
        assert_eq!(moved, [1, 0, 0, 0, 0, 0, 0, 1], "three seconds pay the debt");
    }

    #[test]
    fn no_bandwidth_moves_no_page() {
        let mut planner = Planner::new(Budget { bandwidth: Some(Bandwidth(0)) });
        let mut moves = moves_of(0..2);
        planner.cut(Timestamp(9_000_000_000), &mut moves, |_| Bytes(4096), |_| ());
        assert_eq!(moves, []);
    }
}
