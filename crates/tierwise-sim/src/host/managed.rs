//! A host whose CPU manages the last tier: pages enter and leave its frames, and its counters are
//! the only signal.

use tierwise_core::units::{PageId, TierId};

use super::SimulatedHost;
use super::node::ManagedNode;
use crate::hardware::counters::{CounterSums, Demand};
use crate::workload::WorkloadState;

/// The managed tier of a host, and what its CPU counted.
#[derive(Debug)]
pub(super) struct ManagedTier {
    node: ManagedNode,
    /// Demand of the current window, by workload.
    demand: Vec<Demand>,
    /// Counters since the last observation, by workload.
    tally: Vec<CounterSums>,
}

impl SimulatedHost {
    /// Makes the CPU manage the last tier. Call it before the first step.
    pub(crate) fn manage(&mut self, node: ManagedNode) {
        let workloads = self.workloads.len();
        self.managed = Some(ManagedTier {
            node,
            demand: vec![Demand::default(); workloads],
            tally: vec![CounterSums::default(); workloads],
        });
    }

    /// The tier that the CPU manages.
    fn managed_tier(&self) -> TierId {
        self.topology.slowest()
    }

    /// Returns the placement of a workload's new page.
    pub(super) fn placement_of(&self, i: usize, local: u32) -> tierwise_core::migrate::Placement {
        match &self.managed {
            None => self.placement,
            Some(managed) => managed.node.placement(i, local, self.memory.usage(i)[0].0),
        }
    }

    /// Returns true if there is a frame for a page of a workload in a tier. Free memory is a
    /// separate condition.
    pub(super) fn has_frame(&self, workload: u16, to: TierId) -> bool {
        let managed = self.managed.as_ref().filter(|_| to == self.managed_tier());
        managed.is_none_or(|managed| managed.node.has_free_frame(workload))
    }

    /// Handles a page that entered a tier.
    pub(super) fn enter_tier(&mut self, workload: u16, page: PageId, tier: TierId) {
        let is_managed = tier == self.managed_tier();
        let Some(managed) = self.managed.as_mut().filter(|_| is_managed) else { return };
        if let Some(coloured) = managed.node.place(workload, page) {
            self.observation.coloured.push(coloured);
        }
    }

    /// Handles a page that left its tier: for another tier, or because it was freed.
    pub(super) fn quit_tier(&mut self, workload: u16, page: PageId, moved: bool) {
        if let Some(managed) = &mut self.managed {
            managed.node.remove(workload, page, moved);
        }
    }

    /// Computes the part of a workload's window that slow memory serves.
    pub(super) fn split(&mut self, i: usize) {
        let Some(managed) = &mut self.managed else { return };
        let window_ns = |workload: usize| self.stats.recent_window_ns(workload);
        managed.demand[i] = Demand::of(&self.workloads[i].window);
        let slow = managed.node.slow(i, &self.memory, &self.workloads, &window_ns);
        self.workloads[i].slow = Some(slow);
    }

    /// Computes that part again for every workload, after pages moved.
    pub(super) fn split_all(&mut self) {
        if self.managed.is_none() {
            return;
        }
        for i in 0..self.workloads.len() {
            if self.workloads[i].state == WorkloadState::Running {
                self.split(i);
            }
        }
    }

    /// Handles the end of a workload's window: its places hold other lines now.
    pub(super) fn settle(&mut self, i: usize) {
        let Some(managed) = &mut self.managed else { return };
        let window_ns = |workload: usize| self.stats.recent_window_ns(workload);
        managed.node.settle(i, &self.memory, &self.workloads, &window_ns);
    }

    /// Handles the start of a workload.
    pub(super) fn begin(&mut self, i: usize) {
        if let Some(managed) = &mut self.managed {
            managed.node.begin(i as u16);
        }
    }

    /// Handles the end of a workload.
    pub(super) fn quit(&mut self, i: usize) {
        self.workloads[i].slow = None;
        if let Some(managed) = &mut self.managed {
            managed.node.end(i as u16);
        }
    }

    /// Counts a number of passes over a workload's window.
    pub(super) fn count(&mut self, i: usize, passes: f64) {
        let Some(managed) = &mut self.managed else { return };
        let workload = &self.workloads[i];
        let load = |t: usize| self.machine.tiers[t].load_at(self.utilisation[t]);
        let (fast, slow) = (workload.served(0).0, workload.served(1).0);
        let all = (fast + slow).max(f64::MIN_POSITIVE);
        let load_ns = load(0) + slow / all * load(1);
        let overlap = self.schedules[i].memory_level_parallelism;
        managed.tally[i].add(&managed.demand[i], load_ns, overlap, passes);
    }

    /// The counters of a workload since the last call.
    pub(super) fn take_counters(
        &mut self,
        i: usize,
    ) -> Option<tierwise_core::observe::CpuCounters> {
        let tally = &mut self.managed.as_mut()?.tally[i];
        Some(std::mem::take(tally).counters())
    }

    /// Checks that no colour is shared. Returns the violation.
    pub(super) fn check_colours(&self) -> Option<String> {
        self.managed.as_ref().and_then(|managed| managed.node.check(&self.memory))
    }
}
