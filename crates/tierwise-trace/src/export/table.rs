//! The tables of a trace.

use super::Value;
use crate::{Allocation, PageBacking, TraceError, Window, WindowSource};

/// A table of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceTable {
    /// A row per page and window in which the page was touched.
    Accesses,
    /// A row per window.
    Windows,
    /// A row per page. `lived_until` is the window of its unmap, or the number of windows if it had
    /// none.
    Pages,
}

/// A column's name, and true if the column holds text.
pub(super) type Column = (&'static str, bool);

impl TraceTable {
    /// The columns, in order.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Accesses => &[
                ("window", false),
                ("page", false),
                ("loads", false),
                ("stores", false),
                ("load_misses", false),
                ("store_misses", false),
                ("supervised", false),
                ("thread", false),
            ],
            Self::Windows => &[
                ("window", false),
                ("instructions", false),
                ("operations", false),
                ("threads", false),
                ("allocations", false),
                ("touched", false),
                ("unmaps", false),
                ("marks", true),
            ],
            Self::Pages => &[
                ("page", false),
                ("vpn", false),
                ("kind", true),
                ("order", false),
                ("thread", false),
                ("allocated_in", false),
                ("lived_until", false),
            ],
        }
    }
}

type Push<'a> = dyn FnMut(&[Value<'_>]) -> Result<(), TraceError> + 'a;

/// Passes every row of a table to `push`. Returns the number of rows.
pub(super) fn write(
    table: TraceTable,
    source: &mut dyn WindowSource,
    push: &mut Push<'_>,
) -> Result<u64, TraceError> {
    let mut rows = 0;
    let mut push = |row: &[Value<'_>]| {
        rows += 1;
        push(row)
    };
    let mut window = Window::default();
    let mut pages: Vec<(Allocation, u64, u64)> = Vec::new();
    let mut number = 0;
    while source.next_window(&mut window)? {
        match table {
            TraceTable::Accesses => accesses(number, &window, &mut push)?,
            TraceTable::Windows => push(&window_row(number, &window, &window.marks.join(" ")))?,
            TraceTable::Pages => follow(number, &window, &mut pages),
        }
        number += 1;
    }
    for (allocation, allocated, until) in &pages {
        push(&page_row(allocation, *allocated, (*until).min(number)))?;
    }
    Ok(rows)
}

fn accesses(number: u64, window: &Window, push: &mut Push<'_>) -> Result<(), TraceError> {
    window.accesses.iter().try_for_each(|access| {
        push(&[
            Value::Number(number),
            Value::Number(access.page.into()),
            Value::Number(access.loads.into()),
            Value::Number(access.stores.into()),
            Value::Number(access.load_misses.into()),
            Value::Number(access.store_misses.into()),
            Value::Number(access.supervised.into()),
            Value::Number(access.thread.into()),
        ])
    })
}

fn window_row<'a>(number: u64, window: &Window, marks: &'a str) -> [Value<'a>; 8] {
    [
        Value::Number(number),
        Value::Number(window.instructions),
        Value::Number(window.operations),
        Value::Number(window.threads.len() as u64),
        Value::Number(window.allocations.len() as u64),
        Value::Number(window.accesses.len() as u64),
        Value::Number(window.unmaps.len() as u64),
        Value::Text(marks),
    ]
}

fn follow(number: u64, window: &Window, pages: &mut Vec<(Allocation, u64, u64)>) {
    pages.extend(window.allocations.iter().map(|&allocation| (allocation, number, u64::MAX)));
    for &page in &window.unmaps {
        pages[page as usize].2 = number;
    }
}

fn page_row(allocation: &Allocation, allocated: u64, until: u64) -> [Value<'static>; 7] {
    let kind = match allocation.kind {
        PageBacking::Anon => "anon",
        PageBacking::File => "file",
    };
    [
        Value::Number(allocation.page.into()),
        Value::Number(allocation.vpn),
        Value::Text(kind),
        Value::Number(allocation.order.into()),
        Value::Number(allocation.thread.into()),
        Value::Number(allocated),
        Value::Number(until),
    ]
}
