//! The size of a trace bounds the memory and time that a command takes for it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tierwise_trace::format::frame::max_unpacked;
use tierwise_trace::writer::{TraceWriter, WriterOptions};
use tierwise_trace::{
    Allocation, CacheModel, Header, PageAccess, PageBacking, ThreadShare, Window,
};

use crate::common::{Directory, refused, text};

fn header() -> Header {
    Header {
        command: vec!["program".into()],
        host: "a test".into(),
        page_size: 4096,
        window_instructions: 1000,
        cache: CacheModel { size_bytes: 32 << 20, ways: 16, line_bytes: 64 },
    }
}

fn allocations(pages: std::ops::Range<u32>, order: u8) -> Vec<Allocation> {
    let allocated = |page: u32| Allocation {
        page,
        vpn: u64::from(page) << order,
        kind: PageBacking::Anon,
        order,
        thread: 0,
    };
    pages.map(allocated).collect()
}

fn accesses(pages: std::ops::Range<u32>) -> Vec<PageAccess> {
    let touched = |page| PageAccess {
        page,
        loads: 2,
        stores: 1,
        load_misses: 1,
        store_misses: 1,
        supervised: 0,
        thread: 0,
    };
    pages.map(touched).collect()
}

fn window(pages: std::ops::Range<u32>, instructions: u64) -> Window {
    Window {
        instructions,
        allocations: allocations(pages.clone(), 0),
        accesses: accesses(pages),
        threads: vec![ThreadShare { thread: 0, instructions }],
        ..Window::default()
    }
}

/// Traces that claim as much as their bytes allow, each of a different resource.
fn hostile() -> Vec<(&'static str, Vec<Window>)> {
    let many_windows = (0..20_000).map(|w| window(if w == 0 { 0..1 } else { 0..0 }, 1000));
    let again = Window { allocations: Vec::new(), ..window(0..1000, 1000) };
    let mut marks = window(0..1, 1000);
    marks.marks = vec!["a".into(); 100_000];
    vec![
        ("pages", vec![window(0..50_000, 1000)]),
        ("huge", vec![Window { allocations: allocations(0..1000, 9), ..window(0..1000, 1000) }]),
        ("windows", many_windows.collect()),
        ("accesses", [vec![window(0..1000, 1000)], vec![again; 50]].concat()),
        ("instructions", vec![window(0..100, u64::MAX)]),
        ("nothing", vec![Window::default()]),
        ("untouched", vec![Window { allocations: allocations(0..50_000, 0), ..Window::default() }]),
        ("marks", vec![marks]),
    ]
}

fn write(path: &Path, windows: &[Window]) {
    let mut writer = TraceWriter::create(path, &header(), WriterOptions::default()).unwrap();
    windows.iter().for_each(|window| writer.push(window).unwrap());
    writer.finish().unwrap();
}

/// Bytes that a command may take for each byte that a trace may unpack to, as readers may
/// (tests/bounded.rs of tierwise-trace).
const FACTOR: u64 = 64;

/// The command's own memory: its threads' stacks, the tables of a simulated machine.
const FLOOR: u64 = 128 << 20;

/// Points that `simulate` may write: the minute that a trace is stretched to, a second each, on
/// memory that is four times as slow as the fast one.
const MAX_POINTS: usize = 240;

/// Runs a command that may take no more private memory than `bytes`.
fn within(bytes: u64, arguments: &[&str]) -> Output {
    let limited = format!("ulimit -d {} && exec \"$@\"", bytes >> 10);
    let mut command = Command::new("sh");
    command.args(["-c", &limited, "sh"]).arg(assert_cmd::cargo::cargo_bin!("tierwise"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn trace_bounds_memory_and_virtual_time() {
    let directory = Directory::new();
    let (html, csv, parquet) =
        (directory.name("x.html"), directory.name("x.csv"), directory.name("x.parquet"));
    for (name, windows) in hostile() {
        let path = directory.path(&format!("{name}.twt"));
        write(&path, &windows);
        let allowed = FLOOR + FACTOR * max_unpacked(path.metadata().unwrap().len());
        let trace = path.to_str().unwrap();
        let commands: [&[&str]; 7] = [
            &["trace", "stat", trace],
            &["trace", "export", "--force", trace, "-o", &csv, "--table", "pages"],
            &["trace", "export", "--force", trace, "-o", &parquet],
            &["trace", "export", "--force", trace, "-o", &csv, "--table", "windows"],
            &["simulate", trace, "--policy", "static"],
            &["compare", trace, "--jobs", "1", "--policies", "oracle,tpp", "--html", &html],
            &["advise", trace, "--jobs", "1", "--points", "3", "--policy", "static"],
        ];
        for arguments in commands {
            let output = within(allowed, arguments);
            let message = text(&output.stderr);
            let runs = ["simulate", "compare", "advise"].contains(&arguments[0]);
            let refused = match name {
                "instructions" if runs => Some("runs for more than 24 hours"),
                "nothing" if runs => Some("neither an instruction nor a page"),
                _ => None,
            };
            let code = if refused.is_some() { 2 } else { 0 };
            assert_eq!(output.status.code(), Some(code), "{name}: {arguments:?}: {message}");
            assert!(refused.is_none_or(|why| message.contains(why)), "{message}");
            let points = text(&output.stdout).lines().count();
            assert!(arguments[0] != "simulate" || points <= MAX_POINTS, "{name}: {points}");
        }
    }
}

#[test]
fn scenario_bounds_virtual_time_too() {
    let directory = Directory::new();
    write(&directory.path("long.twt"), &[window(0..100, u64::MAX)]);
    let scenario = "name = \"long\"\nsummary = \"long\"\n[machine]\npreset = \"dram-cxl\"\n\
                    fast_share = 0.5\n[[workload]]\nname = \"long\"\ntrace = \"long.twt\"\n";
    let path = directory.name("long.toml");
    std::fs::write(&path, scenario).unwrap();
    let message = refused(&["compare", &path]);
    assert!(message.contains("workload \"long\" runs for more than 24 hours"), "{message}");
}

#[test]
fn trace_without_instructions_is_refused() {
    let directory = Directory::new();
    let path = directory.path("empty.twt");
    let name = path.to_str().unwrap();
    let idle = Window { marks: vec!["run".into()], ..Window::default() };
    for (windows, held) in [(&[][..], "0 windows"), (&[idle], "1 window")] {
        write(&path, windows);
        for command in [&["compare"][..], &["advise"], &["simulate", "--policy", "static"]] {
            let message = refused(&[command, &[name]].concat());
            let expected =
                format!("{name}: the trace holds {held} and neither an instruction nor a page");
            assert!(message.starts_with(&expected), "{message}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn trace_from_a_pipe_is_refused() {
    let directory = Directory::new();
    let (path, pipe) = (directory.path("a.twt"), directory.name("pipe"));
    write(&path, &[]);
    let trace = std::fs::read(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::thread::scope(|scope| {
        // The command may leave before it has read everything.
        scope.spawn(|| drop(std::fs::write(&pipe, &trace)));
        let message = refused(&["compare", &pipe]);
        assert!(message.contains("write it to a file first"), "{message}");
    });
}

#[test]
fn every_input_refuses_a_directory_alike() {
    let parent = Directory::new();
    let (directory, out) = (parent.name(""), parent.name("out"));
    for command in [
        &["compare", &directory][..],
        &["explain", "--tenant", "a", &directory],
        &["profile", &directory],
        &["scenario", "check", &directory],
        &["trace", "stat", &directory],
        &["trace", "info", &directory],
        &["trace", "import", &directory, &out],
    ] {
        let message = refused(command);
        assert_eq!(
            message,
            format!("{directory}: is a directory; name a file in it"),
            "{command:?}"
        );
    }
}

#[test]
fn scenario_of_too_many_pages_is_refused() {
    let directory = Directory::new();
    write(&directory.path("a.twt"), &[window(0..100, 1000)]);
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
    let service = format!("[workload.service]\npreset = \"redis\"\ntraces = \"{traces}\"\n");
    let trace = "trace = \"a.twt\"\n";
    for (from, size, why) in [
        (trace, "scale = 1000000", "scale: found 1000000; allowed: from 1 to 335544"),
        (trace, "footprint = \"1TiB\"", "footprint: found 268435456 pages; allowed: up to the 100"),
        (&service, "footprint = \"16TiB\"", "footprint: found 16 TiB, which is 4294967294 pages"),
    ] {
        let scenario = directory.write(
            "s.toml",
            &format!(
                "name = \"s\"\nsummary = \"s\"\nduration_s = 1\n[machine]\npreset = \
                 \"dram-cxl\"\nfast_share = 0.5\n[[workload]]\nname = \"w\"\n{from}{size}\n"
            ),
        );
        let message = refused(&["scenario", "check", &scenario]);
        assert!(message.contains("workload \"w\": ") && message.contains(why), "{message}");
    }
}
