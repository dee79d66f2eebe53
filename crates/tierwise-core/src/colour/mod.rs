//! Page colours: page frames that share a place in a direct-mapped fast memory go to one tenant,
//! always together (Memstrata, section 4.1; the on-demand part: section 7).
//!
//! In Flat Memory Mode the frames that are equal modulo the fast memory's size evict each other's
//! lines. Such frames have one *colour*. As long as each colour belongs to one tenant, a tenant
//! conflicts only with itself.
//!
//! A virtual machine's colours are [reserved](Colours::reserve) at its launch. A process gets them
//! on demand: a page takes a free frame of one of its tenant's colours, else a new colour. A colour
//! without pages is returned to the pool. A process that freed much memory keeps many colours with
//! few pages; [`Colours::compaction`] returns the moves that free them for others.
//!
//! ```
//! use tierwise_core::colour::Colours;
//! use tierwise_core::units::TenantId;
//!
//! let (a, b) = (TenantId(0), TenantId(1));
//! let mut colours = Colours::new(2, 2); // frames 0 and 2 have colour 0, frames 1 and 3 colour 1
//! let first = colours.allocate(a, 0).unwrap();
//! let second = colours.allocate(a, 0).unwrap();
//! assert_eq!(colours.colour(first), colours.colour(second)); // its own colour first
//! let other = colours.allocate(b, 0).unwrap();
//! assert_ne!(colours.colour(first), colours.colour(other));
//! // There is a free frame, but it has b's colour.
//! let error = colours.allocate(a, 0).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "all 2 page colours are taken, and every page of the 1 that tenant 0 holds is in use; free \
//!      some of its memory, or compact the tenants whose colours are half empty"
//! );
//! ```

mod compact;

pub use compact::Relocation;

use crate::units::TenantId;

/// The refusal of a colour: the tenant's colours are full or too few, and the pool has too few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "all {colours} page colours are taken, and every page of the {held} that tenant {} holds is in \
     use; free some of its memory, or compact the tenants whose colours are half empty",
    tenant.0
)]
pub struct Exhausted {
    /// The tenant that needs a frame.
    pub tenant: TenantId,
    /// Colours of the machine.
    pub colours: u32,
    /// Colours that the tenant holds.
    pub held: u32,
}

/// The colours and free frames of a tenant.
#[derive(Debug, Clone, Default)]
struct Holding {
    /// Colours.
    colours: u32,
    /// Colours that the tenant keeps even without pages.
    reserved: u32,
    /// Frames of these colours that hold no page, in no order.
    free: Vec<u32>,
}

/// All colours, their owners, and their frames that hold pages. Frames are numbered by physical
/// address, from zero: frame `f` has colour `f` modulo the number of colours.
#[derive(Debug, Clone)]
pub struct Colours {
    colours: u32,
    ways: u32,
    /// By colour; `None` in the pool.
    owners: Vec<Option<TenantId>>,
    /// By colour: frames that hold a page.
    pages: Vec<u16>,
    /// By frame: true if it holds a page.
    used: Vec<bool>,
    /// By frame: its index in its owner's list of free frames.
    at: Vec<u32>,
    /// Colours without an owner; the next to be assigned is the last.
    pool: Vec<u32>,
    /// By tenant.
    holdings: Vec<Holding>,
}

impl Colours {
    /// Makes `colours` of `ways` frames each, without owners.
    pub fn new(colours: u32, ways: u32) -> Self {
        let frames = colours as usize * ways as usize;
        Self {
            colours,
            ways,
            owners: vec![None; colours as usize],
            pages: vec![0; colours as usize],
            used: vec![false; frames],
            at: vec![0; frames],
            pool: (0..colours).rev().collect(),
            holdings: Vec::new(),
        }
    }

    /// The colour of a frame.
    pub fn colour(&self, frame: u32) -> u32 {
        frame % self.colours.max(1)
    }

    /// The owner of a colour.
    pub fn owner(&self, colour: u32) -> Option<TenantId> {
        self.owners.get(colour as usize).copied().flatten()
    }

    /// Returns true if a frame holds a page.
    pub fn is_used(&self, frame: u32) -> bool {
        self.used.get(frame as usize).copied().unwrap_or(false)
    }

    /// Number of colours without an owner.
    pub fn unowned(&self) -> u32 {
        self.pool.len() as u32
    }

    /// Colours that a tenant holds.
    pub fn held(&self, tenant: TenantId) -> u32 {
        self.holdings.get(tenant.index()).map_or(0, |h| h.colours)
    }

    /// Frames of a tenant's colours that hold no page.
    pub fn unused(&self, tenant: TenantId) -> u32 {
        self.holdings.get(tenant.index()).map_or(0, |h| h.free.len() as u32)
    }

    /// Returns true if [`Colours::allocate`] would find a frame.
    pub fn has_free_frame(&self, tenant: TenantId) -> bool {
        self.unused(tenant) > 0 || !self.pool.is_empty()
    }

    /// Assigns colours to a tenant until it holds `colours`, and lets it keep them even without
    /// pages, as a virtual machine at its launch. Zero ends the reservation.
    ///
    /// # Errors
    /// There are too few colours without an owner; the tenant keeps what it had.
    pub fn reserve(&mut self, tenant: TenantId, colours: u32) -> Result<(), Exhausted> {
        let held = self.held(tenant);
        if colours.saturating_sub(held) > self.unowned() {
            return Err(Exhausted { tenant, colours: self.colours, held });
        }
        self.holding(tenant).reserved = colours;
        (held..colours).for_each(|_| self.take_colour(tenant));
        for frame in self.holdings[tenant.index()].free.clone() {
            self.restore(self.colour(frame));
        }
        Ok(())
    }

    /// Takes a frame for a tenant's page: one of the free frames of its colours, else one of a new
    /// colour. `draw` chooses among the tenant's free frames: random numbers scatter its pages,
    /// zeros keep them in order.
    ///
    /// # Errors
    /// The tenant's colours are full, and every colour has an owner.
    pub fn allocate(&mut self, tenant: TenantId, draw: u64) -> Result<u32, Exhausted> {
        if self.unused(tenant) == 0 {
            if self.pool.is_empty() {
                let held = self.held(tenant);
                return Err(Exhausted { tenant, colours: self.colours, held });
            }
            self.take_colour(tenant);
        }
        let free = &self.holdings[tenant.index()].free;
        let frame = free[(draw % free.len() as u64) as usize];
        self.occupy(tenant, frame);
        Ok(frame)
    }

    /// Frees a frame. A colour without pages returns to the pool, unless it is reserved. Ignores a
    /// frame that holds no page.
    pub fn free(&mut self, frame: u32) {
        if !self.is_used(frame) {
            return;
        }
        let colour = self.colour(frame);
        let Some(owner) = self.owner(colour) else { return };
        self.used[frame as usize] = false;
        self.pages[colour as usize] -= 1;
        self.list(owner, frame);
        self.restore(colour);
    }

    /// Returns a colour without pages to the pool even if it is reserved: the caller has moved its
    /// pages, and the tenant's reservation shrinks by one. A colour with pages stays.
    pub fn release(&mut self, colour: u32) {
        let Some(owner) = self.owner(colour) else { return };
        let holding = &mut self.holdings[owner.index()];
        if self.pages[colour as usize] == 0 && holding.reserved > 0 {
            holding.reserved -= 1;
        }
        self.restore(colour);
    }

    fn holding(&mut self, tenant: TenantId) -> &mut Holding {
        if self.holdings.len() <= tenant.index() {
            self.holdings.resize_with(tenant.index() + 1, Holding::default);
        }
        &mut self.holdings[tenant.index()]
    }

    fn frames(&self, colour: u32) -> impl Iterator<Item = u32> + use<> {
        let colours = self.colours;
        (0..self.ways).map(move |way| way * colours + colour)
    }

    fn take_colour(&mut self, tenant: TenantId) {
        let Some(colour) = self.pool.pop() else { return };
        self.owners[colour as usize] = Some(tenant);
        self.holding(tenant).colours += 1;
        for frame in self.frames(colour) {
            self.list(tenant, frame);
        }
    }

    /// Returns a colour to the pool if it has no page and is not reserved.
    fn restore(&mut self, colour: u32) {
        let Some(owner) = self.owner(colour) else { return };
        let holding = &self.holdings[owner.index()];
        if self.pages[colour as usize] > 0 || holding.colours <= holding.reserved {
            return;
        }
        for frame in self.frames(colour) {
            self.unlist(owner, frame);
        }
        self.owners[colour as usize] = None;
        self.holdings[owner.index()].colours -= 1;
        self.pool.push(colour);
    }

    fn occupy(&mut self, tenant: TenantId, frame: u32) {
        self.unlist(tenant, frame);
        self.used[frame as usize] = true;
        let colour = self.colour(frame);
        self.pages[colour as usize] += 1;
    }

    fn list(&mut self, tenant: TenantId, frame: u32) {
        let free = &mut self.holding(tenant).free;
        free.push(frame);
        let at = free.len() as u32 - 1;
        self.at[frame as usize] = at;
    }

    fn unlist(&mut self, tenant: TenantId, frame: u32) {
        let at = self.at[frame as usize];
        let free = &mut self.holdings[tenant.index()].free;
        free.swap_remove(at as usize);
        if let Some(&moved) = free.get(at as usize) {
            self.at[moved as usize] = at;
        }
    }
}

#[cfg(test)]
mod tests;
