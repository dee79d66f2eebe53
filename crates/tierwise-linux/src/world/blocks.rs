//! Blocks: aligned pieces of processes' addresses, numbered as the engine's pages.
//!
//! A number is not used again within one observation. A report about a block that no longer exists
//! is therefore never taken for its successor's.
//!
//! ```
//! use tierwise_core::units::{PageId, TenantId, TierId};
//! use tierwise_linux::process::Process;
//! use tierwise_linux::world::blocks::{Blocks, FoundBlock};
//!
//! let mut blocks = Blocks::new(4096);
//! let (process, tenant) = (Process { pid: 7, start_time: 900 }, TenantId(0));
//! let block = |number, tier| FoundBlock { number, tier: Some(TierId(tier)), resident: 1 };
//! let found = [1, 2, 9].map(|number| block(number, 0));
//! let (mut allocated, mut freed, mut external_migrations) = (Vec::new(), Vec::new(), Vec::new());
//! blocks.update(process, tenant, &found, &mut allocated, &mut freed, &mut external_migrations);
//! assert_eq!((allocated.len(), blocks.page_at(process, 2 * 4096 + 5)), (1, Some(PageId(1))));
//!
//! // Block 2 was unmapped, and the kernel demoted block 9.
//! let found = [block(1, 0), block(9, 1)];
//! blocks.update(process, tenant, &found, &mut allocated, &mut freed, &mut external_migrations);
//! assert_eq!(freed, [PageId(1)]);
//! let migration = &external_migrations[0];
//! assert_eq!((migration.page, migration.tier), (PageId(2), TierId(1)));
//! ```

use std::collections::BTreeMap;

use tierwise_core::observe::{Allocated, ExternalMigration};
use tierwise_core::page::{Attributes, PageKind};
use tierwise_core::units::{PageId, TenantId, TierId};

use crate::process::Process;
use crate::process::resident::PAGE_SIZE;

/// A block that a survey found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundBlock {
    /// Address divided by the size of a block.
    pub number: u64,
    /// Tier; `None` if it is not known, or if the block's node is in no tier.
    pub tier: Option<TierId>,
    /// Resident base pages.
    pub resident: u32,
}

/// State of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Process that maps the block.
    pub process: Process,
    /// Tenant of the process.
    pub tenant: TenantId,
    /// Address divided by the size of a block.
    pub number: u64,
    /// Last known tier.
    pub tier: TierId,
    /// Resident base pages at the last survey.
    pub resident: u32,
}

/// The blocks of all processes.
#[derive(Debug)]
pub struct Blocks {
    size: u64,
    order: u8,
    /// By page; `None` for free numbers.
    table: Vec<Option<Block>>,
    /// Numbers that may be used.
    free: Vec<PageId>,
    /// Numbers freed in this observation.
    freed: Vec<PageId>,
    /// Blocks by process, ascending.
    processes: BTreeMap<Process, Vec<(u64, PageId)>>,
    merged: Vec<(u64, PageId)>,
    /// Blocks that the last update added.
    fresh: Vec<(u64, PageId)>,
}

impl Blocks {
    /// Creates an empty set of blocks. A block has `size` bytes, a power of two and at least a base
    /// page.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            order: (size / PAGE_SIZE).max(1).ilog2() as u8,
            table: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            processes: BTreeMap::new(),
            merged: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// Bytes of a block.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.processes.values().map(Vec::len).sum()
    }

    /// True if there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.processes.values().all(Vec::is_empty)
    }

    /// Block of a page, while it exists.
    pub fn get(&self, page: PageId) -> Option<&Block> {
        self.table.get(page.index()).and_then(Option::as_ref)
    }

    /// Records a page's new tier.
    pub fn placed(&mut self, page: PageId, tier: TierId) {
        if let Some(Some(block)) = self.table.get_mut(page.index()) {
            block.tier = tier;
        }
    }

    /// Page at an address of a process, if there is one.
    pub fn page_at(&self, process: Process, address: u64) -> Option<PageId> {
        let blocks = self.processes.get(&process)?;
        let number = address / self.size;
        blocks.binary_search_by_key(&number, |b| b.0).ok().map(|at| blocks[at].1)
    }

    /// Blocks of a process that overlap a range of addresses, ascending, by block number.
    pub fn within(&self, process: Process, start: u64, end: u64) -> &[(u64, PageId)] {
        let Some(blocks) = self.processes.get(&process) else { return &[] };
        let first = blocks.partition_point(|b| b.0 < start / self.size);
        let last = blocks.partition_point(|b| b.0 < end.div_ceil(self.size));
        &blocks[first..last.max(first)]
    }

    /// Blocks that the last [`Blocks::update`] added, ascending.
    pub fn fresh(&self) -> &[(u64, PageId)] {
        &self.fresh
    }

    /// Processes that have blocks.
    pub fn processes(&self) -> impl Iterator<Item = Process> + '_ {
        self.processes.keys().copied()
    }

    /// Starts an observation: numbers freed in the last one may be used again.
    pub fn start(&mut self) {
        self.free.append(&mut self.freed);
    }

    /// Replaces a process's blocks by those found, ascending. A new block without a known tier is
    /// left out until its tier is known.
    pub fn update(
        &mut self,
        process: Process,
        tenant: TenantId,
        found: &[FoundBlock],
        allocated: &mut Vec<Allocated>,
        freed: &mut Vec<PageId>,
        external_migrations: &mut Vec<ExternalMigration>,
    ) {
        self.fresh.clear();
        let old = std::mem::take(self.processes.entry(process).or_default());
        let mut merged = std::mem::take(&mut self.merged);
        merged.clear();
        let mut before = old.iter().copied().peekable();
        for found in found {
            while let Some((_, page)) = before.next_if(|(number, _)| *number < found.number) {
                self.forget(page, freed);
            }
            if let Some((number, page)) = before.next_if(|(number, _)| *number == found.number) {
                self.check(page, found, external_migrations);
                merged.push((number, page));
            } else if let Some(tier) = found.tier {
                let FoundBlock { number, resident, .. } = *found;
                let page = self.allocate(Block { process, tenant, number, tier, resident });
                self.fresh.push((number, page));
                report(allocated, page, tenant, tier, self.order);
                merged.push((number, page));
            }
        }
        before.for_each(|(_, page)| self.forget(page, freed));
        // The next process uses the old list's memory.
        self.merged = old;
        self.processes.insert(process, merged);
    }

    /// Removes a process that has ended or belongs to no tenant any more.
    pub fn leave(&mut self, process: Process, freed: &mut Vec<PageId>) {
        for (_, page) in self.processes.remove(&process).unwrap_or_default() {
            self.forget(page, freed);
        }
    }

    fn check(
        &mut self,
        page: PageId,
        found: &FoundBlock,
        external_migrations: &mut Vec<ExternalMigration>,
    ) {
        let Some(Some(block)) = self.table.get_mut(page.index()) else { return };
        block.resident = found.resident;
        if let Some(tier) = found.tier.filter(|&tier| tier != block.tier) {
            block.tier = tier;
            external_migrations.push(ExternalMigration { page, tier });
        }
    }

    fn allocate(&mut self, block: Block) -> PageId {
        let page = self.free.pop().unwrap_or_else(|| {
            self.table.push(None);
            PageId(self.table.len() as u32 - 1)
        });
        self.table[page.index()] = Some(block);
        page
    }

    fn forget(&mut self, page: PageId, freed: &mut Vec<PageId>) {
        self.table[page.index()] = None;
        self.freed.push(page);
        freed.push(page);
    }
}

/// Reports an allocation. It extends the last one if it follows it and has the same attributes.
fn report(allocated: &mut Vec<Allocated>, page: PageId, tenant: TenantId, tier: TierId, order: u8) {
    let attributes = Attributes { tenant, tier, kind: PageKind::Anon, order };
    match allocated.last_mut() {
        Some(last) if last.attributes == attributes && last.first.0 + last.count == page.0 => {
            last.count += 1;
        }
        _ => allocated.push(Allocated { first: page, count: 1, attributes }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TENANT: TenantId = TenantId(3);

    fn process(pid: i32) -> Process {
        Process { pid, start_time: 1 }
    }

    #[test]
    fn page_number_is_not_reused_within_observation() {
        let mut blocks = Blocks::new(1 << 21);
        let found = |n: u64| [FoundBlock { number: n, tier: Some(TierId(0)), resident: 1 }];
        let (mut allocated, mut freed, mut external_migrations) =
            (Vec::new(), Vec::new(), Vec::new());
        blocks.start();
        blocks.update(
            process(1),
            TENANT,
            &found(5),
            &mut allocated,
            &mut freed,
            &mut external_migrations,
        );
        blocks.update(
            process(1),
            TENANT,
            &found(6),
            &mut allocated,
            &mut freed,
            &mut external_migrations,
        );
        assert_eq!(freed, [PageId(0)]);
        assert_eq!(blocks.page_at(process(1), 6 << 21), Some(PageId(1)));
        blocks.start();
        blocks.update(
            process(2),
            TENANT,
            &found(6),
            &mut allocated,
            &mut freed,
            &mut external_migrations,
        );
        assert_eq!(blocks.page_at(process(2), 6 << 21), Some(PageId(0)));
        assert_eq!(blocks.get(PageId(0)).map(|b| b.process), Some(process(2)));
    }

    #[test]
    fn ranges_touch_blocks_that_they_only_cut() {
        let mut blocks = Blocks::new(4096);
        let block = |number| FoundBlock { number, tier: Some(TierId(0)), resident: 1 };
        let found = [2, 3, 7].map(block);
        blocks.update(
            process(1),
            TENANT,
            &found,
            &mut Vec::new(),
            &mut Vec::new(),
            &mut Vec::new(),
        );
        let numbers = |start, end| {
            blocks.within(process(1), start, end).iter().map(|b| b.0).collect::<Vec<_>>()
        };
        assert_eq!(numbers(3 * 4096 - 1, 3 * 4096 + 1), [2, 3]);
        assert_eq!(numbers(4 * 4096, 7 * 4096), [0; 0]);
        assert_eq!(numbers(0, u64::MAX), [2, 3, 7]);
    }

    proptest! {
        #[test]
        fn allocations_and_frees_add_up(rounds in prop::collection::vec(
            prop::collection::btree_map(0u64..20, prop::option::of(0u8..2), 0..12), 1..8,
        )) {
            let mut blocks = Blocks::new(4096);
            let mut known = std::collections::BTreeMap::new();
            for round in rounds {
                let found: Vec<FoundBlock> = round
                    .iter()
                    .map(|(&number, &tier)| FoundBlock {
                        number,
                        tier: tier.map(TierId),
                        resident: 1,
                    })
                    .collect();
                let (mut allocated, mut freed, mut moved) = (Vec::new(), Vec::new(), Vec::new());
                blocks.start();
                blocks.update(
                    process(1), TENANT, &found, &mut allocated, &mut freed, &mut moved
                );
                for page in freed {
                    prop_assert!(known.remove(&page).is_some());
                }
                for allocated in &allocated {
                    for page in allocated.pages() {
                        prop_assert!(known.insert(page, allocated.attributes.tier).is_none());
                    }
                }
                for migration in moved {
                    let before = known.insert(migration.page, migration.tier);
                    prop_assert!(before != Some(migration.tier));
                }
                prop_assert_eq!(blocks.len(), known.len());
                for (&page, &tier) in &known {
                    prop_assert_eq!(blocks.get(page).map(|b| b.tier), Some(tier));
                }
            }
        }
    }
}
