//! Memory as a daemon's surveys find it: the blocks of a process in the order of their addresses
//! (`Blocks::update` of tierwise-linux), whenever each was allocated. Policies keep lists in the
//! order in which pages come to them, and pages that are equally hot move in that order.

use tierwise_core::observe::Allocated;
use tierwise_core::page::{Attributes, PageKind};
use tierwise_core::units::{PageId, TenantId};
use tierwise_trace::PageBacking;

use super::SimulatedHost;

impl SimulatedHost {
    /// Replaces the report of what was allocated by one in the order of addresses. The first one
    /// has all memory: no daemon runs before.
    pub(super) fn report_surveyed(&mut self) {
        let mut found: Vec<PageId> = if self.undecided || !self.surveyed {
            self.observation.freed.clear();
            (0..self.memory.page_numbers() as u32).map(PageId).collect()
        } else {
            self.observation.allocated.iter().flat_map(Allocated::pages).collect()
        };
        self.observation.allocated.clear();
        if self.undecided {
            return;
        }
        self.surveyed = true;
        found.retain(|&page| self.memory.frame(page).tier().is_some());
        // The numbers of a workload's pages ascend with their addresses.
        found.sort_unstable_by_key(|&page| {
            let frame = self.memory.frame(page);
            (frame.workload, frame.local)
        });
        for page in found {
            if let Some(attributes) = self.attributes(page) {
                self.report_allocated(page, attributes);
            }
        }
    }

    fn attributes(&self, page: PageId) -> Option<Attributes> {
        let frame = self.memory.frame(page);
        let allocation = self.monitors.recall(frame.workload.into(), frame.local);
        let kind = match allocation.kind {
            PageBacking::Anon => PageKind::Anon,
            PageBacking::File => PageKind::File,
        };
        let (tenant, order) = (TenantId(frame.workload), allocation.order);
        frame.tier().map(|tier| Attributes { tenant, tier, kind, order })
    }
}
