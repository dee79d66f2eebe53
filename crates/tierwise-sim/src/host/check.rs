//! Checkers of the invariants that hold after every step, under any policy.

use tierwise_core::units::Pages;

use super::SimulatedHost;
use crate::error::{SimError, Violation};

impl SimulatedHost {
    /// Checks that no page is in two tiers, usage is within capacity, counts are conserved and time
    /// is monotonic.
    pub(super) fn verify(&mut self) -> Result<(), SimError> {
        let problem = self
            .check_usage()
            .or_else(|| self.check_owners())
            .or_else(|| self.check_misses())
            .or_else(|| self.check_budget())
            .or_else(|| self.check_colours())
            .or_else(|| self.stats.check_time(self.now));
        match problem {
            None => Ok(()),
            Some(what) => {
                Err(SimError::Violation(Violation { now_ns: self.now, seed: self.seed, what }))
            }
        }
    }

    /// Checks that the counts of pages by frames, by tier and by workload are the same, and fit.
    fn check_usage(&self) -> Option<String> {
        let recounted = self.memory.recount();
        for tier in self.topology.ids() {
            let t = tier.index();
            let (used, capacity) = (self.memory.used()[t], self.memory.capacity()[t]);
            let by_workload: Pages =
                (0..self.workloads.len()).map(|i| self.memory.usage(i)[t]).sum();
            if used > capacity {
                return Some(format!("tier {t} holds {} pages of {}", used.0, capacity.0));
            }
            if recounted[t] != used || by_workload != used {
                return Some(format!(
                    "tier {t}: {} pages by its counter, {} by frames, {} by workloads",
                    used.0, recounted[t].0, by_workload.0
                ));
            }
        }
        None
    }

    /// Checks that every mapped page belongs to exactly one place in one workload.
    fn check_owners(&self) -> Option<String> {
        let mut mapped = 0;
        for (i, workload) in self.workloads.iter().enumerate() {
            for local in 0..workload.locals.len() as u32 {
                let Some(page) = workload.page(local) else { continue };
                let frame = self.memory.frame(page);
                mapped += 1;
                if frame.tier().is_none()
                    || usize::from(frame.workload) != i
                    || frame.local != local
                {
                    return Some(format!("workload {i} maps page {} which is not its own", page.0));
                }
            }
        }
        let present = (0..self.memory.page_numbers())
            .filter(|&p| self.memory.frame(page_id(p)).tier().is_some());
        let present = present.count();
        (present != mapped).then(|| format!("{present} pages present, {mapped} mapped"))
    }

    /// Checks that no more bytes moved than the bandwidth allows since time zero, with one second's
    /// burst, or one move that is larger.
    fn check_budget(&self) -> Option<String> {
        let bandwidth = self.budget.bandwidth?.0 as f64;
        let burst = bandwidth.max(self.stats.largest_move);
        let allowed = burst + bandwidth * self.now as f64 * 1e-9;
        let moved = self.stats.migrated_bytes;
        (moved > allowed + 1.0).then(|| format!("{moved} bytes moved, {allowed} allowed"))
    }

    /// Checks that the misses kept by tier are those of the window's rows, each in its page's tier.
    fn check_misses(&self) -> Option<String> {
        for (i, workload) in self.workloads.iter().enumerate() {
            let mut expected = vec![0; self.topology.tiers.len()];
            for access in &workload.window.accesses {
                let page =
                    workload.page(access.page).filter(|_| workload.row(access.page).is_some());
                if let Some(tier) = page.and_then(|page| self.memory.frame(page).tier()) {
                    expected[tier.index()] +=
                        u64::from(access.load_misses) + u64::from(access.store_misses);
                }
            }
            let kept: Vec<u64> = workload.misses.iter().map(|m| m.total()).collect();
            if kept != expected {
                return Some(format!(
                    "workload {i}: misses {kept:?} by tier, {expected:?} by rows"
                ));
            }
        }
        None
    }
}

fn page_id(index: usize) -> tierwise_core::units::PageId {
    tierwise_core::units::PageId(index as u32)
}
