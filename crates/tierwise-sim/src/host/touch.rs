//! The start and the end of windows: pages are allocated, accessed and unmapped.

use tierwise_core::observe::Allocated;
use tierwise_core::page::{Attributes, PageKind};
use tierwise_core::units::PageId;
use tierwise_trace::Allocation;

use super::SimulatedHost;
use crate::error::SimError;
use crate::workload::{Local, NONE, WorkloadState};

impl SimulatedHost {
    /// Takes a workload's next window: maps new pages and finds the tiers of its misses. Without a
    /// next window, or without memory, the workload ends.
    pub(super) fn open_window(&mut self, i: usize) -> Result<(), SimError> {
        let workload = &mut self.workloads[i];
        if !workload.windows.next(&mut workload.window)? {
            self.finish(i, WorkloadState::Ended);
            return Ok(());
        }
        workload.done = 0.0;
        workload.reported = 0.0;
        workload.detections.clear();
        if let Some(heat) = self.stats.heat_mut() {
            heat.resume(i, self.now);
        }
        workload.set_parallelism();
        if workload.windows.is_measured() {
            self.stats.start_measuring(i, self.now);
            self.attention |= std::mem::take(&mut self.waits_for_mark);
        }
        if self.map_allocations(i).is_err() || self.place_rows(i).is_err() {
            self.stats.out_of_memory(i, self.now);
            self.finish(i, WorkloadState::OutOfMemory);
            return Ok(());
        }
        self.split(i);
        self.monitors.open_window(i, &self.workloads[i], &self.memory, &self.signals);
        let grew = !self.workloads[i].window.allocations.is_empty();
        // No kernel wakes a daemon, which is what reads DAMON's checks.
        let wakes = self.machine.damon.is_none();
        self.attention |= wakes
            && (self.topology.ids().any(|tier| self.is_under_pressure(tier))
                || grew && self.memory.is_near_cap(i));
        Ok(())
    }

    fn map_allocations(&mut self, i: usize) -> Result<(), crate::memory::OutOfMemory> {
        for b in 0..self.workloads[i].window.allocations.len() {
            let allocation = self.workloads[i].window.allocations[b];
            let locals = &mut self.workloads[i].locals;
            if allocation.page as usize >= locals.len() {
                locals.resize(allocation.page as usize + 1, Local { page: NONE, row: NONE });
            }
            // Pages that are numbered by address are not allocated in the order of their numbers.
            self.monitors.remember(i, allocation);
            self.map(i, &allocation)?;
        }
        Ok(())
    }

    fn map(&mut self, i: usize, allocation: &Allocation) -> Result<(), crate::memory::OutOfMemory> {
        if self.workloads[i].locals[allocation.page as usize].page != NONE {
            // A loop repeats the window in which the page was allocated.
            return Ok(());
        }
        let kind = match allocation.kind {
            tierwise_trace::PageBacking::Anon => PageKind::Anon,
            tierwise_trace::PageBacking::File => PageKind::File,
        };
        let placement = self.placement_of(i, allocation.page);
        let (page, attributes) =
            self.memory.allocate(i as u16, allocation.page, kind, allocation.order, placement)?;
        self.enter_tier(i as u16, page, attributes.tier);
        self.workloads[i].locals[allocation.page as usize].page = page.0;
        if let Some(service) = self.workloads[i].service_mut() {
            service.relocated(allocation.page, attributes.tier);
        }
        self.report_allocated(page, attributes);
        Ok(())
    }

    /// Adds an allocation to the observation, in one run with the one before if they are alike and
    /// adjacent.
    pub(super) fn report_allocated(&mut self, page: PageId, attributes: Attributes) {
        match self.observation.allocated.last_mut() {
            Some(run) if run.first.0 + run.count == page.0 && run.attributes == attributes => {
                run.count += 1;
            }
            _ => self.observation.allocated.push(Allocated { first: page, count: 1, attributes }),
        }
    }

    fn place_rows(&mut self, i: usize) -> Result<(), crate::memory::OutOfMemory> {
        for row in 0..self.workloads[i].window.accesses.len() {
            let local = self.workloads[i].window.accesses[row].page;
            if self.workloads[i].page(local).is_none() {
                // Unmapped in an earlier loop and accessed again in this one.
                let allocation = self.monitors.recall(i, local);
                self.map(i, &allocation)?;
            }
            let workload = &mut self.workloads[i];
            workload.locals[local as usize].row = row as u32;
            let page = PageId(workload.locals[local as usize].page);
            if let Some(tier) = self.memory.frame(page).tier() {
                workload.join_tier(local, tier);
            }
        }
        Ok(())
    }

    /// Ends a window: reports its accesses, and unmaps its pages.
    pub(super) fn close_window(&mut self, i: usize) {
        self.report(i);
        self.settle(i);
        let accessed = self.reaccess.close_window(i, &self.workloads[i]);
        self.stats.accounts[i].reaccessed += accessed;
        self.workloads[i].clear_rows();
        for u in 0..self.workloads[i].window.unmaps.len() {
            let local = self.workloads[i].window.unmaps[u];
            self.unmap(i, local);
        }
    }

    fn unmap(&mut self, i: usize, local: u32) {
        let Some(page) = self.workloads[i].page(local) else { return };
        let accessed = self.reaccess.left(i, local, &self.workloads);
        self.stats.accounts[i].reaccessed += u64::from(accessed);
        self.workloads[i].locals[local as usize].page = NONE;
        self.quit_tier(i as u16, page, false);
        self.memory.release(page);
        self.observation.freed.push(page);
    }

    /// Ends a workload and frees its memory, if it does not leave it. The pages that it leaves are
    /// idle from then on.
    pub(super) fn finish(&mut self, i: usize, state: WorkloadState) {
        self.report(i);
        self.stats.end(i, self.now, self.memory.usage(i));
        if !self.workloads[i].leaves_memory || state == WorkloadState::OutOfMemory {
            for local in 0..self.workloads[i].locals.len() as u32 {
                self.unmap(i, local);
            }
        }
        self.workloads[i].clear_rows();
        self.quit(i);
        self.workloads[i].state = state;
        self.attention = true;
    }
}
