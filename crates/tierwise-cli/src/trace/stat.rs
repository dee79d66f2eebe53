//! `tierwise trace stat`: shows a trace window by window, and its hottest pages.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tierwise_core::units::Bytes;
use tierwise_trace::summary::TraceSummary;

use super::info::{self, Overview};
use crate::failure::CommandResult;
use crate::number::grouped;
use crate::output;
use crate::table::{new_table, write_table};
use crate::value::whole;

/// Show a trace window by window, and the pages with the most misses.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise trace stat traces/a.twt --top 5")]
pub struct StatCommand {
    /// The trace.
    #[arg(value_name = "TRACE.twt")]
    trace: PathBuf,
    /// Number of pages to list.
    #[arg(long, default_value_t = 10, value_name = "NUMBER", value_parser = whole(0..=usize::MAX))]
    top: usize,
    /// Print JSON: overview, windows and top_pages.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Statistics {
    overview: Overview,
    windows: Vec<Window>,
    top_pages: Vec<Page>,
}

#[derive(Debug, Serialize)]
struct Window {
    window: usize,
    instructions: u64,
    operations: u64,
    touched_bytes: u64,
    resident_bytes: u64,
    allocations: u64,
    unmaps: u64,
    loads: u64,
    stores: u64,
    misses: u64,
}

#[derive(Debug, Serialize)]
struct Page {
    page: u32,
    address: String,
    kind: &'static str,
    accesses: u64,
    misses: u64,
    windows: u64,
}

impl StatCommand {
    pub fn execute(&self) -> CommandResult {
        let summary = info::read(&self.trace, self.top)?;
        let statistics = Statistics {
            overview: Overview::new(&self.trace, &summary)?,
            windows: windows(&summary),
            top_pages: top_pages(&summary),
        };
        if self.json {
            return output::json(&statistics);
        }
        info::print(&statistics.overview)?;
        print(&statistics)
    }
}

fn windows(summary: &TraceSummary) -> Vec<Window> {
    let page_size = u64::from(summary.header.page_size);
    let window = |(window, w): (usize, &tierwise_trace::summary::WindowSummary)| Window {
        window,
        instructions: w.instructions,
        operations: w.operations,
        touched_bytes: w.touched_pages * page_size,
        resident_bytes: w.resident_pages * page_size,
        allocations: w.allocations,
        unmaps: w.unmaps,
        loads: w.loads,
        stores: w.stores,
        misses: w.misses,
    };
    summary.windows.iter().enumerate().map(window).collect()
}

fn top_pages(summary: &TraceSummary) -> Vec<Page> {
    let page_size = u128::from(summary.header.page_size);
    let page = |p: &tierwise_trace::summary::TopPage| Page {
        page: p.page,
        // Pages only reached through system calls have numbers beyond any address.
        address: format!("{:#x}", u128::from(p.vpn) * page_size),
        kind: match p.kind {
            tierwise_trace::PageBacking::Anon => "anon",
            tierwise_trace::PageBacking::File => "file",
        },
        accesses: p.accesses,
        misses: p.misses,
        windows: p.windows,
    };
    summary.top_pages.iter().map(page).collect()
}

fn print(statistics: &Statistics) -> CommandResult {
    let mut out = anstream::stdout().lock();
    let head = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let mut table = new_table(head(&[
        "WINDOW",
        "INSTR",
        "TOUCHED",
        "RESIDENT",
        "ALLOCATED",
        "UNMAPPED",
        "LOADS",
        "STORES",
        "MISSES",
    ]));
    for w in &statistics.windows {
        table.add_row([
            w.window.to_string(),
            grouped(w.instructions),
            Bytes(w.touched_bytes).to_string(),
            Bytes(w.resident_bytes).to_string(),
            grouped(w.allocations),
            grouped(w.unmaps),
            grouped(w.loads),
            grouped(w.stores),
            grouped(w.misses),
        ]);
    }
    writeln!(out)?;
    write_table(&mut out, &table, None)?;
    if statistics.top_pages.is_empty() {
        return Ok(());
    }
    let mut table = new_table(head(&["PAGE", "ADDRESS", "KIND", "ACCESSES", "MISSES", "WINDOWS"]));
    for p in &statistics.top_pages {
        table.add_row([
            p.page.to_string(),
            p.address.clone(),
            p.kind.to_owned(),
            grouped(p.accesses),
            grouped(p.misses),
            grouped(p.windows),
        ]);
    }
    writeln!(out)?;
    write_table(&mut out, &table, None)?;
    Ok(out.flush()?)
}
