use super::super::testing::{Driven, SECOND};
use super::task_scan::TICK;
use crate::observe::TenantReading;
use crate::units::{Pages, Timestamp};
use std::time::Duration;

/// Scaled to a machine of hundreds of pages, with watermarks 2, 4, 6 and 8.
const SMALL: &str = "algorithm = \"kernel-tiering\"\nfree_enough = \"40KiB\"";

/// A machine whose program runs for a second between two plans.
fn driven(text: &str) -> Driven {
    let mut driven = Driven::new(text);
    let (running, busy) = (true, Duration::from_secs(1));
    let reading = || TenantReading { running, busy, cpus: 1.0, ..TenantReading::default() };
    driven.machine.tenants = vec![reading()];
    driven.machine.obs.tenants = vec![reading()];
    driven
}

/// Without events, only its own wake brings the first observation.
#[test]
fn policy_wakes_before_any_event() {
    let driven = driven(SMALL);
    assert_eq!(driven.policy.next_wake(), Some(Timestamp::ZERO + TICK));
}

/// A store's client takes the CPU in turn with its server, so kswapd waits no longer for both than
/// for a program that always runs.
#[test]
fn clients_count_in_kswapds_turns() {
    let demoted = |busy: u64, clients: u64| {
        let mut driven = driven(SMALL);
        let reading = &mut driven.machine.obs.tenants[0];
        (reading.busy, reading.clients) =
            (Duration::from_millis(busy), Duration::from_millis(clients));
        driven.machine.allocated(0..94, 0).allocated(100..110, 1);
        driven.plan(SECOND);
        driven.fault(100, SECOND, SECOND + 1000);
        (2..20).map(|later| driven.plan(SECOND + later * 1000).len()).collect::<Vec<_>>()
    };
    assert_eq!(demoted(0, 1000), demoted(1000, 0));
    assert!(demoted(400, 600).iter().sum::<usize>() > 0);
}

#[test]
fn each_fault_checks_free_memory_anew() {
    let mut driven = driven(SMALL);
    driven.machine.allocated(0..91, 0).allocated(100..110, 1);
    driven.plan(SECOND);
    for page in 100..104 {
        driven.fault(page, SECOND, SECOND + 1000);
    }
    // Nine free: two faults leave seven, of which the high watermark and one page are not more.
    let moves = driven.plan(SECOND + 2000);
    assert_eq!(moves[..2], [(100, 0), (101, 0)]);
    assert!(moves[2..].iter().all(|&(page, to)| page < 91 && to == 1), "{moves:?}");
}

#[test]
fn fault_without_room_wakes_kswapd() {
    let mut driven = driven(SMALL);
    driven.machine.allocated(0..94, 0).allocated(100..110, 1);
    assert_eq!(driven.plan(SECOND), []);
    driven.fault(100, SECOND, SECOND + 1000);
    let mut demoted = driven.plan(SECOND + 2000);
    for later in 3..20 {
        demoted.extend(driven.plan(SECOND + later * 1000));
    }
    assert!(demoted.iter().all(|&(page, to)| page < 94 && to == 1));
    assert!(driven.machine.free[0].0 > 8, "above the promo watermark: {demoted:?}");
    driven.fault(100, 2 * SECOND, 2 * SECOND + 1000);
    assert_eq!(driven.plan(2 * SECOND + 2000), [(100, 0)]);
}

/// The lower zone is nearly full, and the program has little of it: the rest is others'. A fault
/// finds no room and wakes kswapd.
#[test]
fn others_fill_the_lower_zone_too() {
    let zoned = format!("{SMALL}\ndma_zone = \"160KiB\"\nnode_memory = \"400KiB\"");
    let mut driven = driven(&zoned);
    driven.machine.allocated(0..10, 0).allocated(100..110, 1);
    // Others have 86 pages of the node: four are free, two in each zone.
    driven.machine.free[0] = Pages(4);
    driven.plan(SECOND);
    driven.fault(100, SECOND, SECOND + 1000);
    let moves: Vec<_> = (2..20).flat_map(|later| driven.plan(SECOND + later * 1000)).collect();
    assert!(!moves.is_empty() && moves.iter().all(|&(_, to)| to == 1), "{moves:?}");
}

#[test]
fn allocation_wakes_kswapd_without_any_room() {
    let moves = |slow: u32| -> usize {
        let mut driven = driven(SMALL);
        driven.machine.allocated(0..97, 0).allocated(100..100 + slow, 1);
        (1..20).map(|at| driven.plan(SECOND + at).len()).sum()
    };
    // Three fast pages are free, fewer than the low watermark of four.
    assert_eq!(moves(95), 0, "the slow tier still takes allocations");
    assert_eq!(moves(96), 2, "both are short; the slow one takes two pages above its min");
}

#[test]
fn free_memory_promotes_at_any_latency() {
    let mut driven = driven(SMALL);
    driven.machine.allocated(0..4, 1);
    driven.plan(SECOND);
    driven.fault(2, SECOND, 30 * SECOND);
    assert_eq!(driven.plan(30 * SECOND), [(2, 0)]);
}

#[test]
fn latency_counts_in_whole_jiffies() {
    let mut driven = driven(SMALL);
    driven.machine.allocated(0..85, 0).allocated(100..110, 1);
    driven.plan(SECOND);
    let ms = SECOND / 1000;
    // Both are 998 ms late, but in jiffies of 4 ms the first is 1000 ms late.
    driven.fault(100, 1003 * ms, 2001 * ms);
    driven.fault(101, 1001 * ms, 1999 * ms);
    assert_eq!(driven.plan(2001 * ms), [(101, 0)]);
}

#[test]
fn scan_poisons_slow_pages_once() {
    let mut driven = driven(SMALL);
    driven.machine.allocated(0..4, 0).allocated(100..104, 1);
    let scans: Vec<_> = (1..6)
        .map(|second| {
            driven.plan(second * SECOND);
            driven.poisoned.clone()
        })
        .collect();
    let poisoned: Vec<_> = scans.iter().flatten().collect();
    assert_eq!(poisoned, [&(100, 4)], "{scans:?}");
}

/// The world may report several times before the policy starts, while others end their work and the
/// program fills its memory. A given run time is that of the start, whatever was reported before.
#[test]
fn given_run_time_is_the_starts() {
    let scanned = |reports: u64| {
        let threaded = format!("{SMALL}\nran_ms = 600\nthreaded = true");
        let mut driven = driven(&threaded);
        driven.machine.allocated(0..4, 0).allocated(100..104, 1);
        for report in 0..reports {
            let machine = &mut driven.machine;
            driven.policy.on_observation(Timestamp(report), &machine.obs, &mut machine.pages);
        }
        driven.machine.obs.tenants[0].busy = TICK;
        let tick = TICK.as_nanos() as u64;
        let mut ticks = 1..1000;
        ticks.find(|at| {
            driven.plan(SECOND + at * tick);
            !driven.poisoned.is_empty()
        })
    };
    // A scan is due after a second of run time: 400 ms are 100 ticks.
    assert_eq!([scanned(1), scanned(2), scanned(5)], [Some(101); 3]);
}

#[test]
fn promoted_page_is_evicted_after_older_ones() {
    let mut driven = driven(SMALL);
    driven.machine.allocated(0..91, 0).allocated(100..110, 1);
    driven.plan(SECOND);
    driven.fault(100, SECOND, SECOND + 1000);
    assert_eq!(driven.plan(SECOND + 2000), [(100, 0)]);
    driven.machine.allocated(200..206, 0);
    // A fault without room wakes kswapd.
    driven.fault(101, 2 * SECOND, 2 * SECOND);
    let mut demoted = Vec::new();
    for later in 1..30 {
        demoted.extend(driven.plan(2 * SECOND + later));
    }
    assert!(demoted.contains(&(0, 1)) && !demoted.contains(&(100, 1)), "{demoted:?}");
}

#[test]
fn external_moves_keep_the_lists_whole() {
    let mut driven = driven(SMALL);
    driven.machine.allocated(0..91, 0).allocated(100..110, 1);
    driven.plan(SECOND);
    driven.external_move(5, 1);
    driven.external_move(105, 0);
    driven.machine.allocated(200..206, 0);
    driven.fault(106, 2 * SECOND, 2 * SECOND);
    let mut demoted = Vec::new();
    for later in 1..300 {
        demoted.extend(driven.plan(2 * SECOND + later));
    }
    assert!(!demoted.contains(&(5, 1)), "{demoted:?}");
}
