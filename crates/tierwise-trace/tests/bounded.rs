//! A file's size bounds the memory that its readers allocate.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "an allocator that counts can be written in no other way")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Cursor;

use common::traces::{access, file_of, header, read_all};
use proptest::prelude::*;
use tierwise_trace::cut::{Cut, Merge, WindowSelection};
use tierwise_trace::format::frame::{FrameKind, Head, max_unpacked};
use tierwise_trace::format::{MAGIC, VERSION, varint};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::summary::summarize;
use tierwise_trace::{Allocation, PageBacking, TraceError, Window, WindowSource};

/// Bytes that a reader may allocate for each byte that a file may unpack to: the costliest entry is
/// an allocation of 3 bytes, which takes 24 in a window and 56 in a summary, whose list doubles as
/// it grows.
const FACTOR: u64 = 64;

/// Buffers that every reader has: a file's, and the copies of a header.
const FLOOR: u64 = 64 << 10;

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static PEAK: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which records the maximum that each thread holds.
struct Counting;

fn grow(bytes: usize) {
    // A thread that ends has no counter any more, and does not matter here.
    let _ = NOW.try_with(|now| {
        now.set(now.get().saturating_add(bytes as u64));
        PEAK.with(|peak| peak.set(peak.get().max(now.get())));
    });
}

fn shrink(bytes: usize) {
    let _ = NOW.try_with(|now| now.set(now.get().saturating_sub(bytes as u64)));
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: `memory` came from `alloc` above, and so from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the maximum of bytes that this thread held while it ran `work`, beyond those that it
/// held before.
fn peak(work: impl FnOnce()) -> u64 {
    let before = NOW.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    work();
    PEAK.with(Cell::get) - before
}

fn append(kind: FrameKind, raw: &[u8], file: &mut Vec<u8>) {
    let data = zstd::bulk::compress(raw, 1).unwrap();
    file.extend(Head::new(kind, raw.len(), &data).unwrap().to_bytes());
    file.extend(data);
}

fn start(header: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend(VERSION.to_le_bytes());
    append(FrameKind::Header, header, &mut file);
    file
}

/// A window whose lists have these lengths and whose every number is 0.
fn zeros(pages: u64, lengths: [u64; 5], bytes: usize) -> Vec<u8> {
    let mut raw = Vec::new();
    [0, 0, pages].into_iter().chain(lengths).for_each(|value| varint::put(&mut raw, value));
    raw.resize(raw.len() + bytes, 0);
    raw
}

fn read(file: &[u8]) -> Result<(), TraceError> {
    let mut reader = TraceReader::new("test", Cursor::new(file))?;
    let mut result = summarize(&mut reader, 5).map(drop);
    let reader = TraceReader::new("test", Cursor::new(file))?;
    let mut cut = Merge::new(Cut::new(reader, WindowSelection::Windows(1..u64::MAX)), 1000);
    let mut window = Window::default();
    while result.is_ok() {
        match cut.next_window(&mut window) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => result = Err(error),
        }
    }
    result
}

fn assert_bounded(file: &[u8]) -> Result<(), TraceError> {
    let mut result = Ok(());
    let peak = peak(|| result = read(file));
    let allowed = FLOOR + FACTOR * max_unpacked(file.len() as u64);
    assert!(peak <= allowed, "{peak} bytes held for a file of {}; allowed {allowed}", file.len());
    result
}

fn refused(file: &[u8]) {
    let offset = match assert_bounded(file) {
        Err(TraceError::Corrupt { offset, reason, .. }) if reason.contains("unpack to") => offset,
        other => panic!("{other:?}"),
    };
    assert!(offset < file.len() as u64);
}

#[test]
fn crowded_small_file_is_refused_unpacked() {
    const ALLOCATIONS: usize = 4_000_000;
    let mut file = start(&serde_json::to_vec(&header()).unwrap());
    append(
        FrameKind::Window,
        &zeros(0, [0, ALLOCATIONS as u64, 0, 0, 0], 3 * ALLOCATIONS),
        &mut file,
    );
    assert!(file.len() < 8192, "{}", file.len());
    refused(&file);
}

#[test]
fn small_windows_share_one_bound() {
    const ALLOCATIONS: usize = 40_000;
    let mut file = start(&serde_json::to_vec(&header()).unwrap());
    for window in 0..100 {
        let pages = window * ALLOCATIONS as u64;
        append(
            FrameKind::Window,
            &zeros(pages, [0, ALLOCATIONS as u64, 0, 0, 0], 3 * ALLOCATIONS),
            &mut file,
        );
    }
    refused(&file);
}

#[test]
fn a_long_header_is_bounded() {
    let mut text = serde_json::to_string(&header()).unwrap();
    text.insert_str(text.len() - 1, &" ".repeat(4 << 20));
    refused(&start(text.as_bytes()));
}

/// Equal rows, as a program that clears its memory has them: they compress a thousandfold.
fn regular(windows: u32, allocations: u32) -> Vec<Window> {
    let window = |w: u32| {
        let pages = w * allocations..(w + 1) * allocations;
        let allocated = |page| Allocation {
            page,
            vpn: page.into(),
            kind: PageBacking::Anon,
            order: 0,
            thread: 0,
        };
        Window {
            instructions: 1000,
            allocations: pages.clone().map(allocated).collect(),
            accesses: pages.map(|page| access(page, [1, 0, 0, 0], 1, 1)).collect(),
            ..Window::default()
        }
    };
    (0..windows).map(window).collect()
}

#[test]
fn written_traces_stay_within_the_bound() {
    for windows in [regular(1, 300_000), regular(200, 2000)] {
        let file = file_of(&windows);
        assert_bounded(&file).unwrap();
        let mut reader = TraceReader::new("test", Cursor::new(&file)).unwrap();
        let (read, error) = read_all(&mut reader);
        assert!(error.is_none(), "{error:?}");
        assert!(read == windows, "what was written is read back");
    }
}

proptest! {
    #[test]
    fn arbitrary_frames_are_bounded(
        windows in proptest::collection::vec(
            (proptest::array::uniform5(0u64..3000), 0usize..60_000, any::<u8>()), 1..6),
    ) {
        let mut file = start(&serde_json::to_vec(&header()).unwrap());
        for (lengths, bytes, fill) in windows {
            let mut raw = zeros(0, lengths, bytes);
            let filled = raw.len() - bytes.min(raw.len());
            raw[filled..].fill(fill % 2);
            append(FrameKind::Window, &raw, &mut file);
        }
        // The result of reading it does not matter here.
        let _ = assert_bounded(&file);
    }
}
