//! The file format: written data are read back, and damage anywhere is detected.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::traces::{access, file_of, header, open, read_all, sample, windows};
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::Write;

use tierwise_trace::format::MAGIC;
use tierwise_trace::format::{PREAMBLE_BYTES, window_codec};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::writer::{TraceWriter, WriterOptions, write_trace};
use tierwise_trace::{TraceError, Window, WindowSource};

proptest! {
    #[test]
    fn what_is_written_is_read_back(windows in windows()) {
        let mut reader = open(&file_of(&windows)).unwrap();
        prop_assert_eq!(reader.header(), &header());
        let (read, error) = read_all(&mut reader);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(&read, &windows);
        reader.rewind().unwrap();
        prop_assert_eq!(read_all(&mut reader).0, windows);
    }

    #[test]
    fn arbitrary_window_data_never_panics(bytes in vec(any::<u8>(), 0..400), pages in 0u64..50) {
        let mut window = Window::default();
        let _ = window_codec::decode(&bytes, pages, &mut window);
        let rows = window.allocations.len() + window.accesses.len() + window.unmaps.len();
        prop_assert!(rows <= bytes.len());
    }
}

#[test]
fn cut_trace_is_reported_with_usable_windows() {
    let windows = sample();
    let file = file_of(&windows);
    let mut usable = Vec::new();
    for length in 0..file.len() {
        let error = match open(&file[..length]) {
            Err(error) => error,
            Ok(mut reader) => {
                let (read, error) = read_all(&mut reader);
                assert_eq!(read, windows[..read.len()]);
                usable.push(read.len());
                error.expect("an end frame is missing")
            }
        };
        let TraceError::Corrupt { offset, reason, good_windows, .. } = error else {
            panic!("{error}");
        };
        assert!(offset <= length as u64, "offset {offset} of {length}");
        assert!(reason.contains("the trace ends here"), "{reason}");
        assert!(offset > 0 || length < PREAMBLE_BYTES as usize);
        assert_eq!(good_windows, usable.last().copied().unwrap_or(0) as u64);
    }
    assert!(usable.is_sorted() && usable.contains(&0) && usable.contains(&2));
}

#[test]
fn any_changed_byte_is_noticed() {
    let windows = sample();
    let file = file_of(&windows);
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x20;
        let error = match open(&damaged) {
            Err(error) => error,
            Ok(mut reader) => {
                let (read, error) = read_all(&mut reader);
                assert_eq!(read, windows[..read.len()], "byte {at}");
                error.unwrap_or_else(|| panic!("byte {at} was changed unnoticed"))
            }
        };
        match error {
            TraceError::Corrupt { offset, .. } => {
                assert!(offset <= at as u64, "byte {at}, error at {offset}");
            }
            TraceError::NotATrace { .. } => assert!(at < MAGIC.len(), "byte {at}"),
            error => panic!("{error}"),
        }
    }
}

#[test]
fn bytes_after_the_end_are_noticed() {
    let mut file = file_of(&sample());
    file.push(0);
    let error = read_all(&mut open(&file).unwrap()).1.unwrap().to_string();
    assert!(error.contains("after the end"), "{error}");
}

#[test]
fn broken_last_window_closes_after_previous() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full.twt");
    let mut writer = TraceWriter::create(&path, &header(), WriterOptions::default()).unwrap();
    let windows = sample();
    writer.push(&windows[0]).unwrap();
    // As a full disk leaves it: the head of a frame and some of its data.
    let mut disk = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    disk.write_all(&[b'W'; 40]).unwrap();
    let (totals, bytes) = writer.close().unwrap();
    assert_eq!(totals.windows, 1);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
    let (read, error) = read_all(&mut TraceReader::open(&path).unwrap());
    assert!(error.is_none() && read == windows[..1], "{error:?}");
}

#[test]
fn a_growing_trace_is_followed() {
    let windows = sample();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("growing.twt");
    let mut writer = TraceWriter::create(&path, &header(), WriterOptions::default()).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    let mut window = Window::default();
    for expected in &windows {
        assert!(reader.next_window(&mut window).is_err(), "nothing there yet");
        writer.push(expected).unwrap();
        assert!(reader.next_window(&mut window).unwrap());
        assert_eq!(&window, expected);
    }
    assert!(reader.next_window(&mut window).is_err());
    writer.finish().unwrap();
    assert!(!reader.next_window(&mut window).unwrap());
}

#[test]
fn windows_that_break_a_rule_are_refused() {
    let good = sample();
    let refused = |change: fn(&mut Window), expected: &str| {
        let mut writer =
            TraceWriter::new("test", Vec::new(), &header(), WriterOptions::default()).unwrap();
        writer.push(&good[0]).unwrap();
        let mut window = good[1].clone();
        change(&mut window);
        let message = writer.push(&window).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("window 1"), "{message}");
    };
    refused(|w| w.allocations[0].page = 7, "page 7 is allocated where page 3 is next");
    refused(|w| w.allocations[0].order = 40, "order 40");
    refused(|w| w.accesses[1].page = 4, "page 4 is in accesses and was never allocated");
    refused(|w| w.accesses.swap(0, 1), "does not ascend");
    refused(|w| w.accesses.insert(1, access(1, [0; 4], 0, 0)), "page 1 is touched after its unmap");
    refused(|w| w.unmaps.push(1), "page 1 is unmapped a second time");
    refused(|w| w.threads.push(w.threads[0]), "threads of a window must ascend");
}

#[test]
fn other_files_and_other_versions_are_refused() {
    let refusal = |bytes: &[u8]| open(bytes).err().unwrap().to_string();
    assert!(refusal(b"\x7fELF and more bytes").contains("not a trace"));
    let mut newer = file_of(&sample());
    newer[8] = 9;
    let message = refusal(&newer);
    assert!(message.contains("version 9") && message.contains("knows version 1"), "{message}");
}

#[test]
fn files_are_not_replaced_unless_asked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.twt");
    std::fs::write(&path, "precious").unwrap();
    let mut source = open(&file_of(&sample())).unwrap();
    let refused = write_trace(&path, &mut source, WriterOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("--force"), "{refused}");
    assert!(TraceWriter::create(&path, &header(), WriterOptions::default()).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let options = WriterOptions { overwrite: true, ..WriterOptions::default() };
    let totals = write_trace(&path, &mut source, options).unwrap();
    assert_eq!(totals.windows, 2);
    assert_eq!(read_all(&mut TraceReader::open(&path).unwrap()).0, sample());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing left beside it");
}
