//! MULTI-CLOCK (HPCA 2022): the thirteen transitions of Figure 4, one by one, and sections III-B,
//! III-C and VII.

mod common;

use std::time::Duration;

use common::{EngineFixture, base_page, recipe};
use tierwise_core::lru::LruList::{Active, Inactive, Promote};
use tierwise_core::page::{Attributes, PageKind};
use tierwise_core::units::{PageId, TenantId, TierId};

/// A page in the lower of two tiers of 160 base pages, no memory pressure.
fn one_page(kind: PageKind) -> EngineFixture {
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[160, 160]);
    machine.allocated(0, 1, base_page(1, kind));
    machine.drive(Duration::ZERO);
    machine
}

/// The machine after `calls` supervised accesses.
fn after_calls(calls: usize) -> EngineFixture {
    let mut machine = one_page(PageKind::File);
    machine.call(std::iter::repeat_n(0, calls));
    machine
}

#[test]
fn transition_1_scan_toggles_inactive_reference() {
    let mut machine = one_page(PageKind::Anon);
    machine.scan([0]);
    assert_eq!(machine.state(0), Some((1, Inactive, true)));
    machine.scan([]);
    assert_eq!(machine.state(0), Some((1, Inactive, false)));
}

#[test]
fn transition_2_supervised_access_marks_inactive_page() {
    assert_eq!(after_calls(1).state(0), Some((1, Inactive, true)));
}

#[test]
fn transition_3_pressure_demotes_oldest_inactive_pages() {
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[160, 160]);
    // 139 used leave 21 free: above the low watermark (20).
    machine.allocated(0, 139, base_page(0, PageKind::Anon));
    machine.drive(Duration::ZERO);
    assert!(machine.moves.is_empty());
    // 141 used leave 19. High is 30: eleven are demoted, in the order of their allocation.
    machine.allocated(139, 2, base_page(0, PageKind::Anon));
    machine.drive(Duration::ZERO);
    let demoted: Vec<u32> = machine.moves.iter().map(|m| m.page.0).collect();
    assert_eq!(demoted, (0..11).collect::<Vec<_>>());
    assert_eq!(machine.state(0), Some((1, Inactive, false)));
    assert_eq!(machine.free, [30, 149]);
    machine.drive(Duration::ZERO);
    assert!(machine.moves.is_empty());
}

#[test]
fn transition_4_freed_page_leaves_lists() {
    let mut machine = one_page(PageKind::Anon);
    machine.scan([0]);
    machine.freed(0);
    machine.drive(Duration::ZERO);
    assert_eq!(machine.state(0), None);
    machine.scan([0]);
    assert_eq!(machine.engine.metrics().scan.scanned, 1);
}

#[test]
fn transition_5_new_page_is_inactive_unreferenced() {
    assert_eq!(one_page(PageKind::Anon).state(0), Some((1, Inactive, false)));
}

#[test]
fn transition_6_a_second_access_activates_unreferenced() {
    assert_eq!(after_calls(2).state(0), Some((1, Active, false)));
    let mut machine = one_page(PageKind::Anon);
    machine.scan([0]);
    machine.scan([0]);
    assert_eq!(machine.state(0), Some((1, Active, false)));
}

#[test]
fn transition_7_scan_toggles_active_reference() {
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[160, 160]);
    // A second page keeps the inactive list long enough that no page is deactivated.
    machine.allocated(0, 2, base_page(1, PageKind::File));
    machine.call([0, 0]);
    machine.scan([0]);
    assert_eq!(machine.state(0), Some((1, Active, true)));
    machine.scan([]);
    assert_eq!(machine.state(0), Some((1, Active, false)));
}

#[test]
fn transition_8_supervised_access_marks_active_page() {
    assert_eq!(after_calls(3).state(0), Some((1, Active, true)));
}

#[test]
fn transition_9_short_inactive_list_deactivates_pages() {
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[160, 160]);
    machine.allocated(0, 4, base_page(1, PageKind::File));
    machine.call([0, 0, 1, 1, 2, 2]);
    // Three active to one inactive, in a tier below a GB: at most one to one. One is deactivated.
    machine.scan([]);
    let states: Vec<_> = (0..4).map(|page| machine.state(page).unwrap()).collect();
    assert_eq!(states[0], (1, Inactive, false));
    assert_eq!(states[1..3], [(1, Active, false); 2]);
    assert_eq!(states[3], (1, Inactive, false));
    // Two to two is no longer too much.
    machine.scan([]);
    assert_eq!(machine.state(1), Some((1, Active, false)));
}

#[test]
fn transition_10_referenced_active_page_becomes_candidate() {
    let machine = after_calls(4);
    assert_eq!(machine.state(0), Some((1, Promote, true)));
    // The fastest tier has no faster one and no promote list.
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[160, 160]);
    machine.allocated(0, 1, base_page(0, PageKind::File));
    machine.call([0; 9]);
    assert_eq!(machine.state(0), Some((0, Active, true)));
}

#[test]
fn transition_11_failed_promotion_returns_to_active() {
    let mut machine = after_calls(4);
    machine.locked.insert(PageId(0));
    machine.scan([]);
    assert_eq!(machine.moves.len(), 1);
    assert_eq!(machine.state(0), Some((1, Active, false)));

    let mut machine = full_of_hot_pages();
    assert_eq!(machine.state(1000), Some((1, Promote, false)));
    machine.scan(0..160);
    assert_eq!(machine.state(1000), Some((1, Active, false)));
}

#[test]
fn transition_12_accessed_candidate_stays_candidate() {
    let mut machine = after_calls(4);
    machine.call([0]);
    assert_eq!(machine.state(0), Some((1, Promote, true)));

    let mut machine = full_of_hot_pages();
    machine.scan((0..160).chain([1000]));
    assert_eq!(machine.state(1000), Some((1, Promote, false)));
}

#[test]
fn transition_13_run_promotes_all_it_selects() {
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[160, 160]);
    machine.allocated(0, 40, base_page(1, PageKind::Anon));
    for _ in 0..3 {
        machine.scan(0..40);
        assert!(machine.moves.is_empty());
    }
    assert_eq!(machine.state(7), Some((1, Active, true)));
    machine.scan(0..40);
    assert_eq!(machine.moves.len(), 40);
    assert_eq!(machine.state(7), Some((0, Active, false)));
}

/// An upper tier that is full of pages accessed in every interval, and one candidate below it
/// (1000).
fn full_of_hot_pages() -> EngineFixture {
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[160, 160]);
    machine.allocated(0, 160, base_page(0, PageKind::Anon));
    machine.allocated(1000, 1, base_page(1, PageKind::Anon));
    for _ in 0..4 {
        machine.scan((0..160).chain([1000]));
    }
    machine
}

#[test]
fn supervised_candidate_waits_for_next_run() {
    let mut machine = after_calls(4);
    assert!(machine.moves.is_empty());
    machine.scan([]);
    assert_eq!(machine.tier(0), 0);
}

#[test]
fn short_upper_tier_demotes_to_promote() {
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[160, 160]);
    // 20 free: the low watermark exactly, no pressure yet.
    machine.allocated(0, 140, base_page(0, PageKind::Anon));
    machine.allocated(1000, 3, base_page(1, PageKind::Anon));
    for _ in 0..4 {
        machine.scan(1000..1003);
    }
    let moves: Vec<(u32, u8)> = machine.moves.iter().map(|m| (m.page.0, m.to.0)).collect();
    // Newest candidate first, and a demotion right before each promotion.
    assert_eq!(moves, [(0, 1), (1002, 0), (1, 1), (1001, 0), (2, 1), (1000, 0)]);
    assert_eq!(machine.free[0], 20);
}

#[test]
fn nothing_is_demoted_from_the_last_tier() {
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[160, 160]);
    machine.allocated(0, 160, base_page(1, PageKind::Anon));
    for _ in 0..5 {
        machine.scan([]);
        assert!(machine.moves.is_empty());
    }
}

#[test]
fn three_tiers_promote_and_demote_between_neighbours() {
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[160, 160, 160]);
    machine.allocated(0, 1, base_page(2, PageKind::Anon));
    for _ in 0..4 {
        machine.scan([0]);
    }
    assert_eq!(machine.state(0), Some((1, Active, false)));
    // Active already, it needs two more intervals for the next tier.
    machine.scan([0]);
    machine.scan([0]);
    assert_eq!(machine.state(0), Some((0, Active, false)));

    // Pressure everywhere: room is made from the bottom up, in one plan.
    machine.allocated(1000, 150, base_page(0, PageKind::Anon));
    machine.allocated(2000, 160, base_page(1, PageKind::Anon));
    machine.drive(Duration::ZERO);
    // 30 pages leave the middle tier, which makes room for 20 of the 21 from the fastest: its other
    // free pages are below the min watermark.
    assert_eq!(machine.moves.iter().filter(|m| m.to == TierId(2)).count(), 30);
    assert_eq!(machine.moves.iter().filter(|m| m.to == TierId(1)).count(), 20);
    assert_eq!(machine.moves[0].to, TierId(2));
    assert!(machine.moves.is_sorted_by_key(|m| std::cmp::Reverse(m.to)));
}

#[test]
fn a_huge_page_needs_its_512_frames() {
    let huge = |tier| Attributes {
        tenant: TenantId(0),
        tier: TierId(tier),
        kind: PageKind::Anon,
        order: 9,
    };
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[4096, 4096]);
    // Seven of eight: 512 frames are free, exactly the low watermark.
    machine.allocated(0, 7, huge(0));
    machine.allocated(100, 1, huge(1));
    for _ in 0..4 {
        machine.scan([100]);
    }
    let moves: Vec<(u32, u8)> = machine.moves.iter().map(|m| (m.page.0, m.to.0)).collect();
    assert_eq!(moves, [(0, 1), (100, 0)]);
    assert_eq!(machine.free, [512, 3584]);
}

#[test]
fn scan_takes_1024_pages_and_wraps() {
    let mut machine = EngineFixture::new(recipe("multi-clock", &[]), &[10_000, 10_000]);
    machine.allocated(0, 1500, base_page(1, PageKind::Anon));
    machine.allocated(2000, 1500, base_page(1, PageKind::File));
    machine.scan((0..1500).chain(2000..3500));
    assert_eq!(machine.engine.metrics().scan.scanned, 2 * 1024);
    assert_eq!(machine.state(1023), Some((1, Inactive, true)));
    assert_eq!(machine.state(1024), Some((1, Inactive, false)));
    machine.scan([]);
    assert_eq!(machine.state(1024), Some((1, Inactive, true)));
}

#[test]
fn dirty_weight_raises_written_intervals() {
    let mut machine = EngineFixture::new(
        recipe("multi-clock", &[("dirty_weight = 0", "dirty_weight = 1")]),
        &[160, 160],
    );
    assert!(machine.engine.initial_plan().signals.dirty_bits);
    machine.allocated(0, 2, base_page(1, PageKind::Anon));
    machine.obs.written.set(PageId(0));
    machine.scan([0, 1]);
    assert_eq!(machine.state(0), Some((1, Active, false)));
    assert_eq!(machine.state(1), Some((1, Inactive, true)));
    machine.obs.written.set(PageId(0));
    machine.scan([0, 1]);
    assert_eq!(machine.tier(0), 0);
    assert_eq!(machine.state(1), Some((1, Active, false)));
    // The published algorithm does not read dirty bits.
    assert!(!one_page(PageKind::Anon).engine.initial_plan().signals.dirty_bits);
}

#[test]
fn adaptive_interval_follows_promotions_profit() {
    let on = [("adaptive_interval = false", "adaptive_interval = true")];
    let mut machine = EngineFixture::new(recipe("multi-clock", &on), &[1600, 1600]);
    let next = |machine: &EngineFixture| machine.engine.poll_timeout().unwrap().0 / 1_000_000_000;
    machine.scan([]);
    assert_eq!(next(&machine), 3); // doubled
    machine.allocated(0, 8, base_page(1, PageKind::File));
    machine.drive(Duration::from_secs(2));
    assert_eq!(next(&machine), 7); // and again
    machine.call((0..8).flat_map(|page| [page; 4]));
    machine.drive(Duration::from_secs(4));
    assert_eq!(machine.moves.len(), 8);
    assert_eq!(next(&machine), 15); // there was no promotion before this scan
    machine.touch(0..8);
    machine.drive(Duration::from_secs(8));
    assert_eq!(next(&machine), 19); // the promoted pages are accessed: half
}

#[test]
fn bounds_excluding_the_interval_are_refused() {
    for (line, key) in [
        ("adaptive_interval = true\nmin_interval_ms = 2000", "min_interval_ms"),
        ("adaptive_interval = true\nmax_interval_ms = 500", "max_interval_ms"),
    ] {
        let changed = recipe("multi-clock", &[("adaptive_interval = false", line)]);
        let error = changed
            .build(&tierwise_core::registry::BuildContext::new(&common::topology(&[160, 160]), 1))
            .err()
            .unwrap();
        assert_eq!(error.key, format!("estimator.{key}"));
    }
}

/// On a live machine a kernel thread collects the bits, maybe less often than the lists are due.
#[test]
fn scan_waits_for_unread_bits() {
    let mut machine = one_page(PageKind::Anon);
    for state in [(1, Inactive, true), (1, Active, false), (1, Active, true)] {
        machine.scan([0]);
        assert_eq!(machine.state(0), Some(state));
        machine.obs.bits_unread = true;
        machine.scan([]);
        assert_eq!(machine.state(0), Some(state), "no bits were read");
    }
    // A due estimator that waits for bits sets no wake: the next read of bits wakes it.
    assert_eq!(machine.engine.poll_timeout(), None);
    machine.scan([0]);
    assert_eq!(machine.state(0), Some((0, Active, false)));
}
