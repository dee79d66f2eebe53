//! Programs that map and unmap while they run, and the recorded ones.

use std::path::{Path, PathBuf};

use tierwise_trace::writer::{TraceWriter, WriterOptions};
use tierwise_trace::{Allocation, Header, PageAccess, PageBacking, ThreadShare, Window};

/// A program that maps memory in every window and unmaps some of it.
#[derive(Debug, Clone)]
pub struct Growing {
    pub windows: u32,
    /// Pages mapped in a window, at most.
    pub allocations: u32,
    /// Pages unmapped for each that is mapped: above one it shrinks.
    pub unmapped: f64,
    pub seed: u64,
}

/// The next number of a linear congruential generator (Knuth's MMIX), below `below`.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below.max(1)
}

/// Writes the program's trace to `path`. Returns the number of pages that it maps.
pub fn growing_trace(program: &Growing, path: &Path) -> u64 {
    let header = Header {
        command: vec!["growing".to_owned()],
        host: "a test".to_owned(),
        page_size: 4096,
        window_instructions: 1_000_000,
        cache: tierwise_trace::cache::DEFAULT,
    };
    let options = WriterOptions { level: 1, overwrite: true };
    // An earlier run may have left the file.
    let _ = std::fs::remove_file(path);
    let mut writer = TraceWriter::create(path, &header, options).unwrap();
    let (mut present, mut next, mut state) = (Vec::new(), 0u32, program.seed);
    let mut stalled = 0.0;
    for _ in 0..program.windows {
        let allocations = 1 + draw(&mut state, program.allocations.into()) as u32;
        writer
            .push(&window(allocations, &mut present, &mut next, &mut stalled, program, &mut state))
            .unwrap();
    }
    writer.finish().unwrap();
    next.into()
}

fn window(
    allocations: u32,
    present: &mut Vec<u32>,
    next: &mut u32,
    stalled: &mut f64,
    program: &Growing,
    state: &mut u64,
) -> Window {
    let mut window = Window { instructions: 1_000_000, ..Window::default() };
    window.threads.push(ThreadShare { thread: 0, instructions: window.instructions });
    for page in *next..*next + allocations {
        let allocation =
            Allocation { page, vpn: page.into(), kind: PageBacking::Anon, order: 0, thread: 0 };
        window.allocations.push(allocation);
        present.push(page);
    }
    *next += allocations;
    for &page in present.iter() {
        // Pages just mapped are touched, of the rest a third.
        if page + allocations >= *next || draw(state, 3) == 0 {
            let misses = 1 + draw(state, 40) as u32;
            window.accesses.push(PageAccess {
                page,
                loads: misses,
                stores: misses,
                load_misses: misses,
                store_misses: misses / 2,
                supervised: 0,
                thread: 0,
            });
        }
    }
    window.accesses.sort_unstable_by_key(|access| access.page);
    *stalled += f64::from(allocations) * program.unmapped;
    while *stalled >= 1.0 && present.len() > 1 {
        *stalled -= 1.0;
        let which = draw(state, present.len() as u64) as usize;
        window.unmaps.push(present.swap_remove(which));
    }
    window.unmaps.sort_unstable();
    window
}

/// Every shipped recording, by name.
pub fn traces() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut traces: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "twt")).collect();
    traces.sort();
    assert!(!traces.is_empty());
    traces
}
