//! The generations of one `lruvec`: a tenant's pages in a tier (`mm/vmscan.c`, the multi-gen LRU,
//! `CONFIG_LRU_GEN`, which Debian and Ubuntu build and enable).
//!
//! Pages are in two to four generations, numbered from `min_seq` to `max_seq`. The two youngest
//! count as active. Aging adds a generation; eviction takes the oldest.
//!
//! | rule | kernel |
//! |---|---|
//! | a faulted or promoted page is in the second-youngest generation (6.12: in the youngest) | `folio_add_lru`, `lru_gen_folio_seq` (6.12: `lru_gen_add_folio`) |
//! | aging reads and clears accessed bits, and adds a generation | `try_to_inc_max_seq`, `walk_pte_range`, `inc_max_seq` |
//! | an accessed page moves to the youngest generation (7.3: at the second aging that finds it accessed, the first one marks it) | `folio_update_gen` |
//! | aging reads only page tables that were found densely accessed the last time, an eighth of the entries | `test_bloom_filter`, `suitable_to_scan` |
//! | with four generations, what is left in the oldest joins the next | `inc_min_seq` |
//! | eviction needs three generations; it takes from the old end of the oldest | `scan_folios` |
//! | a page that aging has made younger moves to its generation when eviction meets it | `sort_folio` |
//! | a page of the lower zone is evicted when no other is in the oldest generation | `scan_folios` |
//! | a page accessed since its bit was last read is kept, and so are accessed neighbours | `folio_check_references`, `lru_gen_look_around`, `lru_gen_set_refs` |
//! | 6.12: an isolated page whose bit a walk has cleared is kept (7.3 leaves its bit alone) | `folio_update_gen`, `shrink_folio_list` (7.3: `get_pfn_folio`) |
//! | a kept page is never put into the oldest generation | `evict_folios` |
//!
//! A page table of the kernel has 512 entries of neighbouring addresses. The engine knows pages by
//! number, in the order of their allocation; 512 successive numbers stand for a page table.
//!
//! Not modelled: the tiers of file pages accessed through descriptors, refaults (nothing is
//! swapped), and executable file pages, which are kept at their first access.

mod folios;

pub(super) use folios::Folios;

use super::release::Release;
use crate::lists::ListId;
use crate::page::{PageKind, PageTable};
use crate::units::{PageId, Pages, TenantId, TierId};
use folios::NONE;

/// `MIN_NR_GENS`: generations that eviction leaves.
const MIN_GENERATIONS: u64 = 2;
/// `MAX_NR_GENS`.
const MAX_GENERATIONS: u64 = 4;
/// `MIN_LRU_BATCH`, `BITS_PER_LONG`: pages that are evicted together, and the neighbours that are
/// looked at around an accessed page.
pub(super) const BATCH: u64 = 64;
/// Entries of a page table.
const TABLE: usize = 512;
/// `suitable_to_scan`: entries of a page table in a cache line. One accessed entry in each makes a
/// table dense.
const ENTRIES_PER_LINE: u64 = 8;
/// The result of an eviction's batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Evicted {
    /// Base pages that were looked at.
    pub(super) scanned: u64,
    /// Base pages that were isolated, and kept or demoted.
    pub(super) isolated: u64,
}

/// A tenant's pages in a tier.
#[derive(Debug)]
pub(super) struct Generations {
    tenant: TenantId,
    tier: TierId,
    /// The number of its first list.
    first_list: u32,
    max_seq: u64,
    /// By kind: anonymous, file.
    min_seq: [u64; 2],
    /// Base pages by generation and kind.
    sizes: [[u64; 2]; MAX_GENERATIONS as usize],
    /// The page tables that the next aging reads; `None`: all.
    dense: Option<Vec<bool>>,
}

/// Lists of one `lruvec`: a list for each generation, kind and zone.
const LISTS: u32 = 2 * 2 * MAX_GENERATIONS as u32;

impl Generations {
    /// No pages. `index` numbers the `lruvec`s.
    pub(super) fn new(tenant: TenantId, tier: TierId, index: u32) -> Self {
        Self {
            tenant,
            tier,
            first_list: index * LISTS,
            // `lru_gen_init_lruvec`
            max_seq: MIN_GENERATIONS + 1,
            min_seq: [0; 2],
            sizes: [[0; 2]; MAX_GENERATIONS as usize],
            dense: None,
        }
    }

    fn list(&self, generation: u8, kind: PageKind, lower: bool) -> ListId {
        ListId(self.first_list + u32::from(generation) * 4 + kind as u32 * 2 + u32::from(lower))
    }

    fn generations(&self, kind: usize) -> u64 {
        self.max_seq - self.min_seq[kind] + 1
    }

    /// Base pages of all generations (`lruvec_evictable_size`).
    pub(super) fn size(&self) -> u64 {
        self.sizes.iter().flatten().sum()
    }

    /// Base pages that count as inactive: those of all but the two youngest generations
    /// (`lru_gen_is_active`).
    pub(super) fn inactive(&self) -> u64 {
        self.size() - self.sizes_at(self.max_seq) - self.sizes_at(self.max_seq - 1)
    }

    fn sizes_at(&self, seq: u64) -> u64 {
        self.sizes[index(seq)].iter().sum()
    }

    /// Adds a page that was allocated, promoted or demoted here (`folio_add_lru`). `faulted` is
    /// true if a fault of the program put it here.
    pub(super) fn add(
        &mut self,
        page: PageId,
        faulted: bool,
        release: Release,
        folios: &mut Folios,
        pages: &PageTable,
    ) {
        let kind = pages.kind(page);
        let state = folios.state(page);
        let seq = match release {
            Release::V6_12 if faulted => self.max_seq,
            Release::V6_12 => match kind {
                PageKind::Anon => self.max_seq - 1,
                PageKind::File => self.min_seq[kind as usize],
            },
            Release::V7_3 => {
                let back = match kind {
                    _ if faulted => MIN_GENERATIONS - u64::from(state.workingset),
                    PageKind::Anon => MIN_GENERATIONS,
                    PageKind::File => {
                        MAX_GENERATIONS - u64::from(state.workingset || state.referenced)
                    }
                };
                (self.max_seq + 1 - back).max(self.min_seq[kind as usize])
            }
        };
        if release == Release::V6_12 && faulted {
            (state.referenced, state.refs) = (false, 0);
        }
        self.link(page, seq, folios, pages);
    }

    fn link(&mut self, page: PageId, seq: u64, folios: &mut Folios, pages: &PageTable) {
        let (generation, kind, frames) = (index(seq) as u8, pages.kind(page), pages.frames(page));
        let state = folios.state(page);
        (state.generation, state.on) = (generation, generation);
        let lower = state.lower;
        folios.lists.push_head(self.list(generation, kind, lower), page, frames);
        self.sizes[usize::from(generation)][kind as usize] += frames;
    }

    /// Takes a page off its list (`lru_gen_del_folio`). Ignores a page that is on none.
    pub(super) fn remove(&mut self, page: PageId, folios: &mut Folios, pages: &PageTable) {
        let state = *folios.state(page);
        if state.on == NONE {
            return;
        }
        let (kind, frames) = (pages.kind(page), pages.frames(page));
        folios.lists.remove(self.list(state.on, kind, state.lower), page, frames);
        self.sizes[usize::from(state.generation)][kind as usize] -= frames;
        let state = folios.state(page);
        (state.generation, state.on) = (NONE, NONE);
    }

    /// Returns true if eviction is impossible without aging.
    pub(super) fn is_exhausted(&self) -> bool {
        self.oldest() + MIN_GENERATIONS > self.max_seq
    }

    /// `evictable_min_seq`, if swapping or demotion is possible.
    fn oldest(&self) -> u64 {
        self.min_seq[0].min(self.min_seq[1])
    }

    /// `should_run_aging`, at a priority above the default if `raised`.
    pub(super) fn should_age(&self, raised: bool, release: Release) -> bool {
        if self.is_exhausted() {
            return true;
        }
        if !raised || self.oldest() + MIN_GENERATIONS < self.max_seq {
            return false;
        }
        let (young, old) =
            (self.sizes_at(self.max_seq), self.sizes_at(self.max_seq - MIN_GENERATIONS));
        match release {
            Release::V7_3 => true,
            Release::V6_12 => {
                let total = self.size();
                young * MIN_GENERATIONS > total || old * (MIN_GENERATIONS + 2) < total
            }
        }
    }

    /// Ages: reads the accessed bits of dense page tables and adds a generation
    /// (`try_to_inc_max_seq`).
    pub(super) fn age(&mut self, release: Release, folios: &mut Folios, pages: &mut PageTable) {
        let tables = pages.len().div_ceil(TABLE);
        let mut found = vec![false; tables];
        for (table, found) in found.iter_mut().enumerate() {
            let is_read = |dense: &Vec<bool>| dense.get(table) == Some(&true);
            if self.dense.as_ref().is_none_or(is_read) {
                *found = self.walk(table, release, folios, pages);
            }
        }
        self.dense = Some(found);
        for kind in [PageKind::Anon, PageKind::File] {
            if self.generations(kind as usize) == MAX_GENERATIONS {
                self.merge_oldest(kind, folios, pages);
            }
        }
        self.max_seq += 1;
    }

    /// `walk_pte_range`: reads a page table. Returns true if it is dense.
    fn walk(
        &mut self,
        table: usize,
        release: Release,
        folios: &mut Folios,
        pages: &mut PageTable,
    ) -> bool {
        let entries = table * TABLE..((table + 1) * TABLE).min(pages.len());
        let (mut total, mut young) = (0, 0);
        for page in entries.map(|index| PageId(index as u32)) {
            if pages.tier(page).is_none() || pages.tenant(page) != self.tenant {
                continue;
            }
            total += 1;
            if pages.tier(page) != Some(self.tier) || !folios.is_walked(page, release) {
                pages.pass_over();
            } else if pages.take_referenced(page) {
                young += 1;
                self.rejuvenate(page, release, folios, pages);
            }
        }
        young > 0 && young * ENTRIES_PER_LINE >= total
    }

    /// `folio_update_gen`, for a page found accessed.
    fn rejuvenate(
        &mut self,
        page: PageId,
        release: Release,
        folios: &mut Folios,
        pages: &PageTable,
    ) {
        let state = folios.state(page);
        if release == Release::V6_12 && state.generation == NONE {
            // `folio_update_gen`, for `shrink_folio_list`: eviction has the page, and keeps it.
            state.referenced = true;
            return;
        }
        if release == Release::V7_3 && !state.referenced && !state.workingset {
            (state.referenced, state.refs) = (true, 0);
            return;
        }
        (state.referenced, state.refs) = (false, 0);
        state.workingset |= release == Release::V7_3;
        if state.generation != NONE {
            let before = std::mem::replace(&mut state.generation, index(self.max_seq) as u8);
            let (kind, frames) = (pages.kind(page) as usize, pages.frames(page));
            self.sizes[usize::from(before)][kind] -= frames;
            self.sizes[index(self.max_seq)][kind] += frames;
        }
    }

    /// `inc_min_seq`: the oldest generation's pages join the old end of the next one.
    fn merge_oldest(&mut self, kind: PageKind, folios: &mut Folios, pages: &PageTable) {
        let old = index(self.min_seq[kind as usize]) as u8;
        let next = index(self.min_seq[kind as usize] + 1) as u8;
        for lower in [false, true] {
            // From the old end to the old end, as the kernel does: the order turns round.
            while let Some(page) = folios.lists.tail(self.list(old, kind, lower)) {
                let frames = pages.frames(page);
                let state = folios.state(page);
                if state.generation == old {
                    state.generation = next;
                    self.sizes[usize::from(old)][kind as usize] -= frames;
                    self.sizes[usize::from(next)][kind as usize] += frames;
                }
                let to = state.generation;
                state.on = to;
                folios.lists.remove(self.list(old, kind, lower), page, frames);
                folios.lists.push_tail(self.list(to, kind, lower), page, frames);
            }
        }
        self.min_seq[kind as usize] += 1;
    }

    /// `try_to_inc_min_seq`: empty oldest generations end.
    fn drop_empty(&mut self, folios: &Folios) {
        let mut min = self.min_seq;
        for kind in [PageKind::Anon, PageKind::File] {
            let seq = &mut min[kind as usize];
            let is_empty = |seq: u64, lower: bool| {
                folios.lists.is_empty(self.list(index(seq) as u8, kind, lower))
            };
            while *seq + MIN_GENERATIONS <= self.max_seq
                && is_empty(*seq, false)
                && is_empty(*seq, true)
            {
                *seq += 1;
            }
        }
        // Both kinds keep in step, so that one cannot run ahead of the other.
        let seq = self.max_seq - MIN_GENERATIONS;
        if min[0] > seq && min[1] < seq {
            min[0] = seq;
        } else if min[1] > seq && min[0] < seq {
            min[1] = seq;
        }
        for (kept, found) in self.min_seq.iter_mut().zip(min) {
            *kept = found.max(*kept);
        }
    }

    /// Evicts a batch (`evict_folios`): adds pages that were not accessed to `victims`. They are
    /// off their list. File pages go first: nothing refaults, so no kind is protected
    /// (`get_type_to_scan`).
    pub(super) fn evict(
        &mut self,
        most: u64,
        release: Release,
        folios: &mut Folios,
        pages: &mut PageTable,
        victims: &mut Vec<PageId>,
    ) -> Evicted {
        self.drop_empty(folios);
        let mut isolated = Vec::new();
        let mut evicted = Evicted::default();
        for kind in [PageKind::File, PageKind::Anon] {
            let scanned = self.isolate(kind, most, folios, pages, &mut isolated);
            evicted.scanned += scanned;
            if scanned > 0 {
                break;
            }
        }
        self.drop_empty(folios);
        for page in isolated {
            evicted.isolated += pages.frames(page);
            if release == Release::V6_12 && folios.state(page).referenced {
                self.keep(page, release, folios, pages);
            } else if pages.take_referenced(page) {
                self.look_around(page, release, folios, pages);
                self.keep(page, release, folios, pages);
            } else {
                victims.push(page);
            }
        }
        evicted
    }

    /// `scan_folios`
    fn isolate(
        &mut self,
        kind: PageKind,
        most: u64,
        folios: &mut Folios,
        pages: &PageTable,
        isolated: &mut Vec<PageId>,
    ) -> u64 {
        if self.generations(kind as usize) == MIN_GENERATIONS {
            return 0;
        }
        let oldest = index(self.min_seq[kind as usize]) as u8;
        let (mut scanned, mut taken, mut looked) = (0, 0, 0);
        for lower in [false, true] {
            while looked < most && taken < BATCH {
                let Some(page) = folios.lists.tail(self.list(oldest, kind, lower)) else { break };
                let frames = pages.frames(page);
                scanned += frames;
                looked += 1;
                if self.sort(page, oldest, folios, pages) {
                    isolated.push(page);
                    taken += frames;
                }
            }
        }
        scanned
    }

    /// `sort_folio` and `isolate_folio`: takes a page of the oldest generation off its list and
    /// returns true, or moves a younger one to its own list.
    fn sort(&mut self, page: PageId, oldest: u8, folios: &mut Folios, pages: &PageTable) -> bool {
        let state = *folios.state(page);
        if state.generation == oldest {
            self.remove(page, folios, pages);
            if !state.referenced {
                folios.state(page).refs = 0;
            }
            return true;
        }
        let (kind, frames) = (pages.kind(page), pages.frames(page));
        folios.lists.remove(self.list(oldest, kind, state.lower), page, frames);
        folios.lists.push_head(self.list(state.generation, kind, state.lower), page, frames);
        folios.state(page).on = state.generation;
        false
    }

    /// `lru_gen_look_around`: reads the accessed bits of a page's neighbours.
    fn look_around(
        &mut self,
        page: PageId,
        release: Release,
        folios: &mut Folios,
        pages: &mut PageTable,
    ) {
        let table = page.index() / TABLE;
        let (start, end) = (table * TABLE, ((table + 1) * TABLE).min(pages.len()));
        let half = BATCH as usize / 2;
        let first = page.index().saturating_sub(half).max(start).min(end.saturating_sub(2 * half));
        let first = first.max(start);
        let last = (first + 2 * half).min(end);
        let (mut total, mut young) = (0, 1);
        for neighbour in (first..last).map(|index| PageId(index as u32)) {
            let its =
                pages.tier(neighbour) == Some(self.tier) && pages.tenant(neighbour) == self.tenant;
            total += 1;
            if !its || neighbour == page || !folios.is_walked(neighbour, release) {
                pages.pass_over();
            } else if pages.take_referenced(neighbour) {
                young += 1;
                self.rejuvenate(neighbour, release, folios, pages);
            }
        }
        if let Some(dense) = &mut self.dense
            && young * ENTRIES_PER_LINE >= total
        {
            dense.resize(dense.len().max(table + 1), false);
            dense[table] = true;
        }
    }

    /// Puts an accessed page back (`lru_gen_set_refs`, `evict_folios`).
    fn keep(&mut self, page: PageId, release: Release, folios: &mut Folios, pages: &PageTable) {
        let state = folios.state(page);
        let active = match release {
            // `folio_check_references` of the classic lists; every rejected page is active then.
            Release::V6_12 => {
                (state.referenced, state.refs) = (false, 0);
                true
            }
            Release::V7_3 if !state.referenced && !state.workingset => {
                (state.referenced, state.refs) = (true, 0);
                false
            }
            Release::V7_3 => {
                state.count_access();
                true
            }
        };
        self.add(page, active, release, folios, pages);
    }

    /// Puts a page back that could not be demoted.
    pub(super) fn put_back(
        &mut self,
        page: PageId,
        release: Release,
        folios: &mut Folios,
        pages: &PageTable,
    ) {
        self.add(page, true, release, folios, pages);
    }
}

fn index(seq: u64) -> usize {
    (seq % MAX_GENERATIONS) as usize
}

/// Base pages of the victims.
pub(super) fn frames(victims: &[PageId], pages: &PageTable) -> Pages {
    victims.iter().map(|&page| Pages(pages.frames(page))).sum()
}

#[cfg(test)]
mod tests;
