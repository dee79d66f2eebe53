//! Targets that read arbitrary bytes as a trace: no bytes cause a panic, or take memory out of
//! proportion to their number.
//!
//! Bytes that are read as a whole file seldom pass the checksums. They are therefore also read as
//! the content of frames with correct checksums. The first byte then sets how the rest is cut into
//! windows.
use std::io::{Cursor, Write};

use tierwise_trace::cut::{Cut, Merge, WindowSelection};
use tierwise_trace::format::frame::{FrameKind, Head};
use tierwise_trace::format::{MAGIC, VERSION};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::summary::summarize;
use tierwise_trace::{Window, WindowSource};

const HEADER: &[u8] = br#"{"command":["fuzz"],"host":"","page_size":4096,"window_instructions":1,
    "cache":{"size_bytes":1024,"ways":1,"line_bytes":64}}"#;

fn frame(kind: FrameKind, raw: &[u8], file: &mut Vec<u8>) {
    let data = zstd::bulk::compress(raw, 1).expect("memory to memory");
    let head = Head::new(kind, raw.len(), &data).expect("inputs are short");
    file.write_all(&head.to_bytes()).expect("memory");
    file.write_all(&data).expect("memory");
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend(VERSION.to_le_bytes());
    frame(FrameKind::Header, HEADER, &mut file);
    let (&cuts, mut rest) = bytes.split_first().unwrap_or((&0, &[]));
    let windows = usize::from(cuts % 4) + 1;
    for left in (1..=windows).rev() {
        let (window, after) = rest.split_at(rest.len() / left);
        frame(FrameKind::Window, window, &mut file);
        rest = after;
    }
    file
}

fn open(file: &[u8]) -> Option<TraceReader<Cursor<&[u8]>>> {
    TraceReader::new("fuzz", Cursor::new(file)).ok()
}

fn drain(source: &mut dyn WindowSource) {
    let mut window = Window::default();
    while source.next_window(&mut window).is_ok_and(|more| more) {}
}

fn read(file: &[u8]) {
    let Some(mut reader) = open(file) else { return };
    drain(&mut reader);
    if reader.rewind().is_ok() {
        let _ = summarize(&mut reader, 5);
    }
    if let Some(reader) = open(file) {
        drain(&mut Merge::new(Cut::new(reader, WindowSelection::Windows(1..3)), 2));
    }
}

/// Reads, summarises and cuts the bytes as a file and as the content of well-formed frames.
pub(crate) fn reader(bytes: &[u8]) {
    read(bytes);
    read(&framed(bytes));
}
