//! Memory of what was hot: when it is recorded, and what it means.

use tierwise_core::observe::Observation;
use tierwise_core::units::PageId;

use super::LiveWorld;
use super::heat::{HeatMemory, since_boot};
use crate::migrate::Calls;

impl<C: Calls> LiveWorld<C> {
    /// Remembers what is hot from now on. Processes that are found from now on start with the heat
    /// that this memory has for them.
    pub fn remember_with(&mut self, memory: HeatMemory) {
        self.heat = Some(memory);
    }

    /// Records the heat of every page, as the engine knows it. Returns the memory; `None` if
    /// nothing is remembered, or no pages are known.
    pub fn remember(&mut self, heat: impl Fn(PageId) -> u16) -> Option<&HeatMemory> {
        let memory = self.heat.as_mut().filter(|_| self.surveys_blocks)?;
        let now = since_boot();
        for known in self.survey.recognised(&self.tracker) {
            let blocks = self.blocks.within(known.process, 0, u64::MAX);
            memory.record(known, now, self.blocks.size(), blocks, &heat);
        }
        memory.trim(now);
        Some(memory)
    }

    /// Says what the heat means that a survey recalled. It is no evidence of the present: a tenant
    /// keeps the memory that it holds until its first access report.
    pub(super) fn recalled(&self, out: &mut Observation) {
        if let Some(memory) = self.heat.as_ref().filter(|_| !out.remembered.is_empty()) {
            out.samples_are_ticks = memory.ticks;
        }
    }
}
