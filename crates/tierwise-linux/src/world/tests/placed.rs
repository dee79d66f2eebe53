//! Memory that the program has placed itself.

use super::*;
use crate::world::placed::{MAX_PROCESSES, PlacedError};

fn me(world: &LiveWorld<Pretender>) -> Process {
    world.tracker.members(TenantId(0)).next().unwrap()
}

fn surveyed(world: &mut LiveWorld<Pretender>) -> Observation {
    let mut report = Observation::default();
    world.next_survey = Timestamp::ZERO;
    world.observe(&mut report).unwrap();
    report
}

/// The addresses of the n-th whole block of a mapping.
fn block(memory: &Memory, n: u64) -> (u64, u64) {
    let first = memory.address().next_multiple_of(BLOCK) + n * BLOCK;
    (first, first + BLOCK)
}

fn put(world: &mut LiveWorld<Pretender>, (start, end): (u64, u64), node: i32) {
    let pages = (start..end).step_by(4096);
    world.migrator.calls().nodes.extend(pages.map(|address| (address as usize, node)));
}

#[test]
fn placed_slow_memory_leaves_the_engine() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(64 * BLOCK as usize);
    let (placed, other) = (block(&memory, 3), block(&memory, 5));
    put(&mut world, placed, 1);
    put(&mut world, other, 1);
    surveyed(&mut world);
    let known = page(&world, &memory, 3).unwrap();
    let process = me(&world);
    world.set_placed(process, vec![placed]).unwrap();
    assert!(surveyed(&mut world).freed.contains(&known));
    assert_eq!(page(&world, &memory, 3), None);
    assert!(page(&world, &memory, 5).is_some(), "what was not placed is managed");
    assert_eq!(world.placed(TenantId(0)), Bytes(BLOCK));
    // The program takes its word back.
    world.set_placed(process, Vec::new()).unwrap();
    surveyed(&mut world);
    assert!(page(&world, &memory, 3).is_some());
    assert_eq!(world.placed(TenantId(0)), Bytes(0));
}

/// A tenant that could hold fast memory by a report would not be bound by its share.
#[test]
fn reported_fast_memory_stays_managed() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(64 * BLOCK as usize);
    surveyed(&mut world);
    let process = me(&world);
    world.set_placed(process, vec![block(&memory, 3)]).unwrap();
    surveyed(&mut world);
    let page = page(&world, &memory, 3).unwrap();
    assert_eq!(world.placed(TenantId(0)), Bytes(0));
    assert!(outcomes(&mut world, &[page], 1)[0].result.is_ok(), "it is demoted as any other");
}

#[test]
fn placed_part_of_block_stays_behind() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(64 * BLOCK as usize);
    let whole = block(&memory, 3);
    put(&mut world, whole, 1);
    surveyed(&mut world);
    let process = me(&world);
    // A quarter in the middle.
    let quarter = (whole.0 + BLOCK / 4, whole.0 + BLOCK / 2);
    world.set_placed(process, vec![quarter]).unwrap();
    surveyed(&mut world);
    let page = page(&world, &memory, 3).unwrap();
    assert!(outcomes(&mut world, &[page], 0)[0].result.is_ok());
    let nodes = &world.migrator.calls().nodes;
    let on = |node: i32| {
        (whole.0..whole.1)
            .step_by(4096)
            .filter(|&address| nodes[&(address as usize)] == node)
            .collect::<Vec<_>>()
    };
    assert_eq!(on(1), (quarter.0..quarter.1).step_by(4096).collect::<Vec<_>>());
    assert_eq!(world.moved_bytes(), 3 * BLOCK / 4);
}

#[test]
fn reports_of_strangers_and_crowds_are_refused() {
    let (_dir, _waker, mut world) = world();
    let roots = world.config.roots.clone();
    // Above any process's number (`PID_MAX_LIMIT`).
    let pids: Vec<i32> = (5_000_000..).take(MAX_PROCESSES + 1).collect();
    for &pid in &pids {
        fake::process(&roots, pid, &[1 << 63]);
    }
    world.set_tenants(vec![("many".into(), TenantSelector::Pids(pids.clone()))], true);
    surveyed(&mut world);
    let members: Vec<Process> = world.tracker.members(TenantId(0)).collect();
    let unmanaged = Process { pid: 5_900_000, start_time: 1 };
    assert_eq!(world.set_placed(unmanaged, vec![(0, 9)]), Err(PlacedError::NoTenant));
    for &process in &members[..MAX_PROCESSES] {
        world.set_placed(process, vec![(0, 9)]).unwrap();
    }
    let last = members[MAX_PROCESSES];
    assert_eq!(world.set_placed(last, vec![(0, 9)]), Err(PlacedError::Processes));
    world.set_placed(members[0], vec![(0, 8)]).unwrap();
    // A process that ends makes room for another.
    world.set_tenants(vec![("many".into(), TenantSelector::Pids(pids[1..].to_vec()))], false);
    surveyed(&mut world);
    world.set_placed(last, vec![(0, 9)]).unwrap();
}
