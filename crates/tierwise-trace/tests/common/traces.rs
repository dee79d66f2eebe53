//! Artificial traces for the tests of the format and its users.

use std::io::Cursor;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::writer::{TraceWriter, WriterOptions};
use tierwise_trace::{
    Allocation, Header, ObjectHeat, PageAccess, PageBacking, ThreadShare, TraceError, Window,
    WindowSource,
};

/// A header for tests.
pub fn header() -> Header {
    Header {
        command: vec!["program".into(), "--with".into(), "arguments".into()],
        host: "a test".into(),
        page_size: 4096,
        window_instructions: 1000,
        cache: tierwise_trace::cache::DEFAULT,
    }
}

/// A row: loads, stores, load misses and store misses in this order.
pub fn access(page: u32, counts: [u32; 4], supervised: u16, thread: u16) -> PageAccess {
    let [loads, stores, load_misses, store_misses] = counts;
    PageAccess { page, loads, stores, load_misses, store_misses, supervised, thread }
}

/// The parts of one window; pages are chosen among the mapped ones when the windows are made.
#[derive(Debug, Clone)]
struct Plan {
    allocations: Vec<(u64, bool, u8, u16)>,
    touched: Vec<(prop::sample::Index, [u32; 4], u16, u16)>,
    unmapped: Vec<prop::sample::Index>,
    threads: std::collections::BTreeMap<u16, u32>,
    marks: Vec<String>,
    operations: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let allocation = (any::<u64>(), any::<bool>(), 0u8..=9, any::<u16>());
    let touch = (any::<prop::sample::Index>(), any::<[u32; 4]>(), any::<u16>(), any::<u16>());
    (
        vec(allocation, 0..20),
        vec(touch, 0..30),
        vec(any::<prop::sample::Index>(), 0..4),
        btree_map(any::<u16>(), any::<u32>(), 0..4),
        vec("\\PC{0,12}", 0..2),
        any::<u64>(),
    )
        .prop_map(|(allocations, touched, unmapped, threads, marks, operations)| Plan {
            allocations,
            touched,
            unmapped,
            threads,
            marks,
            operations,
        })
}

/// Windows that keep every rule of the data model.
pub fn windows() -> impl Strategy<Value = Vec<Window>> {
    vec(plan(), 0..8).prop_map(|plans| {
        let (mut present, mut next) = (Vec::new(), 0u32);
        plans.into_iter().map(|plan| realise(plan, &mut present, &mut next)).collect()
    })
}

fn realise(plan: Plan, present: &mut Vec<u32>, next: &mut u32) -> Window {
    let mut window = Window { operations: plan.operations, marks: plan.marks, ..Window::default() };
    for (thread, instructions) in plan.threads {
        window.threads.push(ThreadShare { thread, instructions: instructions.into() });
        window.instructions += u64::from(instructions);
    }
    for (vpn, file, order, thread) in plan.allocations {
        let kind = if file { PageBacking::File } else { PageBacking::Anon };
        window.allocations.push(Allocation { page: *next, vpn, kind, order, thread });
        present.push(*next);
        *next += 1;
    }
    if !present.is_empty() {
        for (index, counts, supervised, thread) in plan.touched {
            window.accesses.push(access(*index.get(present), counts, supervised, thread));
        }
        window.accesses.sort_by_key(|access| access.page);
        window.accesses.dedup_by_key(|access| access.page);
        let heated = window.accesses.iter().filter(|access| access.loads % 2 == 1);
        let heat = |a: &PageAccess| ObjectHeat { page: a.page, hotness: a.stores };
        window.object_heat = heated.map(heat).collect();
        window.objects = u64::from(window.object_heat.len() as u32 * 3);
    }
    for index in plan.unmapped {
        if !present.is_empty() {
            window.unmaps.push(present.swap_remove(index.index(present.len())));
        }
    }
    window.unmaps.sort_unstable();
    window
}

/// The windows as a file.
pub fn file_of(windows: &[Window]) -> Vec<u8> {
    let mut writer = TraceWriter::new(
        "test",
        Vec::new(),
        &header(),
        WriterOptions { level: 1, overwrite: false },
    )
    .unwrap();
    windows.iter().for_each(|window| writer.push(window).unwrap());
    writer.finish().unwrap().0
}

/// Reads a file.
pub fn open(bytes: &[u8]) -> Result<TraceReader<Cursor<Vec<u8>>>, TraceError> {
    TraceReader::new("test", Cursor::new(bytes.to_vec()))
}

/// Every window up to the end or the first error.
pub fn read_all(source: &mut dyn WindowSource) -> (Vec<Window>, Option<TraceError>) {
    let mut windows = Vec::new();
    let mut window = Window::default();
    loop {
        match source.next_window(&mut window) {
            Ok(true) => windows.push(window.clone()),
            Ok(false) => return (windows, None),
            Err(error) => return (windows, Some(error)),
        }
    }
}

/// Two windows with every kind of content.
pub fn sample() -> Vec<Window> {
    let allocation =
        |page, vpn| Allocation { page, vpn, kind: PageBacking::Anon, order: 0, thread: 0 };
    let first = Window {
        instructions: 1000,
        operations: 3,
        threads: vec![ThreadShare { thread: 0, instructions: 1000 }],
        allocations: vec![allocation(0, 16), allocation(1, 17), allocation(2, 1 << 52)],
        accesses: vec![access(0, [5, 4, 3, 2], 0, 0), access(2, [64, 0, 64, 0], 1, 0)],
        unmaps: vec![1],
        marks: vec!["load".into()],
        objects: 7,
        object_heat: vec![ObjectHeat { page: 2, hotness: 24 }],
    };
    let second = Window {
        instructions: 990,
        threads: vec![ThreadShare { thread: 1, instructions: 990 }],
        allocations: vec![allocation(3, 17)],
        accesses: vec![access(0, [1, 0, 0, 0], 0, 1), access(3, [0, 9, 0, 1], 0, 1)],
        marks: vec!["run".into()],
        ..Window::default()
    };
    vec![first, second]
}
