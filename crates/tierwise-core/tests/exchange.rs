//! The policies that exchange a fixed number of recent pages for old ones: clock and nimble.

mod common;

use std::time::Duration;

use common::{EngineFixture, base_page, recipe};
use tierwise_core::lru::LruList::{Active, Inactive};
use tierwise_core::page::PageKind;
use tierwise_core::units::PageId;

/// The upper tier holds 0..140, which leaves exactly the low watermark free. 1000..1010 are in the
/// lower tier.
fn full_upper_tier(name: &str, changes: &[(&str, &str)]) -> EngineFixture {
    let mut machine = EngineFixture::new(recipe(name, changes), &[160, 160]);
    machine.allocated(0, 140, base_page(0, PageKind::Anon));
    machine.allocated(1000, 10, base_page(1, PageKind::Anon));
    machine.drive(Duration::ZERO);
    machine
}

fn moves(machine: &EngineFixture) -> Vec<(u32, u8)> {
    machine.moves.iter().map(|m| (m.page.0, m.to.0)).collect()
}

#[test]
fn nimble_promotes_newest_active_pages_first() {
    let mut machine = full_upper_tier("nimble", &[]);
    machine.scan([1004, 1007]);
    assert!(machine.moves.is_empty());
    machine.scan([1004, 1007]);
    // Each demotion right before its promotion: the oldest upper pages for the newest lower ones.
    assert_eq!(moves(&machine), [(0, 1), (1007, 0), (1, 1), (1004, 0)]);
    assert_eq!(machine.state(1007), Some((0, Active, false)));
    assert_eq!(machine.state(0), Some((1, Inactive, false)));
}

#[test]
fn nimble_ignores_access_counts_once_active() {
    // Locked at first, so that both are active in the lower tier; then only 1001 is accessed.
    let mut machine = full_upper_tier("nimble", &[]);
    machine.locked.extend([PageId(1000), PageId(1001)]);
    machine.scan([1000, 1001]);
    machine.scan([1000, 1001]);
    machine.locked.clear();
    machine.scan([1001]);
    assert_eq!((machine.tier(1000), machine.tier(1001)), (0, 0));
}

#[test]
fn nimble_promotes_to_the_active_tail() {
    // 10 of 16 pages of the upper tier are active, 4 inactive: the ratio below a GB is one to one.
    let mut machine = EngineFixture::new(recipe("nimble", &[]), &[160, 160]);
    machine.allocated(0, 5, base_page(0, PageKind::Anon));
    machine.allocated(1000, 1, base_page(1, PageKind::Anon));
    machine.scan([0, 1, 2, 1000]);
    machine.scan([0, 1, 2, 1000]);
    assert_eq!(machine.state(1000), Some((0, Active, false)));
    // Four active, two inactive: one too many, and the promoted page is scanned first.
    machine.scan([]);
    assert_eq!(machine.state(1000), Some((0, Inactive, false)));
    assert_eq!(machine.state(0), Some((0, Active, false)));
}

#[test]
fn exchange_moves_its_fixed_number_at_most() {
    for name in ["clock", "nimble"] {
        let mut machine = full_upper_tier(name, &[("pages = 1024  ", "pages = 3  ")]);
        machine.scan(1000..1010);
        machine.scan(1000..1010);
        let promoted = (1000..1010).filter(|&page| machine.tier(page) == 0).count();
        assert_eq!(promoted, if name == "clock" { 6 } else { 3 });
    }
}

#[test]
fn clock_promotes_pages_of_the_last_sweep() {
    let mut machine = full_upper_tier("clock", &[]);
    machine.scan([1004, 1007]);
    assert_eq!(moves(&machine), [(0, 1), (1007, 0), (1, 1), (1004, 0)]);
    machine.scan([]);
    assert!(machine.moves.is_empty());
}

#[test]
fn clock_gives_accessed_pages_a_second_chance() {
    let mut machine = full_upper_tier("clock", &[]);
    machine.scan([0, 2, 1004, 1007]);
    assert_eq!(moves(&machine), [(1, 1), (1007, 0), (3, 1), (1004, 0)]);
}

#[test]
fn clock_goes_round_in_parts() {
    // Two tiers: four entries per sweep, of ten.
    let few = [("scan_pages = 1024", "scan_pages = 2")];
    let mut machine = EngineFixture::new(recipe("clock", &few), &[160, 160]);
    machine.allocated(0, 10, base_page(1, PageKind::Anon));
    machine.scan([0, 9]);
    assert_eq!(moves(&machine), [(0, 0)]);
    machine.scan([]);
    assert!(machine.moves.is_empty());
    // Entries 8, 9, 0 and 1, the last passed first; 0 is in the upper tier already.
    machine.scan([1]);
    assert_eq!(moves(&machine), [(1, 0), (9, 0)]);
    assert_eq!(machine.engine.metrics().scan.scanned, 12);
}

#[test]
fn clock_exchanges_no_hot_pages_for_hot() {
    let mut machine = full_upper_tier("clock", &[]);
    for _ in 0..6 {
        machine.scan((0..140).chain(1000..1010));
        assert!(machine.moves.is_empty(), "{:?}", machine.moves);
    }
}

#[test]
fn nimble_takes_oldest_if_all_hot() {
    let mut machine = full_upper_tier("nimble", &[("pages = 1024  ", "pages = 4  ")]);
    machine.scan((0..140).chain(1000..1010));
    assert!(machine.moves.is_empty(), "no page is active yet");
    machine.scan((0..140).chain(1000..1010));
    let promoted: Vec<u32> = (1000..1010).filter(|&page| machine.tier(page) == 0).collect();
    assert_eq!(promoted.len(), 4, "its fixed number, though every page was accessed");
    let demoted: Vec<u32> = (0..140).filter(|&page| machine.tier(page) == 1).collect();
    assert_eq!(demoted, [0, 1, 2, 3], "the oldest");
}

#[test]
fn pressure_demotes_without_an_access() {
    for name in ["clock", "nimble", "multi-clock"] {
        let mut machine = full_upper_tier(name, &[]);
        machine.allocated(140, 1, base_page(0, PageKind::Anon));
        machine.drive(Duration::ZERO);
        assert_eq!(moves(&machine), (0..11).map(|page| (page, 1)).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn without_pressure_and_access_nothing_moves() {
    for name in ["clock", "nimble", "multi-clock"] {
        let mut machine = full_upper_tier(name, &[]);
        for _ in 0..8 {
            machine.scan([]);
            assert!(machine.moves.is_empty(), "{name}");
        }
    }
}
