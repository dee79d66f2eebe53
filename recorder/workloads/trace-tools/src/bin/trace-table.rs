//! Prints, as Markdown, what each trace of a folder holds: `trace-table FOLDER`.
//!
//! The run phase begins with the window that carries the mark `run`. Resident memory is the most that
//! was born and not yet unmapped; an operation is whatever the program counted.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::{PageKind, Window, WindowSource};

const MIB: f64 = 1024.0 * 1024.0;

/// What the windows of a trace add up to.
#[derive(Default)]
struct Totals {
    load_windows: u64,
    run_windows: u64,
    run_instructions: u64,
    run_misses: u64,
    operations: u64,
    pages: u64,
    file_pages: u64,
    /// log2 of the span of each page, by page.
    orders: Vec<u8>,
    resident: u64,
    peak_resident: u64,
    touched_in_run: Vec<bool>,
}

impl Totals {
    fn add(&mut self, window: &Window) {
        for birth in &window.births {
            self.pages += 1;
            self.file_pages += u64::from(birth.kind == PageKind::File);
            self.orders.push(birth.order);
            self.touched_in_run.push(false);
            self.resident += 1 << birth.order;
        }
        self.peak_resident = self.peak_resident.max(self.resident);
        for &page in &window.unmaps {
            self.resident -= 1 << self.orders[page as usize];
        }
        if self.run_windows > 0 || window.marks.iter().any(|mark| mark == "run") {
            self.add_run(window);
        } else {
            self.load_windows += 1;
        }
    }

    fn add_run(&mut self, window: &Window) {
        self.run_windows += 1;
        self.run_instructions += window.instructions;
        self.operations += window.operations;
        for access in &window.accesses {
            self.run_misses += u64::from(access.load_misses) + u64::from(access.store_misses);
            self.touched_in_run[access.page as usize] = true;
        }
    }
}

fn row(path: &Path) -> Result<String> {
    let mut reader = TraceReader::open(path)?;
    let page_mib = f64::from(reader.header().page_size) / MIB;
    let mut totals = Totals::default();
    let mut window = Window::default();
    while reader.next_window(&mut window)? {
        totals.add(&window);
    }
    let touched = totals.touched_in_run.iter().filter(|&&touched| touched).count();
    let kilo_instructions = totals.run_instructions as f64 / 1000.0;
    Ok(format!(
        "| {} | `{}` | {} | {} + {} | {} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} | {} | {:.2} |",
        path.file_stem().unwrap_or_default().to_string_lossy(),
        command(&reader.header().command),
        reader.header().window_instructions / 1_000_000,
        totals.load_windows,
        totals.run_windows,
        totals.pages,
        totals.peak_resident as f64 * page_mib,
        totals.file_pages as f64 * page_mib,
        touched as f64 * page_mib,
        totals.run_misses as f64 / 1e6,
        totals.run_misses as f64 / kilo_instructions,
        totals.operations,
        std::fs::metadata(path)?.len() as f64 / MIB,
    ))
}

/// The command, with the folders of one machine left out.
fn command(words: &[String]) -> String {
    let short = |word: &String| match word.strip_prefix('/') {
        Some(path) => path.rsplit('/').next().unwrap_or_default().to_owned(),
        None if word.is_empty() => "\"\"".to_owned(),
        None => word.clone(),
    };
    words.iter().map(short).collect::<Vec<_>>().join(" ")
}

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).context("usage: trace-table FOLDER")?;
    let entries = std::fs::read_dir(&folder)
        .with_context(|| format!("{}: cannot list it", Path::new(&folder).display()))?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "twt"));
    paths.sort();
    println!(
        "| trace | command | M instr. a window | windows (load + run) | pages | resident MiB \
         | file pages MiB | touched in run MiB | M misses in run | misses per 1000 instr. \
         | operations | size MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for path in paths {
        println!("{}", row(&path)?);
    }
    Ok(())
}
