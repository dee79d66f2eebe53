use super::place::Place;
use super::*;

const BLOCK: u64 = 1 << 16;
const MINUTE: Duration = Duration::from_secs(60);

fn process(pid: i32) -> Process {
    Process { pid, start_time: 1 }
}

/// A heap of ten blocks at a block number.
fn heap(number: u64) -> [PlacedMapping; 1] {
    let (start, end) = (number * BLOCK, (number + 10) * BLOCK);
    [PlacedMapping { place: Place::Heap, start, end, offset: 0 }]
}

fn known<'a>(
    tenant: &'a str,
    pid: i32,
    program: u64,
    places: &'a [PlacedMapping],
) -> KnownProcess<'a> {
    KnownProcess { tenant, process: process(pid), program: Program(program), places }
}

fn blocks(number: u64) -> Vec<(u64, PageId)> {
    (0..10).map(|i| (number + i, PageId(i as u32))).collect()
}

/// The heat of the pages of a heap at block 100: 40 in the first four blocks, 3 in the last.
fn recorded(pid: i32, program: u64) -> HeatMemory {
    let mut memory = HeatMemory::default();
    let heat = |page: PageId| [40, 40, 40, 40, 0, 0, 0, 0, 0, 3][page.index()];
    let at = heap(100);
    memory.record(known("shop", pid, program, &at), MINUTE, BLOCK, &blocks(100), heat);
    memory
}

fn recall(
    memory: &mut HeatMemory,
    known: KnownProcess<'_>,
    now: Duration,
    number: u64,
    alive: &[i32],
) -> Vec<u16> {
    let mut out = Vec::new();
    let is_alive = |process: &Process| alive.contains(&process.pid);
    memory.recall(known, now, BLOCK, &blocks(number), is_alive, &mut out);
    let mut heat = vec![0; 10];
    out.iter().for_each(|remembered| heat[remembered.page.index()] = remembered.heat);
    heat
}

#[test]
fn same_process_gets_its_heat_once() {
    let mut memory = recorded(7, 1);
    assert_eq!(memory.records()[0].mappings[0].runs.0.len(), 2, "equal neighbours make a run");
    let at = heap(100);
    let heat = recall(&mut memory, known("shop", 7, 1, &at), MINUTE, 100, &[7]);
    // The two highest bits of 40.
    assert_eq!(heat, [32, 32, 32, 32, 0, 0, 0, 0, 0, 3]);
    assert_eq!(recall(&mut memory, known("shop", 7, 1, &at), MINUTE, 100, &[7]), [0; 10]);
}

#[test]
fn heat_is_halved_every_ten_minutes() {
    let at = heap(100);
    let after = |minutes: u32| {
        let mut memory = recorded(7, 1);
        recall(&mut memory, known("shop", 7, 1, &at), MINUTE * (1 + minutes), 100, &[7])[0]
    };
    assert_eq!([0, 1, 10, 20, 50, 70].map(after), [32, 30, 16, 8, 1, 0]);
}

#[test]
fn restarted_program_inherits_by_place() {
    // The heap is elsewhere, and starts in the middle of a block.
    let mut places = heap(500);
    places[0].start += BLOCK / 2;
    places[0].end += BLOCK / 2;
    let successor = known("shop", 8, 1, &places);
    let mut memory = recorded(7, 1);
    let heat = recall(&mut memory, successor, MINUTE, 500, &[8]);
    assert_eq!(heat, [32, 32, 32, 32, 16, 0, 0, 0, 0, 2]);
    // Memory that it allocates while it loads inherits, too, and later memory does not.
    assert_eq!(recall(&mut memory, successor, MINUTE + LOADING / 2, 500, &[8])[0], 27);
    recall(&mut memory, successor, MINUTE + LOADING, 500, &[8]);
    assert_eq!(recall(&mut memory, successor, MINUTE + LOADING, 500, &[8]), [0; 10]);
}

#[test]
fn only_an_ended_twin_is_a_predecessor() {
    let at = heap(100);
    let inherits = |known: KnownProcess<'_>, alive: &[i32]| {
        recall(&mut recorded(7, 1), known, MINUTE, 100, alive)[0] > 0
    };
    assert!(inherits(known("shop", 8, 1, &at), &[8]));
    assert!(!inherits(known("shop", 8, 1, &at), &[7, 8]), "the recorded process still runs");
    assert!(!inherits(known("shop", 8, 2, &at), &[8]), "another program");
    assert!(!inherits(known("batch", 8, 1, &at), &[8]), "another tenant");
    assert!(!inherits(known("shop", 7, 2, &at), &[7]), "the process executed another program");
    // One record serves one successor.
    let mut memory = recorded(7, 1);
    assert!(recall(&mut memory, known("shop", 8, 1, &at), MINUTE, 100, &[8, 9])[0] > 0);
    assert_eq!(recall(&mut memory, known("shop", 9, 1, &at), MINUTE, 100, &[8, 9]), [0; 10]);
}

#[test]
fn new_engine_gets_recorded_heat_again() {
    let (at, mut memory) = (heap(100), recorded(7, 1));
    recall(&mut memory, known("shop", 7, 1, &at), MINUTE, 100, &[7]);
    memory.start_again();
    assert_eq!(recall(&mut memory, known("shop", 7, 1, &at), MINUTE, 100, &[7])[0], 32);
    memory.record(known("shop", 7, 1, &at), MINUTE * 2, BLOCK, &blocks(100), |_| 5);
    memory.start_again();
    assert_eq!(recall(&mut memory, known("shop", 7, 1, &at), MINUTE * 2, 100, &[7]), [4; 10]);
}

#[test]
fn memory_is_bounded_and_forgets() {
    let (at, mut memory) = (heap(100), HeatMemory::default());
    for pid in 0..2 * MAX_RECORDS as i32 {
        let now = Duration::from_secs(pid as u64);
        memory.record(known("forks", pid, 1, &at), now, BLOCK, &blocks(100), |_| 1);
        memory.record(known("shop", 5000, 1, &at), now, BLOCK, &blocks(100), |_| 1);
    }
    memory.trim(MINUTE);
    let of = |memory: &HeatMemory, tenant: &str| {
        memory.records().iter().filter(|r| r.tenant == tenant).count()
    };
    assert_eq!((of(&memory, "forks"), of(&memory, "shop")), (MAX_RECORDS, 1));
    assert!(memory.records()[..MAX_RECORDS].iter().all(|r| r.process.pid >= MAX_RECORDS as i32));
    memory.trim(MAX_AGE + MINUTE * 10);
    assert!(memory.records().is_empty());
    // A process without heat has no record.
    memory.record(known("shop", 1, 1, &at), MINUTE, BLOCK, &blocks(100), |_| 0);
    assert!(memory.records().is_empty());
}
