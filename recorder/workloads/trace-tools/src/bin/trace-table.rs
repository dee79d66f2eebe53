//! Prints a Markdown table of the traces of a directory: `trace-table FOLDER`.
//!
//! The run phase starts with the window that has the mark `run`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::summary::{TraceSummary, WindowSummary, summarize};

const MIB: f64 = 1024.0 * 1024.0;
const COLUMNS: [&str; 12] = [
    "trace",
    "command",
    "M instr. a window",
    "windows (load + run)",
    "pages",
    "resident MiB",
    "file pages MiB",
    "touched in a run window MiB",
    "M misses in run",
    "misses per 1000 instr.",
    "operations",
    "size MiB",
];

fn row(path: &Path) -> Result<String> {
    let summary = summarize(&mut TraceReader::open(path)?, 0)?;
    let load_windows = summary.marks.iter().find(|(_, name)| name == "run");
    let load_windows =
        load_windows.with_context(|| format!("{}: no mark \"run\"", path.display()))?.0;
    let run = &summary.windows[load_windows as usize..];
    let total = |of: fn(&WindowSummary) -> u64| run.iter().map(of).sum::<u64>() as f64;
    let mib = |pages: f64| pages * f64::from(summary.header.page_size) / MIB;
    let misses = total(|window| window.misses);
    let cells = [
        path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        format!("`{}`", command(&summary)),
        format!("{}", summary.header.window_instructions / 1_000_000),
        format!("{load_windows} + {}", run.len()),
        format!("{}", summary.totals.pages),
        format!("{:.0}", mib(summary.peak_resident_pages as f64)),
        format!("{:.0}", mib(summary.file_pages as f64)),
        format!("{:.1}", mib(total(|window| window.touched_pages) / run.len() as f64)),
        format!("{:.1}", misses / 1e6),
        format!("{:.1}", misses * 1000.0 / total(|window| window.instructions)),
        format!("{}", total(|window| window.operations)),
        format!("{:.2}", std::fs::metadata(path)?.len() as f64 / MIB),
    ];
    Ok(format!("| {} |", cells.join(" | ")))
}

/// The command, with files named without their directories.
fn command(summary: &TraceSummary) -> String {
    let short = |word: &String| match word.rsplit_once('/') {
        Some((directory, file)) if directory.starts_with(['/', '.']) => file.to_owned(),
        _ if word.is_empty() => "\"\"".to_owned(),
        _ => word.clone(),
    };
    summary.header.command.iter().map(short).collect::<Vec<_>>().join(" ")
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).context("usage: trace-table FOLDER")?;
    let entries = std::fs::read_dir(&directory)
        .with_context(|| format!("{}: cannot list it", Path::new(&directory).display()))?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "twt"));
    paths.sort();
    println!("| {} |\n{}|", COLUMNS.join(" | "), "|---".repeat(COLUMNS.len()));
    for path in paths {
        println!("{}", row(&path)?);
    }
    Ok(())
}
