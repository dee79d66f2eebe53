//! The recorder, against a program whose every access is known. These tests need qemu-user, gcc and
//! make, and fail with what to install where they are missing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;

use common::{ONE_WINDOW, finish, prepare, recorded};
use tierwise_trace::cache::parse_geometry;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::record::{RecordError, RecordOptions, record};
use tierwise_trace::{PageBacking, TraceError, Window, WindowSource};

#[test]
fn each_load_and_store_is_counted() {
    let trace = recorded("counts", |_| {});
    for vpn in (trace.vpn("area")..).take(100) {
        let counts = trace.only(vpn);
        assert_eq!((counts.stores, counts.loads), (1, 3), "{vpn:#x}");
        // 100 lines stay in a cache of 32 MiB: the first touch alone missed.
        assert_eq!((counts.store_misses, counts.load_misses), (1, 0), "{vpn:#x}");
    }
    let pages: Vec<_> =
        (trace.vpn("area")..).take(100).map(|vpn| trace.allocations_at(vpn)[0]).collect();
    assert!(pages.is_sorted_by(|a, b| a.page + 1 == b.page), "allocated in order of first touch");
    assert!(pages.iter().all(|allocation| allocation.kind == PageBacking::Anon));
    assert!(trace.summary.complete);
    assert_eq!(trace.windows.len(), 1);
}

/// The kernel maps downwards, in the highest gap that has room; the emulator maps upwards.
#[test]
fn kernel_layout_maps_from_the_top() {
    let order = |kernel_layout| {
        let trace = recorded("layout", |options| options.kernel_layout = kernel_layout);
        let allocations: Vec<_> = trace.windows.iter().flat_map(|w| &w.allocations).collect();
        // No other page has so many loads.
        let area = |loads| {
            let is_its = |a: &&&tierwise_trace::Allocation| trace.counts(a.page).loads == loads;
            allocations.iter().filter(is_its).map(|a| a.vpn).collect::<Vec<_>>()
        };
        let areas = [501, 502, 503, 504].map(area);
        assert_eq!(areas.each_ref().map(Vec::len), [512, 1024, 256, 2048]);
        for pages in &areas {
            assert!(pages.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        }
        areas.map(|pages| pages[0])
    };
    let [first, second, third, fourth] = order(true);
    assert_eq!(second + 1024, first, "below the one before");
    assert_eq!(third + 256, first + 512, "at the end of the gap that the first one left");
    assert_eq!(fourth + 2048, second, "the gap has no room for it");
    let [first, second, ..] = order(false);
    assert!(second > first);
}

/// The first object's changes are 255, at most a byte's, and the second one's 2; both have seven
/// windows without any before. By the model's weights that is 1.79 and 2.30: 65 sixteenths.
#[test]
fn hotness_follows_from_changed_reference_counts() {
    let trace = recorded("objects", |options| options.objects = true);
    let area = trace.allocations_at(trace.vpn("area"))[0].page;
    let window = &trace.windows[0];
    assert_eq!(window.objects, 2, "an object without references is none");
    let heat: Vec<_> = window.object_heat.iter().map(|heat| (heat.page, heat.hotness)).collect();
    assert_eq!(heat, [(area, 65)]);
    let trace = recorded("objects", |_| {});
    assert!(trace.windows[0].objects == 0 && trace.windows[0].object_heat.is_empty());
}

#[test]
fn recorder_has_the_weights_of_the_reproduction() {
    let model = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../python/emt/reproduction/src/emt_reproduction/linear_model.json"
    ));
    let objects =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../recorder/plugin/objects.c"));
    let growth = model.split("\"growth\": {").nth(1).unwrap().split('}').next().unwrap();
    for weight in growth.split(", ") {
        let (name, value) = weight.split_once(": ").unwrap();
        let name = name.trim_matches('"');
        let constant = if name == "intercept" { name.to_owned() } else { format!("of_{name}") };
        assert!(objects.contains(&format!("{constant} = {value}")), "{constant} = {value}");
    }
}

#[test]
fn windows_sum_up_and_keep_length() {
    let whole = recorded("counts", |_| {});
    let parts = recorded("counts", |options| options.window_instructions = 10_000);
    assert!(parts.windows.len() > 5, "{}", parts.windows.len());
    let (last, full) = parts.windows.split_last().unwrap();
    // A window ends between two translation blocks, which hold at most 512 instructions.
    for window in full {
        assert!(window.instructions.abs_diff(10_000) <= 512, "{}", window.instructions);
    }
    assert!(last.instructions <= 10_512);
    let sum: u64 = parts.windows.iter().map(|window| window.instructions).sum();
    assert!(sum.abs_diff(full.len() as u64 * 10_000) <= 10_512, "no drift");
    assert_eq!(sum, parts.summary.totals.instructions);
    for vpn in (0..100).map(|i| parts.vpn("area") + i) {
        assert_eq!((parts.only(vpn).stores, parts.only(vpn).loads), (1, 3));
    }
    // Addresses differ from run to run, and with them a few instructions of the C library.
    assert!(whole.summary.totals.instructions.abs_diff(sum) < sum / 20);
}

#[test]
fn boundary_access_counts_on_both_sides() {
    let trace = recorded("crossing", |_| {});
    let first = trace.only(trace.vpn("area"));
    let second = trace.only(trace.vpn("area") + 1);
    // The first page: the store across its lines 0 and 1, and the one into its last line.
    assert_eq!((first.stores, first.store_misses), (2, 3));
    assert_eq!((second.stores, second.store_misses), (1, 1));
}

#[test]
fn a_page_ends_with_its_mapping() {
    let trace = recorded("unmap", |_| {});
    for vpn in (trace.vpn("area")..).take(10) {
        let allocations = trace.allocations_at(vpn);
        assert_eq!(allocations.len(), 2, "{allocations:?}");
        assert!(trace.is_unmapped(allocations[0].page) && !trace.is_unmapped(allocations[1].page));
        assert!(allocations.iter().all(|allocation| trace.counts(allocation.page).stores == 1));
    }
}

#[test]
fn window_ends_when_memory_is_freed() {
    let trace = recorded("reuse", |options| options.window_instructions = 20_000);
    let page = |vpn| trace.allocations_at(vpn)[0].page;
    let (old, new) = (page(trace.vpn("old")), page(trace.vpn("new")));
    let freed = trace.windows.iter().position(|window| window.unmaps.contains(&old)).unwrap();
    let allocates = |window: &Window| window.allocations.iter().any(|a| a.page == new);
    let allocated = trace.windows.iter().position(allocates).unwrap();
    assert!(freed < allocated, "freed in window {freed}, allocated in {allocated}");
    assert!(trace.windows[freed].instructions < 20_000, "it ends early");
    // In a window that is too long for that the order is lost.
    let one = recorded("reuse", |_| {});
    assert_eq!(one.windows.len(), 1);
}

#[test]
fn discarded_memory_is_new_when_touched() {
    let trace = recorded("discard", |_| {});
    let allocations: Vec<usize> =
        (trace.vpn("area")..).take(10).map(|vpn| trace.allocations_at(vpn).len()).collect();
    assert_eq!(allocations, [2, 2, 1, 1, 1, 1, 1, 1, 1, 1]);
    let ended: Vec<bool> = (trace.vpn("area")..)
        .take(10)
        .map(|vpn| trace.is_unmapped(trace.allocations_at(vpn)[0].page))
        .collect();
    assert_eq!(ended, [true, true, true, true, false, false, false, false, false, false]);
}

#[test]
fn moved_pages_stay_the_same_pages() {
    let trace = recorded("move", |_| {});
    for i in 0..8 {
        let page = trace.only(trace.vpn("from") + i);
        assert_eq!((page.stores, page.loads), (1, 1), "stored before the move, loaded after it");
        assert_eq!(trace.allocations_at(trace.vpn("to") + i), []);
    }
}

#[test]
fn the_heap_gives_pages_back() {
    let trace = recorded("break", |_| {});
    let ended: Vec<bool> = (trace.vpn("area")..)
        .take(4)
        .map(|vpn| trace.is_unmapped(trace.allocations_at(vpn)[0].page))
        .collect();
    assert_eq!(ended, [false, false, true, true]);
}

#[test]
fn mapped_files_are_file_until_private_write() {
    let trace = recorded("file", |_| {});
    let private = trace.vpn("private");
    let kinds: Vec<PageBacking> =
        trace.allocations_at(private).iter().map(|allocation| allocation.kind).collect();
    assert_eq!(kinds, [PageBacking::File, PageBacking::Anon], "the store copied the page");
    assert!(trace.is_unmapped(trace.allocations_at(private)[0].page));
    for vpn in private + 1..private + 4 {
        assert_eq!(trace.allocations_at(vpn)[0].kind, PageBacking::File);
        assert_eq!((trace.only(vpn).loads, trace.only(vpn).stores), (1, 0));
    }
    for vpn in (trace.vpn("shared")..).take(4) {
        assert_eq!(trace.allocations_at(vpn)[0].kind, PageBacking::File);
        assert_eq!((trace.only(vpn).loads, trace.only(vpn).stores), (0, 1));
    }
}

#[test]
fn system_calls_reach_cache_and_buffers() {
    let trace = recorded("read", |_| {});
    let buffer = trace.vpn("buffer");
    // 64 lines stored by pread, and one line loaded by writev.
    assert_eq!((trace.only(buffer).stores, trace.only(buffer).loads), (64, 1));
    assert_eq!((trace.only(buffer + 1).stores, trace.only(buffer + 1).loads), (64, 1));
    // 100 bytes are two lines.
    assert_eq!((trace.only(buffer + 2).stores, trace.only(buffer + 2).loads), (2, 0));
    // The loader reads libraries through system calls too; the file read last is the test's.
    let allocations = trace.windows.iter().flat_map(|window| &window.allocations);
    let last = allocations
        .filter(|allocation| allocation.vpn >= 1 << 52)
        .map(|b| b.vpn >> 28)
        .max()
        .unwrap();
    let page = |i: u64| trace.only((last << 28) + i);
    assert_eq!(trace.allocations_at(last << 28)[0].kind, PageBacking::File);
    assert_eq!((page(0).supervised, page(0).loads, page(0).stores), (1, 2, 0));
    assert_eq!((page(1).supervised, page(1).loads, page(1).stores), (1, 64, 0));
    assert_eq!((page(2).supervised, page(2).loads, page(2).stores), (1, 64, 0));
    assert_eq!(trace.allocations_at((last << 28) + 3), []);
}

#[test]
fn threads_are_distinguished_without_loss() {
    let trace = recorded("threads", |options| options.window_instructions = 50_000);
    let mut owners = Vec::new();
    for region in ["first", "second"] {
        for vpn in (trace.vpn(region)..).take(20) {
            assert_eq!(trace.only(vpn).stores, 5000, "{region} {vpn:#x}");
            owners.push(trace.only(vpn).thread);
        }
    }
    assert!(owners[..20].iter().all(|&thread| thread == owners[0]), "{owners:?}");
    assert!(owners[20..].iter().all(|&thread| thread == owners[20]), "{owners:?}");
    let mut both = [owners[0], owners[20]];
    both.sort_unstable();
    assert_eq!(both, [1, 2], "thread 0 is the main one");
    for window in &trace.windows {
        let sum: u64 = window.threads.iter().map(|share| share.instructions).sum();
        assert_eq!(sum, window.instructions);
    }
}

#[test]
fn replacement_threads_are_threads_of_their_own() {
    let trace = recorded("relay", |_| {});
    for (vpn, thread) in (trace.vpn("area")..).zip(1..=10) {
        let page = trace.only(vpn);
        assert_eq!((page.stores, page.thread), (50, thread));
    }
    let threads: Vec<u16> = trace.windows[0].threads.iter().map(|share| share.thread).collect();
    assert_eq!(threads, (0..=10).collect::<Vec<_>>());
    let sum: u64 = trace.windows[0].threads.iter().map(|share| share.instructions).sum();
    assert_eq!(sum, trace.windows[0].instructions);
}

#[test]
fn a_forked_child_is_not_recorded() {
    let trace = recorded("fork", |_| {});
    for vpn in (trace.vpn("area")..).take(4) {
        assert_eq!(trace.only(vpn).stores, 1);
    }
    assert!(trace.summary.complete);
}

#[test]
fn sweep_beyond_cache_always_misses() {
    let small = recorded("sweep", |options| options.llc = parse_geometry("64KiB/16").unwrap());
    let large = recorded("sweep", |_| {});
    for (trace, misses) in [(small, 128), (large, 64)] {
        for vpn in (trace.vpn("area")..).take(256) {
            let page = trace.only(vpn);
            assert_eq!((page.loads, page.load_misses), (128, misses), "{vpn:#x}");
        }
    }
}

#[test]
fn closed_descriptors_do_not_end_recording() {
    let trace = recorded("close", |_| {});
    assert!(trace.summary.complete);
    for vpn in (trace.vpn("area")..).take(5) {
        assert_eq!(trace.only(vpn).stores, 1);
    }
}

#[test]
fn recording_limit_ends_the_program() {
    let trace = recorded("wait", |options| {
        options.window_instructions = 10_000;
        options.max_instructions = Some(20_000);
    });
    assert_eq!(trace.windows.len(), 2);
    assert!(!trace.summary.status.success(), "{:?}", trace.summary.status);
    assert!(trace.summary.totals.instructions < ONE_WINDOW);
}

/// The test writes marks and kills the program as it follows the growing file.
#[test]
fn marks_cut_windows_of_growing_trace() {
    let (directory, mut options) = prepare("spin");
    let fifo = directory.path().join("marks.fifo");
    options.marks = Some(fifo.clone());
    options.window_instructions = 1_000_000;
    let send = |line: &str| {
        let mut fifo = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        fifo.write_all(line.as_bytes()).unwrap();
    };
    let mut tracker = None;
    let (mut marks, mut operations) = (Vec::new(), 0);
    let summary = record(&options, |_| {
        let reader = tracker.get_or_insert_with(|| {
            send("load\n");
            TraceReader::open(&options.out).unwrap()
        });
        let mut window = Window::default();
        match reader.next_window(&mut window) {
            Ok(more) => assert!(more, "no end while the program runs"),
            Err(error) => panic!("{error}"),
        }
        let before = operations;
        operations += window.operations;
        for mark in window.marks {
            send(if mark == "load" {
                "run operations=7\n"
            } else {
                "ops 5\nnonsense operations=x\n"
            });
            marks.push(mark);
        }
        if before < 12 && operations == 12 {
            let report = std::fs::read_to_string(directory.path().join("report")).unwrap();
            let pid = report.lines().find_map(|line| line.strip_prefix("pid ")).unwrap();
            let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
    })
    .unwrap();
    assert_eq!(marks, ["load", "run"]);
    assert_eq!(operations, 12);
    assert_eq!(summary.status.signal(), Some(9));
    assert!(!summary.complete);
    assert_eq!(summary.refused_marks.len(), 1, "{:?}", summary.refused_marks);
    assert!(!fifo.exists());
    let trace = finish(directory, &options.out, summary);
    assert_eq!(trace.windows.len() as u64, trace.summary.totals.windows);
    assert!(trace.windows[0].marks.is_empty(), "a mark begins the window after it was made");
}

#[test]
fn mistakes_are_reported_with_the_remedy() {
    let (directory, mut options) = prepare("counts");
    options.out = directory.path().join("report");
    std::fs::write(&options.out, "precious").unwrap();
    let error = record(&options, |_| {}).unwrap_err().to_string();
    assert!(error.contains("--force"), "{error}");
    assert_eq!(std::fs::read(&options.out).unwrap(), b"precious");

    options.out = directory.path().join("new.twt");
    options.plugin = Some("/nowhere/plugin.so".into());
    let error = record(&options, |_| {}).unwrap_err().to_string();
    assert!(error.contains("/nowhere/plugin.so") && error.contains("make recorder"), "{error}");

    options.plugin = None;
    options.qemu = Some("/nowhere/qemu".into());
    let error = record(&options, |_| {}).unwrap_err().to_string();
    assert!(error.contains("apt-get install qemu-user"), "{error}");

    // An emulator that ends at once leaves no empty trace behind.
    options.qemu = Some("/bin/false".into());
    let error = record(&options, |_| {}).unwrap_err().to_string();
    assert!(error.contains("before the recording started"), "{error}");
    assert!(!options.out.exists());

    options.qemu = None;
    options.window_instructions = 0;
    let error = record(&options, |_| {}).unwrap_err().to_string();
    assert!(error.contains("1 to 2147483647"), "{error}");
}

#[test]
fn recording_without_window_replaces_nothing() {
    let (_directory, mut options) = prepare("counts");
    options.command = ["/bin/sh", "-c", "kill -KILL $$"].map(Into::into).to_vec();
    options.overwrite = true;
    let summary = record(&options, |_| {}).unwrap();
    assert_eq!((summary.totals.windows, summary.complete), (0, false));
    assert!(!options.out.exists());
    std::fs::write(&options.out, "old").unwrap();
    record(&options, |_| {}).unwrap();
    assert_eq!(std::fs::read_to_string(&options.out).unwrap(), "old");
}

#[test]
fn killed_program_leaves_complete_trace() {
    let (directory, mut options) = prepare("abort");
    options.window_instructions = 10_000;
    let summary = record(&options, |_| {}).unwrap();
    assert_eq!(summary.status.signal(), Some(6), "{:?}", summary.status);
    let mut reader = TraceReader::open(&options.out).unwrap();
    let mut window = Window::default();
    let result: Result<Vec<u64>, TraceError> = std::iter::from_fn(|| {
        reader.next_window(&mut window).map(|more| more.then_some(window.instructions)).transpose()
    })
    .collect();
    assert!(result.unwrap().len() > 5);
    drop(directory);
}

/// Writes an executable file.
fn executable(directory: &std::path::Path, name: &str, content: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    path.to_string_lossy().into_owned()
}

/// Puts a shell in front of the command, which the script executes.
fn behind_shell(options: &mut RecordOptions, script: &str) {
    let shell = ["/bin/sh", "-c", script, "shell"].map(Into::into);
    options.command.splice(0..0, shell);
}

#[test]
fn executed_program_is_recorded_in_place() {
    let (directory, mut options) = prepare("counts");
    // Through a script, whose interpreter the kernel finds, and env, which first tries directories
    // without the script.
    let script = executable(directory.path(), "script", b"#!/bin/sh\nexec \"$@\"\n");
    let search = format!("PATH=/no-such-folder:{}", directory.path().display());
    let script = std::path::Path::new(&script).file_name().unwrap().to_string_lossy().into_owned();
    behind_shell(&mut options, &format!("exec /usr/bin/env '{search}' {script} \"$@\""));
    let summary = record(&options, |_| {}).unwrap();
    assert!(summary.complete && summary.status.success(), "{summary:?}");
    assert_eq!(summary.children, 0);
    let names = summary.followed.iter().map(|p| p.file_name().unwrap().to_string_lossy());
    assert_eq!(names.collect::<Vec<_>>(), ["env", "sh", "known"]);
    let trace = finish(directory, &options.out, summary);
    for vpn in (trace.vpn("area")..).take(100) {
        let allocations = trace.allocations_at(vpn);
        let (last, earlier) = allocations.split_last().unwrap();
        let counts = trace.counts(last.page);
        assert_eq!((counts.stores, counts.loads), (1, 3), "{vpn:#x}");
        assert!(!trace.is_unmapped(last.page));
        assert!(earlier.iter().all(|allocation| trace.is_unmapped(allocation.page)), "{vpn:#x}");
    }
}

#[test]
fn refused_exec_is_the_programs_business() {
    let (directory, mut options) = prepare("counts");
    let none = executable(directory.path(), "nothing", b"neither ELF nor script");
    std::fs::set_permissions(&none, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    behind_shell(&mut options, &format!("exec '{none}'"));
    let summary = record(&options, |_| {}).unwrap();
    // A shell's exit code when it may not execute a file.
    assert_eq!(summary.status.code(), Some(126));
    assert!(summary.complete && summary.followed.is_empty());
}

#[test]
fn unfollowed_exec_fails_and_keeps_recording() {
    let (directory, mut options) = prepare("counts");
    let mut elf = vec![0u8; 64];
    elf[..5].copy_from_slice(b"\x7fELF\x02");
    // RISC-V: the recorder runs on no such machine.
    elf[18] = 243;
    let foreign = executable(directory.path(), "foreign", &elf);
    behind_shell(&mut options, &format!("exec '{foreign}'"));
    let error = record(&options, |_| {}).unwrap_err();
    let RecordError::Kept { error, out, windows } = error else { panic!("{error}") };
    assert!(matches!(&*error, RecordError::GaveUp) && out == options.out, "{error}");
    assert_eq!(common::windows_of(&out).len() as u64, windows);
}

#[test]
fn failed_recording_keeps_old_trace_and_part() {
    let (directory, mut options) = prepare("counts");
    record(&options, |_| {}).unwrap();
    let old = std::fs::read(&options.out).unwrap();
    options.overwrite = true;
    let started = RecordOptions { qemu: Some("/bin/false".into()), ..options.clone() };
    assert!(matches!(record(&started, |_| {}), Err(RecordError::NotStarted { .. })));
    assert_eq!(std::fs::read(&options.out).unwrap(), old);
    let mut elf = vec![0u8; 64];
    elf[..5].copy_from_slice(b"\x7fELF\x02");
    elf[18] = 243;
    let foreign = executable(directory.path(), "foreign", &elf);
    behind_shell(&mut options, &format!("exec '{foreign}'"));
    let error = record(&options, |_| {}).unwrap_err();
    let RecordError::Kept { out, windows, .. } = error else { panic!("{error}") };
    assert_eq!(std::fs::read(&options.out).unwrap(), old);
    assert!(out.to_string_lossy().ends_with(".part"), "{out:?}");
    assert_eq!(common::windows_of(&out).len() as u64, windows);
}

#[test]
fn forked_processes_are_counted_and_not_recorded() {
    let (_directory, mut options) = prepare("counts");
    behind_shell(&mut options, "\"$@\"; \"$@\"; :");
    let summary = record(&options, |_| {}).unwrap();
    assert!(summary.complete, "{summary:?}");
    assert_eq!((summary.children, summary.followed.len()), (2, 0));
}
