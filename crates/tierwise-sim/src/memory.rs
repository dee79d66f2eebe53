//! Physical memory of the simulated host: the tier of each page, and the free pages of each tier.

use tierwise_core::migrate::{Cap, Placement};
use tierwise_core::page::{Attributes, PageKind, PageTable};
use tierwise_core::topology::{Topology, WatermarkLevel};
use tierwise_core::units::{PageId, Pages, TenantId, TierId};

/// The host's own state of a page, eight bytes.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// The page's index in its workload.
    pub local: u32,
    /// The workload.
    pub workload: u16,
    tier: u8,
    bits: u8,
}

const ABSENT: u8 = u8::MAX;
/// The bits of the order: as many as in the engine's page table.
const ORDER: u8 = PageTable::MAX_ORDER;
const POISONED: u8 = 0b0010_0000;

impl Frame {
    const NONE: Self = Self { local: 0, workload: 0, tier: ABSENT, bits: 0 };

    /// Returns the page's tier; `None` if there is no such page.
    pub fn tier(&self) -> Option<TierId> {
        (self.tier != ABSENT).then_some(TierId(self.tier))
    }

    /// Base pages that the page spans.
    pub fn frames(&self) -> u64 {
        1 << (self.bits & ORDER)
    }

    /// Returns true if the next access is a hint fault.
    pub fn is_poisoned(&self) -> bool {
        self.bits & POISONED != 0
    }
}

/// No tier has free memory: the out-of-memory outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

/// All pages of the host.
#[derive(Debug)]
pub struct Memory {
    frames: Vec<Frame>,
    /// Page numbers free for use. Those freed since the last observation wait in `freed`.
    reusable: Vec<u32>,
    freed: Vec<u32>,
    used: Vec<Pages>,
    capacity: Vec<Pages>,
    marks: Vec<[Pages; 5]>,
    /// Free pages beyond the watermarks that only the last resort takes, by tier.
    reserve: Vec<Pages>,
    /// Page cache of others, by tier.
    page_cache: Vec<Pages>,
    /// By workload, then by tier.
    usage: Vec<Vec<Pages>>,
    /// The caps of the workloads; empty when no workload has one.
    caps: Vec<Cap>,
}

impl Memory {
    /// Bytes of host state per page.
    pub const BYTES_PER_PAGE: usize = size_of::<Frame>();

    /// Makes an empty memory for a number of workloads.
    pub fn new(topology: &Topology, workloads: usize) -> Self {
        let levels = [
            WatermarkLevel::None,
            WatermarkLevel::Min,
            WatermarkLevel::Low,
            WatermarkLevel::High,
            WatermarkLevel::Promo,
        ];
        Self {
            frames: Vec::new(),
            reusable: Vec::new(),
            freed: Vec::new(),
            used: vec![Pages(0); topology.tiers.len()],
            capacity: topology.tiers.iter().map(|t| t.capacity).collect(),
            marks: topology.tiers.iter().map(|t| levels.map(|l| t.watermarks.at(l))).collect(),
            reserve: vec![Pages(0); topology.tiers.len()],
            page_cache: vec![Pages(0); topology.tiers.len()],
            usage: vec![vec![Pages(0); topology.tiers.len()]; workloads],
            caps: Vec::new(),
        }
    }

    /// Sets the free pages beyond the watermarks that allocations and migrations leave, by tier.
    pub fn set_reserve(&mut self, reserve: Vec<Pages>) {
        self.reserve = reserve;
    }

    /// Fills a part of each tier, all of it at most, with page cache of others.
    pub fn set_page_cache(&mut self, page_cache: &[Pages]) {
        let fits = page_cache.iter().zip(&self.capacity).map(|(&cache, &all)| cache.min(all));
        self.page_cache = fits.collect();
    }

    /// The page cache of others that is left in a tier.
    pub fn page_cache(&self, tier: TierId) -> Pages {
        self.page_cache[tier.index()]
    }

    /// Free base pages of a tier.
    pub fn free(&self, tier: TierId) -> Pages {
        self.capacity[tier.index()] - self.used[tier.index()] - self.page_cache[tier.index()]
    }

    /// Returns true if a tier is below a watermark.
    pub fn is_below(&self, tier: TierId, level: WatermarkLevel) -> bool {
        self.free(tier) < self.marks[tier.index()][level as usize]
    }

    fn has_free(&self, tier: TierId, frames: u64, leave: WatermarkLevel) -> bool {
        let i = tier.index();
        let reserve = if leave == WatermarkLevel::None { 0 } else { self.reserve[i].0 };
        // An allocation below the low watermark reclaims before it goes beyond the next one.
        let reclaimed = matches!(leave, WatermarkLevel::Min | WatermarkLevel::None);
        let cache = if reclaimed { self.page_cache[i].0 } else { 0 };
        self.free(tier).0 + cache >= frames + self.marks[i][leave as usize].0 + reserve
    }

    /// Drops others' page cache of a tier that is about to take `frames` more pages. An allocation
    /// that finds less than the low watermark wakes kswapd, which goes on to the high one
    /// (`wake_all_kswapds` in `mm/page_alloc.c`, `balance_pgdat` in `mm/vmscan.c`). Clean pages of
    /// files need no swap and no demotion, and are quickly dropped.
    fn reclaim(&mut self, tier: TierId, frames: u64) {
        let i = tier.index();
        if self.page_cache[i] == Pages(0) || self.has_free(tier, frames, WatermarkLevel::Low) {
            return;
        }
        let goal = frames + self.marks[i][WatermarkLevel::High as usize].0 + self.reserve[i].0;
        let dropped = Pages(goal.saturating_sub(self.free(tier).0)).min(self.page_cache[i]);
        self.page_cache[i] -= dropped;
    }

    /// Base pages of a workload by tier.
    pub fn usage(&self, workload: usize) -> &[Pages] {
        &self.usage[workload]
    }

    /// Returns the state of a page. A page that was never allocated is absent.
    pub fn frame(&self, page: PageId) -> &Frame {
        self.frames.get(page.index()).unwrap_or(&Frame::NONE)
    }

    /// One more than the largest page number in use so far.
    pub fn page_numbers(&self) -> usize {
        self.frames.len()
    }

    /// Allocates a page as the kernel's allocator falls back through its zone list: first wherever
    /// the placement's reserve stays untouched, then down to the min watermark, then to the last
    /// page (`get_page_from_freelist` with `ALLOC_WMARK_LOW`, `ALLOC_WMARK_MIN`,
    /// `ALLOC_NO_WATERMARKS`).
    ///
    /// # Errors
    /// Every tier is full.
    pub fn allocate(
        &mut self,
        workload: u16,
        local: u32,
        kind: PageKind,
        order: u8,
        placement: Placement,
    ) -> Result<(PageId, Attributes), OutOfMemory> {
        let frames = 1 << order;
        let levels = [placement.leave_free, WatermarkLevel::Min, WatermarkLevel::None];
        let capped = |tier| self.exceeds_cap(workload, tier, frames);
        let within = |level| self.first_with_free(frames, level, placement, capped);
        let beyond = |level| self.first_with_free(frames, level, placement, |_| false);
        // A cap is exceeded only where the out-of-memory killer would run.
        let tier =
            levels.into_iter().find_map(within).or_else(|| levels.into_iter().find_map(beyond));
        let tier = tier.ok_or(OutOfMemory)?;
        self.reclaim(tier, frames);
        self.used[tier.index()] += Pages(frames);
        self.usage[usize::from(workload)][tier.index()] += Pages(frames);
        let frame = Frame { local, workload, tier: tier.0, bits: order };
        let page = match self.reusable.pop() {
            Some(index) => {
                self.frames[index as usize] = frame;
                PageId(index)
            }
            None => {
                self.frames.push(frame);
                PageId(self.frames.len() as u32 - 1)
            }
        };
        Ok((page, Attributes { tenant: TenantId(workload), tier, kind, order }))
    }

    fn first_with_free(
        &self,
        frames: u64,
        level: WatermarkLevel,
        order: Placement,
        capped: impl Fn(TierId) -> bool,
    ) -> Option<TierId> {
        let tiers = self.capacity.len() as u8;
        let nth = |i: u8| TierId(if order.fastest_first { i } else { tiers - 1 - i });
        (0..tiers).map(nth).find(|&tier| self.has_free(tier, frames, level) && !capped(tier))
    }

    /// Sets the caps of the workloads from now on.
    pub fn set_caps(&mut self, caps: &[Cap]) {
        self.caps.clear();
        self.caps.extend_from_slice(caps);
    }

    /// The present caps.
    pub fn caps(&self) -> &[Cap] {
        &self.caps
    }

    fn exceeds_cap(&self, workload: u16, tier: TierId, frames: u64) -> bool {
        let held = self.usage[usize::from(workload)][tier.index()];
        let its = |cap: &&Cap| cap.tenant.0 == workload && cap.tier == tier;
        self.caps.iter().find(its).is_some_and(|cap| held + Pages(frames) > cap.pages)
    }

    /// Returns true within a 128th of a workload's cap, where demotion starts (Equilibria, section
    /// IV-D).
    pub fn is_near_cap(&self, workload: usize) -> bool {
        let near = |cap: &Cap| {
            let held = self.usage[workload][cap.tier.index()];
            usize::from(cap.tenant.0) == workload
                && held.0 + cap.pages.0.div_ceil(128) > cap.pages.0
        };
        self.caps.iter().any(near)
    }

    /// Frees a page. Its number is used again only after [`Memory::recycle`].
    pub fn release(&mut self, page: PageId) {
        let frame = &mut self.frames[page.index()];
        if frame.tier == ABSENT {
            return;
        }
        let (tier, frames) = (usize::from(frame.tier), Pages(frame.frames()));
        frame.tier = ABSENT;
        self.used[tier] -= frames;
        self.usage[usize::from(frame.workload)][tier] -= frames;
        self.freed.push(page.0);
    }

    /// Makes the numbers of released pages available again: they were reported as
    /// freed.
    pub fn recycle(&mut self) {
        self.reusable.append(&mut self.freed);
    }

    /// Returns true if a page can be moved to a tier: the kernel allocates migration targets above
    /// the min watermark, and an exchange in place needs no target of its own.
    pub fn can_receive(&self, tier: TierId, frames: u64, in_place: bool) -> bool {
        let leave = if in_place { WatermarkLevel::None } else { WatermarkLevel::Min };
        self.has_free(tier, frames, leave)
    }

    /// Moves a page whose target has free memory.
    pub fn relocate(&mut self, page: PageId, to: TierId) {
        self.reclaim(to, self.frame(page).frames());
        let frame = &mut self.frames[page.index()];
        let (from, frames) = (usize::from(frame.tier), Pages(frame.frames()));
        let usage = &mut self.usage[usize::from(frame.workload)];
        frame.tier = to.0;
        // A moved page is mapped again, without the poison.
        frame.bits &= !POISONED;
        usage[from] -= frames;
        usage[to.index()] += frames;
        self.used[from] -= frames;
        self.used[to.index()] += frames;
    }

    /// Poisons a page, or removes its poison.
    pub fn set_poisoned(&mut self, page: PageId, on: bool) {
        let bits = &mut self.frames[page.index()].bits;
        *bits = if on { *bits | POISONED } else { *bits & !POISONED };
    }

    /// Counts everything again from the pages themselves, for the checkers: used base pages by
    /// tier.
    pub fn recount(&self) -> Vec<Pages> {
        let mut used = vec![Pages(0); self.capacity.len()];
        for frame in &self.frames {
            if let Some(tier) = frame.tier() {
                used[tier.index()] += Pages(frame.frames());
            }
        }
        used
    }

    /// Used base pages by tier, as kept.
    pub fn used(&self) -> &[Pages] {
        &self.used
    }

    /// Capacity in base pages by tier.
    pub fn capacity(&self) -> &[Pages] {
        &self.capacity
    }
}
