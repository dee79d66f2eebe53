//! Windows begin and end: pages are born, accessed and unmapped.

use tierwise_core::observe::Born;
use tierwise_core::page::{Attributes, PageKind};
use tierwise_core::units::PageId;
use tierwise_trace::Birth;

use super::Host;
use crate::error::SimError;
use crate::program::{Local, NONE, State};

impl Host {
    /// Takes a program's next window: maps what is new and finds where its misses will go. Without a next
    /// window, or without memory, the program ends.
    pub(super) fn open_window(&mut self, i: usize) -> Result<(), SimError> {
        let program = &mut self.programs[i];
        if !program.windows.next(&mut program.window)? {
            self.finish(i, State::Ended);
            return Ok(());
        }
        program.done = 0.0;
        program.reported = 0.0;
        if let Some(heat) = self.ledger.heat_mut() {
            heat.resume(i, self.now);
        }
        program.set_parallelism();
        if program.windows.is_measured() {
            self.ledger.begin_measuring(i, self.now);
        }
        if self.map_births(i).is_err() || self.place_rows(i).is_err() {
            self.ledger.out_of_memory(i, self.now);
            self.finish(i, State::OutOfMemory);
            return Ok(());
        }
        self.split(i);
        self.looks.open_window(i, &self.programs[i], &self.memory, &self.watch);
        let grew = !self.programs[i].window.births.is_empty();
        self.attention |= self.topology.ids().any(|tier| self.is_under_pressure(tier))
            || grew && self.memory.is_near_cap(i);
        Ok(())
    }

    fn map_births(&mut self, i: usize) -> Result<(), crate::memory::OutOfMemory> {
        for b in 0..self.programs[i].window.births.len() {
            let birth = self.programs[i].window.births[b];
            let locals = &mut self.programs[i].locals;
            if birth.page as usize >= locals.len() {
                locals.resize(birth.page as usize + 1, Local { page: NONE, row: NONE });
                self.looks.remember(i, birth);
            }
            self.map(i, &birth)?;
        }
        Ok(())
    }

    fn map(&mut self, i: usize, birth: &Birth) -> Result<(), crate::memory::OutOfMemory> {
        if self.programs[i].locals[birth.page as usize].page != NONE {
            // A loop came round to the window where the page was born.
            return Ok(());
        }
        let kind = match birth.kind {
            tierwise_trace::PageKind::Anon => PageKind::Anon,
            tierwise_trace::PageKind::File => PageKind::File,
        };
        let placement = self.placement_of(i, birth.page);
        let (page, attributes) =
            self.memory.allocate(i as u16, birth.page, kind, birth.order, placement)?;
        self.enter_tier(i as u16, page, attributes.tier);
        self.programs[i].locals[birth.page as usize].page = page.0;
        if let Some(service) = &mut self.programs[i].service {
            service.relocated(birth.page, attributes.tier);
        }
        self.tell_born(page, attributes);
        Ok(())
    }

    /// Adds a birth to the news, in one run with the one before if they are alike and adjacent.
    fn tell_born(&mut self, page: PageId, attributes: Attributes) {
        match self.news.born.last_mut() {
            Some(run) if run.first.0 + run.count == page.0 && run.attributes == attributes => {
                run.count += 1;
            }
            _ => self.news.born.push(Born { first: page, count: 1, attributes }),
        }
    }

    fn place_rows(&mut self, i: usize) -> Result<(), crate::memory::OutOfMemory> {
        for row in 0..self.programs[i].window.accesses.len() {
            let local = self.programs[i].window.accesses[row].page;
            if self.programs[i].page(local).is_none() {
                // Unmapped in an earlier loop and accessed again in this one.
                let birth = self.looks.recall(i, local);
                self.map(i, &birth)?;
            }
            let program = &mut self.programs[i];
            program.locals[local as usize].row = row as u32;
            let page = PageId(program.locals[local as usize].page);
            if let Some(tier) = self.memory.frame(page).tier() {
                program.join_tier(local, tier);
            }
        }
        Ok(())
    }

    /// Ends a window: what was seen of it becomes news, and its unmaps take place.
    pub(super) fn close_window(&mut self, i: usize) {
        self.report(i);
        self.settle(i);
        self.programs[i].clear_rows();
        for u in 0..self.programs[i].window.unmaps.len() {
            let local = self.programs[i].window.unmaps[u];
            self.unmap(i, local);
        }
    }

    fn unmap(&mut self, i: usize, local: u32) {
        let Some(page) = self.programs[i].page(local) else { return };
        self.programs[i].locals[local as usize].page = NONE;
        self.quit_tier(i as u16, page, false);
        self.memory.release(page);
        self.news.gone.push(page);
    }

    /// Ends a program and frees its memory.
    pub(super) fn finish(&mut self, i: usize, state: State) {
        self.report(i);
        self.ledger.end(i, self.now, self.memory.usage(i));
        self.programs[i].clear_rows();
        for local in 0..self.programs[i].locals.len() as u32 {
            self.unmap(i, local);
        }
        self.quit(i);
        self.programs[i].state = state;
        self.attention = true;
    }
}
