//! Traces as columns.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tierwise_trace::model::PageBacking;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::{Window, WindowSource};

use crate::error::refuse;

/// The first page number of what no address reaches ([`tierwise_trace::Allocation`]).
const UNMAPPED: u64 = 1 << 52;

/// Whole numbers by name, in the order of the columns.
type Numbers = Vec<(&'static str, Vec<u64>)>;

/// Reads a table of a trace: "accesses", "windows" or "pages". Columns of numbers are bytes of
/// unsigned 64-bit numbers in the machine's order, columns of text are lists.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's path is converted, not borrowed")]
pub(crate) fn read_trace<'py>(
    py: Python<'py>,
    path: PathBuf,
    table: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let fill: fn(&mut Table, &Window) = match table {
        "accesses" => Table::accesses,
        "windows" => Table::window,
        "pages" => Table::pages,
        other => {
            let words = format!("no table is called {other:?}; allowed: accesses, windows, pages");
            return Err(PyValueError::new_err(words));
        }
    };
    let read = || -> Result<Table, String> {
        let mut reader = TraceReader::open(&path).map_err(|error| error.to_string())?;
        let page_size = u64::from(reader.header().page_size);
        let mut read = Table { page_size, ..Table::default() };
        let mut window = Window::default();
        while reader.next_window(&mut window).map_err(|error| error.to_string())? {
            read.allocate(&window);
            fill(&mut read, &window);
            read.windows += 1;
        }
        Ok(read)
    };
    if !path.exists() {
        let error = std::io::ErrorKind::NotFound.into();
        return Err(crate::error::unreadable(&path, &error));
    }
    py.detach(read).map_err(refuse)?.into_python(py)
}

/// The table that is read.
#[derive(Default)]
struct Table {
    numbers: Numbers,
    texts: Vec<(&'static str, Vec<String>)>,
    page_size: u64,
    windows: u64,
    /// By page: its page number in the address space.
    vpns: Vec<u64>,
}

impl Table {
    fn allocate(&mut self, window: &Window) {
        for allocation in &window.allocations {
            let page = allocation.page as usize;
            self.vpns.resize(self.vpns.len().max(page + 1), 0);
            self.vpns[page] = allocation.vpn;
        }
    }

    /// The first address of a page; zero for one that only system calls reach.
    fn address(&self, page: u32) -> u64 {
        let vpn = self.vpns.get(page as usize).copied().unwrap_or(UNMAPPED);
        if vpn < UNMAPPED { vpn * self.page_size } else { 0 }
    }

    fn push<const N: usize>(&mut self, row: [(&'static str, u64); N]) {
        if self.numbers.is_empty() {
            self.numbers = row.iter().map(|&(name, _)| (name, Vec::new())).collect();
        }
        for ((_, column), (_, number)) in self.numbers.iter_mut().zip(row) {
            column.push(number);
        }
    }

    fn push_text(&mut self, name: &'static str, text: String) {
        match self.texts.first_mut() {
            Some((_, column)) => column.push(text),
            None => self.texts.push((name, vec![text])),
        }
    }

    fn accesses(&mut self, window: &Window) {
        for access in &window.accesses {
            self.push([
                ("window", self.windows),
                ("page", access.page.into()),
                ("address", self.address(access.page)),
                ("loads", access.loads.into()),
                ("stores", access.stores.into()),
                ("load_misses", access.load_misses.into()),
                ("store_misses", access.store_misses.into()),
                ("supervised", access.supervised.into()),
                ("thread", access.thread.into()),
            ]);
        }
    }

    fn window(&mut self, window: &Window) {
        self.push([
            ("window", self.windows),
            ("instructions", window.instructions),
            ("operations", window.operations),
            ("threads", window.threads.len() as u64),
            ("allocations", window.allocations.len() as u64),
            ("touched", window.accesses.len() as u64),
            ("unmaps", window.unmaps.len() as u64),
        ]);
        self.push_text("marks", window.marks.join(" "));
    }

    fn pages(&mut self, window: &Window) {
        for allocation in &window.allocations {
            self.push([
                ("page", allocation.page.into()),
                ("address", self.address(allocation.page)),
                ("order", allocation.order.into()),
                ("thread", allocation.thread.into()),
                ("allocated_in", self.windows),
            ]);
            let kind = match allocation.kind {
                PageBacking::Anon => "anon",
                PageBacking::File => "file",
            };
            self.push_text("kind", kind.to_owned());
        }
    }

    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let columns = PyDict::new(py);
        for (name, numbers) in self.numbers {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
            columns.set_item(name, PyBytes::new(py, &bytes))?;
        }
        for (name, texts) in self.texts {
            columns.set_item(name, texts)?;
        }
        Ok(columns)
    }
}
