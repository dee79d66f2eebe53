//! Exchanges whose promotions fail.

use tierwise_core::migrate::Cause;

use super::*;

/// Each of the first pages makes room for one of the others.
fn exchanges(plan: &mut MigrationPlan, cold: &[PageId], hot: &[PageId]) {
    for (&cold, &hot) in cold.iter().zip(hot) {
        plan.background(cold, TierId(1));
        plan.moves.last_mut().unwrap().cause = Cause::AtShare;
        plan.background(hot, TierId(0));
    }
}

/// What a lone tenant loses while its exchanges fail is bounded by the first of them.
#[test]
fn failing_exchanges_cost_one_block() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(64 * BLOCK as usize);
    let mut report = Observation::default();
    world.observe(&mut report).unwrap();
    let pages: Vec<PageId> = (0..16).map(|n| page(&world, &memory, n).unwrap()).collect();
    let hot = outcomes(&mut world, &pages[8..], 1);
    assert!(hot.iter().all(|o| o.result.is_ok()), "{hot:?}");
    world.migrator.calls().full_node = Some(0);
    let mut plan = MigrationPlan::default();
    exchanges(&mut plan, &pages[..8], &pages[8..]);
    let mut out = Vec::new();
    world.migrate(&plan, &mut out).unwrap();
    assert_eq!(out.iter().filter(|o| o.result.is_ok()).count(), 1, "{out:?}");
}

/// A page that other processes map, or that is being read from a device, stays busy.
#[test]
fn busy_promotions_stop_exchanges() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(64 * BLOCK as usize);
    let mut report = Observation::default();
    world.observe(&mut report).unwrap();
    let pages: Vec<PageId> = (0..32).map(|n| page(&world, &memory, n).unwrap()).collect();
    let hot = outcomes(&mut world, &pages[16..], 1);
    assert!(hot.iter().all(|o| o.result.is_ok()), "{hot:?}");
    world.migrator.calls().busy_node = Some(0);
    let mut demoted = |of: std::ops::Range<usize>| {
        let mut plan = MigrationPlan::default();
        exchanges(&mut plan, &pages[of.clone()], &pages[16..][of]);
        let mut out = Vec::new();
        world.migrate(&plan, &mut out).unwrap();
        let made = out.iter().filter(|o| o.result.is_ok() && o.to == TierId(1)).count();
        world.migrator.calls().clock += Duration::from_secs(6);
        made
    };
    // A portion is what failing exchanges cost, once in ten seconds.
    assert_eq!([demoted(0..4), demoted(4..8), demoted(4..8), demoted(8..12)], [4, 0, 4, 0]);
}
