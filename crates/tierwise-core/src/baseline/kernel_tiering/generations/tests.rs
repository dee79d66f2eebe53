use super::super::super::testing::PolicyFixture;
use super::*;

const KERNELS: [Release; 2] = [Release::V6_12, Release::V7_3];

struct Lruvec {
    generations: Generations,
    folios: Folios,
    machine: PolicyFixture,
    release: Release,
}

impl Lruvec {
    /// Fast pages that their allocation touched.
    fn new(release: Release, count: u32) -> Self {
        let mut machine = PolicyFixture::two_tiers();
        machine.allocated(0..count, 0);
        let mut generations = Generations::new(TenantId(0), TierId(0), 0);
        let mut folios = Folios::default();
        for page in (0..count).map(PageId) {
            generations.add(page, true, release, &mut folios, &machine.pages);
            machine.pages.mark_referenced(page);
        }
        Self { generations, folios, machine, release }
    }

    fn age(&mut self) {
        self.generations.age(self.release, &mut self.folios, &mut self.machine.pages);
    }

    fn evict(&mut self, most: u64) -> Vec<u32> {
        let mut victims = Vec::new();
        let (folios, pages) = (&mut self.folios, &mut self.machine.pages);
        self.generations.evict(most, self.release, folios, pages, &mut victims);
        victims.iter().map(|page| page.0).collect()
    }

    fn access(&mut self, page: u32) {
        self.machine.pages.mark_referenced(PageId(page));
    }

    /// Generations from the youngest, 0, to a page's.
    fn depth(&mut self, page: u32) -> u64 {
        let its = u64::from(self.folios.state(PageId(page)).generation);
        (self.generations.max_seq % MAX_GENERATIONS + MAX_GENERATIONS - its) % MAX_GENERATIONS
    }
}

#[test]
fn faulted_pages_join_their_releases_generation() {
    assert_eq!(Lruvec::new(Release::V7_3, 1).depth(0), 1, "the second-youngest");
    assert_eq!(Lruvec::new(Release::V6_12, 1).depth(0), 0, "the youngest");
}

#[test]
fn two_generations_are_never_evicted() {
    for release in KERNELS {
        let mut lruvec = Lruvec::new(release, 10);
        assert_eq!(lruvec.evict(64), []);
        assert!(lruvec.generations.is_exhausted() || release == Release::V6_12);
    }
}

#[test]
fn first_aging_clears_bits_second_finds_cold() {
    let mut lruvec = Lruvec::new(Release::V7_3, 10);
    lruvec.age();
    // Allocation's access marked each page and left it where it was: now in the oldest generation.
    assert_eq!(lruvec.depth(3), 2);
    lruvec.access(3);
    assert_eq!(lruvec.evict(64), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    assert_eq!(lruvec.depth(3), 1, "an accessed page is kept");
}

#[test]
fn twice_accessed_page_becomes_youngest() {
    let mut lruvec = Lruvec::new(Release::V7_3, 10);
    lruvec.age();
    lruvec.access(4);
    lruvec.access(5);
    lruvec.age();
    assert_eq!(lruvec.depth(4), 1, "it was the youngest before this aging");
    assert_eq!(lruvec.depth(6), 3);
    let mut older = Lruvec::new(Release::V6_12, 10);
    older.age();
    assert_eq!(older.depth(4), 1, "6.12: at the first access");
}

#[test]
fn eviction_passes_over_pages_made_younger() {
    let mut lruvec = Lruvec::new(Release::V7_3, 3);
    lruvec.age();
    lruvec.access(0);
    lruvec.age();
    lruvec.access(1);
    // Page 0 is met on the old list and moved to its own; page 1 was accessed since.
    assert_eq!(lruvec.evict(64), [2]);
    let state = *lruvec.folios.state(PageId(0));
    assert_eq!((state.on == state.generation, lruvec.depth(0)), (true, 1));
}

#[test]
fn sparsely_accessed_tables_are_not_read() {
    let mut lruvec = Lruvec::new(Release::V7_3, 90);
    lruvec.age();
    lruvec.age();
    // At the last aging nothing was accessed, so the next one reads nothing.
    let before = lruvec.machine.pages.scan_cost().scanned;
    lruvec.access(7);
    lruvec.age();
    assert_eq!(lruvec.machine.pages.scan_cost().scanned, before);
}

#[test]
fn accessed_neighbours_make_a_table_dense() {
    let mut lruvec = Lruvec::new(Release::V7_3, 64);
    for _ in 0..3 {
        lruvec.age();
    }
    (0..64).step_by(4).for_each(|page| lruvec.access(page));
    assert_eq!(lruvec.evict(32).len(), 24, "a quarter of 32 is kept");
    let before = lruvec.machine.pages.scan_cost().scanned;
    lruvec.age();
    assert!(lruvec.machine.pages.scan_cost().scanned > before, "look-around noted the table");
}

#[test]
fn fifth_generation_merges_the_oldest_two() {
    let mut lruvec = Lruvec::new(Release::V7_3, 4);
    for _ in 0..6 {
        lruvec.age();
    }
    assert_eq!(lruvec.generations.generations(0), MAX_GENERATIONS);
    assert_eq!((lruvec.generations.size(), lruvec.generations.inactive()), (4, 4));
}

#[test]
fn aging_is_due_with_three_generations() {
    let mut lruvec = Lruvec::new(Release::V7_3, 90);
    lruvec.age();
    lruvec.evict(64);
    assert!(lruvec.generations.should_age(true, Release::V7_3));
    assert!(!lruvec.generations.should_age(false, Release::V7_3), "at the default priority");
}

#[test]
fn neighbours_of_accessed_page_are_looked_at() {
    for release in KERNELS {
        let mut lruvec = Lruvec::new(release, 90);
        lruvec.age();
        lruvec.age();
        (0..90).for_each(|page| lruvec.access(page));
        lruvec.evict(1);
        // Page 0 is kept; its neighbours' bits are read, and found set.
        let pages = &mut lruvec.machine.pages;
        assert!(!pages.take_referenced(PageId(63)) && pages.take_referenced(PageId(64)));
    }
}

#[test]
fn accessed_isolated_neighbours_are_kept() {
    for release in KERNELS {
        let mut lruvec = Lruvec::new(release, 20);
        for _ in 0..3 {
            lruvec.age();
        }
        (0..19).for_each(|page| lruvec.access(page));
        // In 6.12 the first page's look-around clears the bits of all others, and marks them.
        assert_eq!(lruvec.evict(64), [19]);
        let pages = &mut lruvec.machine.pages;
        assert!((0..20).all(|page| !pages.take_referenced(PageId(page))));
        // The mark ends with the eviction.
        assert!(
            (0..19).all(|page| !lruvec.folios.state(PageId(page)).referenced)
                || release == Release::V7_3
        );
    }
}

#[test]
fn lower_zone_is_evicted_after_the_upper() {
    let mut lruvec = Lruvec::new(Release::V7_3, 0);
    lruvec.machine.allocated(0..8, 0);
    for page in (0..8).map(PageId) {
        lruvec.folios.set_lower(page, page.0 < 4);
        let (folios, pages) = (&mut lruvec.folios, &lruvec.machine.pages);
        lruvec.generations.add(page, true, Release::V7_3, folios, pages);
    }
    lruvec.age();
    assert_eq!(lruvec.evict(5), [4, 5, 6, 7, 0]);
}
