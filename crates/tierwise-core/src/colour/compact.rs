//! Compaction: a tenant's pages move into as few colours as can hold them, so that the other
//! colours return to the pool.

use super::Colours;
use crate::units::TenantId;

/// A page's move from one frame to another of the same tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// The frame that it leaves.
    pub from: u32,
    /// The frame that it goes to: free, and of the same tenant.
    pub to: u32,
}

impl Colours {
    /// Returns the relocations that free as many colours of a tenant as possible with as few moves
    /// as possible: pages of its emptiest colours go to the free frames of its fullest. Reserved
    /// colours stay. Changes nothing; see [`Colours::relocate`].
    ///
    /// ```
    /// use tierwise_core::colour::Colours;
    /// use tierwise_core::units::TenantId;
    ///
    /// let tenant = TenantId(0);
    /// let mut colours = Colours::new(4, 2);
    /// let frames: Vec<u32> = (0..8).map(|_| colours.allocate(tenant, 0).unwrap()).collect();
    /// // The tenant frees one page of every colour. Half of its frames are free, for itself only.
    /// frames.iter().filter(|&&f| f >= 4).for_each(|&f| colours.free(f));
    /// assert_eq!((colours.held(tenant), colours.unowned()), (4, 0));
    /// for step in colours.compaction(tenant) {
    ///     assert!(colours.relocate(step));
    /// }
    /// assert_eq!((colours.held(tenant), colours.unused(tenant), colours.unowned()), (2, 0, 2));
    /// ```
    pub fn compaction(&self, tenant: TenantId) -> Vec<Relocation> {
        let mut own: Vec<u32> =
            (0..self.colours).filter(|&c| self.owner(c) == Some(tenant)).collect();
        // Fullest first; of equals the lowest, so that the order is deterministic.
        own.sort_by_key(|&c| (std::cmp::Reverse(self.pages[c as usize]), c));
        let pages: u32 = own.iter().map(|&c| u32::from(self.pages[c as usize])).sum();
        let reserved = self.holdings.get(tenant.index()).map_or(0, |h| h.reserved);
        let enough = pages.div_ceil(self.ways.max(1)).max(reserved) as usize;
        let (kept, emptied) = own.split_at(enough.min(own.len()));
        let holes = kept.iter().flat_map(|&c| self.frames(c)).filter(|&f| !self.is_used(f));
        let sources = emptied.iter().flat_map(|&c| self.frames(c)).filter(|&f| self.is_used(f));
        sources.zip(holes).map(|(from, to)| Relocation { from, to }).collect()
    }

    /// Applies a relocation. Returns false, and changes nothing, if the source frame holds no page
    /// or the target frame is not a free frame of the same tenant.
    pub fn relocate(&mut self, step: Relocation) -> bool {
        let owner = self.owner(self.colour(step.from));
        let fits = self.is_used(step.from)
            && (step.to as usize) < self.used.len()
            && !self.is_used(step.to)
            && self.owner(self.colour(step.to)) == owner;
        let Some(tenant) = owner.filter(|_| fits) else { return false };
        self.occupy(tenant, step.to);
        self.free(step.from);
        true
    }
}
