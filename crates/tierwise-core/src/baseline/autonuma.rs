//! AutoNUMA tiering: NUMA balancing's memory-tiering mode (`kernel.numa_balancing = 2`), Huang
//! Ying's series, in the kernel since 5.18 and with hot page selection since 6.1.
//!
//! - The scanner poisons slow pages only ([`super::numa_scan`]).
//! - A hint fault promotes its page, on the application's path, if the page is hot
//!   ([`super::hot_threshold`]). While the fast tier has more than `max(free_enough, capacity /
//!   16)` free above its promo watermark, a fault promotes its page at any latency
//!   (`pgdat_free_space_enough`).
//! - The fast tier must keep its high watermark (`migrate_balanced_pgdat`). If it cannot, the page
//!   stays and kswapd wakes.
//! - kswapd demotes from the old end of the inactive lists, from the low watermark up to the promo
//!   watermark ([`super::kswapd`]).
//!
//! A page is promoted to the node of the CPU that touched it. CPUs are beside the fastest tier, so
//! that tier is the target on machines of any number of tiers (`should_numa_migrate_memory`). The
//! kernel does not migrate dirty file pages (`migrate_misplaced_folio`). This policy does: a world
//! without writeback would never clean them.

use super::fault_tiering::{FaultPass, FaultRules, FaultTiering};
use super::hot_threshold::{HotThreshold, is_free_space_enough};
use super::kswapd::KswapdWatermarks;
use super::numa_scan::{NumaScanner, Tiers};
use crate::config::{ConfigError, Section};
use crate::observe::HintFault;
use crate::registry::BuildContext;
use crate::select::FreePages;
use crate::topology::{Tier, Topology, WatermarkLevel};
use crate::units::{Bytes, Pages, TierId, Timestamp};

/// The policy.
pub(super) type AutoNuma = FaultTiering<MemoryTiering>;

/// AutoNUMA's rules.
#[derive(Debug)]
pub(super) struct MemoryTiering {
    hot: HotThreshold,
    free_enough: Bytes,
}

impl AutoNuma {
    /// Reads the scanner's and the threshold's parameters and `free_enough` (1 GiB, the constant in
    /// `pgdat_free_space_enough`; scale it with a machine that is scaled down).
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn build(
        section: &Section<'_>,
        build: &BuildContext<'_>,
    ) -> Result<Self, ConfigError> {
        let scanner = NumaScanner::read(section, Tiers::Slow)?;
        let hot = HotThreshold::read(section, build.topology.page_size)?;
        let free_enough = section.bytes_or("free_enough", Bytes(1 << 30))?;
        Ok(Self::new(scanner, MemoryTiering { hot, free_enough }))
    }
}

impl MemoryTiering {
    /// `pgdat_free_space_enough`.
    fn is_free_space_enough(&self, free: &FreePages, topology: &Topology) -> bool {
        let (fast, page_size) = (TierId::FASTEST, topology.page_size);
        is_free_space_enough(free.of(fast), topology.tier(fast), self.free_enough, page_size)
    }
}

impl FaultRules for MemoryTiering {
    /// `should_numa_migrate_memory` and `migrate_misplaced_folio`.
    fn handle_fault(&mut self, now: Timestamp, fault: &HintFault, pass: &mut FaultPass<'_, '_>) {
        let Some(from) = pass.slow_tier(fault) else { return };
        let frames = Pages(pass.ctx.pages.frames(fault.page));
        if self.is_free_space_enough(&pass.free, pass.ctx.topology) {
            self.hot.reset();
        } else if !self.hot.admits(now, fault.at.since(fault.poisoned_at), frames) {
            return;
        }
        pass.promote(fault, from, WatermarkLevel::High);
    }

    fn marks(&self, tier: &Tier) -> KswapdWatermarks {
        KswapdWatermarks::memory_tiering(tier)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driven, SECOND};

    /// Scaled to a machine of hundreds of pages.
    const SMALL: &str = "algorithm = \"autonuma\"\nfree_enough = \"40KiB\"";

    #[test]
    fn free_memory_promotes_at_any_latency() {
        let mut driven = Driven::new(SMALL);
        driven.machine.allocated(0..4, 1);
        driven.fault(2, SECOND, 30 * SECOND);
        assert_eq!(driven.plan(30 * SECOND), [(2, 0)]);
    }

    #[test]
    fn without_free_memory_only_fast_faults_promote() {
        let mut driven = Driven::new(SMALL);
        driven.machine.allocated(0..85, 0).allocated(100..110, 1);
        driven.fault(100, SECOND, 3 * SECOND);
        driven.fault(101, SECOND, SECOND + SECOND / 2);
        assert_eq!(driven.plan(3 * SECOND), [(101, 0)]);
    }

    #[test]
    fn full_tier_keeps_page_and_wakes_kswapd() {
        let mut driven = Driven::new(SMALL);
        // Free: 6 of 100, between low (4) and high (6): kswapd sleeps until the promotion wakes it.
        driven.machine.allocated(0..94, 0).allocated(100..110, 1);
        assert_eq!(driven.plan(2 * SECOND), []);
        driven.fault(100, 2 * SECOND, 2 * SECOND + 1000);
        let demoted = driven.plan(2 * SECOND + 2000);
        assert_eq!(demoted, [(0, 1), (1, 1)], "up to 8 free: the promo watermark");
        driven.fault(100, 3 * SECOND, 3 * SECOND + 1000);
        assert_eq!(driven.plan(3 * SECOND + 2000), [(100, 0)]);
    }

    #[test]
    fn kswapd_wakes_below_low_and_spares_accessed() {
        let mut driven = Driven::new(SMALL);
        driven.machine.allocated(0..97, 0);
        driven.reference(0);
        driven.reference(2);
        let moves = driven.plan(SECOND / 2);
        assert_eq!(moves, [(1, 1), (3, 1), (4, 1), (5, 1), (6, 1)]);
    }

    #[test]
    fn middle_tier_promotes_up_and_demotes_down() {
        let mut driven = Driven::three_tiers(SMALL);
        driven.machine.allocated(0..3, 0).allocated(100..198, 1).allocated(300..302, 2);
        driven.fault(150, SECOND, SECOND + 5);
        driven.fault(301, SECOND, SECOND + 5);
        let moves = driven.plan(SECOND + 10);
        assert_eq!(moves[..2], [(150, 0), (301, 0)]);
        assert!(moves[2..].iter().all(|&(page, to)| (100..198).contains(&page) && to == 2));
        assert_eq!(driven.machine.free[1].0, 8);
    }
}
