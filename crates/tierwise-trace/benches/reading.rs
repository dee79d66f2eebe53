//! The speed of reading and writing a trace, in rows of page accesses.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;
use std::io::Cursor;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::writer::{TraceWriter, WriterOptions};
use tierwise_trace::{
    Allocation, Header, PageAccess, PageBacking, ThreadShare, Window, WindowSource, cache,
};

/// A resident set of 256 MiB, of which a window touches three quarters.
const PAGES: u32 = 1 << 16;
const WINDOWS: usize = 8;

fn header() -> Header {
    Header {
        command: vec!["bench".into()],
        host: "generated".into(),
        page_size: 4096,
        window_instructions: 100_000_000,
        cache: cache::DEFAULT,
    }
}

fn windows() -> Vec<Window> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let allocation = |page| Allocation {
        page,
        vpn: u64::from(page) + 0x55_5555,
        kind: PageBacking::Anon,
        order: 0,
        thread: 0,
    };
    (0..WINDOWS)
        .map(|number| {
            let mut window = Window { instructions: 100_000_000, ..Window::default() };
            window.threads.push(ThreadShare { thread: 0, instructions: 100_000_000 });
            if number == 0 {
                window.allocations.extend((0..PAGES).map(allocation));
            }
            for page in 0..PAGES {
                if rng.random_range(0..4) == 0 {
                    continue;
                }
                let loads = rng.random_range(0..1000) / rng.random_range(1..100);
                let stores = loads / 3;
                let [load_misses, store_misses] = [loads / 10, stores / 10];
                let (supervised, thread) = (0, 0);
                window.accesses.push(PageAccess {
                    page,
                    loads,
                    stores,
                    load_misses,
                    store_misses,
                    supervised,
                    thread,
                });
            }
            window
        })
        .collect()
}

fn write(windows: &[Window], level: i32) -> Vec<u8> {
    let options = WriterOptions { level, overwrite: false };
    let mut writer = TraceWriter::new("bench", Vec::new(), &header(), options).unwrap();
    windows.iter().for_each(|window| writer.push(window).unwrap());
    writer.finish().unwrap().0
}

fn reading(criterion: &mut Criterion) {
    let windows = windows();
    let rows: usize = windows.iter().map(|window| window.accesses.len()).sum();
    let file = write(&windows, 12);
    println!("{} rows, {:.2} bytes per row", rows, file.len() as f64 / rows as f64);
    let mut group = criterion.benchmark_group("trace");
    group.throughput(Throughput::Elements(rows as u64)).sample_size(20);
    group.bench_function("read", |bencher| {
        let mut reader = TraceReader::new("bench", Cursor::new(file.clone())).unwrap();
        let mut window = Window::default();
        bencher.iter(|| {
            reader.rewind().unwrap();
            while reader.next_window(&mut window).unwrap() {
                black_box(&window);
            }
        });
    });
    group.bench_function("write at level 3", |bencher| bencher.iter(|| write(&windows, 3)));
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
