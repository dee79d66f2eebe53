//! Reads the output of `valgrind --tool=lackey --trace-mem=yes`.
//!
//! Lackey prints one line per event:
//!
//! ```text
//! I  04001200,3      an instruction of 3 bytes was executed at this address
//!  L 1ffefffe48,8    8 bytes were loaded
//!  S 1ffefffe40,8    8 bytes were stored
//!  M 0421b0c8,4      4 bytes were modified: a load, then a store
//! ```
//!
//! Lines that start with `==` or `--` are Valgrind's own messages. Lackey does not report mappings
//! and threads: every page counts as anonymous, exists to the end, and belongs to thread 0. The
//! kernel's copies for the program are missing too. The misses come from the same model of a cache
//! as the recorder's.

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use crate::cache::{Cache, GeometryError};
use crate::format::Totals;
use crate::model::unreadable;
use crate::writer::{TraceWriter, WriterOptions, beside};
use crate::{
    Allocation, CacheModel, Header, PageAccess, PageBacking, ThreadShare, TraceError, Window,
};

/// log2 of the bytes of a page: 4096, on every machine that Valgrind's lackey traces here.
const PAGE_SHIFT: u32 = 12;

/// The longest line: Valgrind's own messages may name files, whose paths have at most 4096 bytes
/// (`PATH_MAX`); events have some 20.
const MAX_LINE_BYTES: u64 = 4096;

/// Options of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    /// The command that was traced, for the header.
    pub command: Vec<String>,
    /// Instructions of a window.
    pub window_instructions: u64,
    /// The last-level cache to model; its lines must divide a page of 4096 bytes.
    pub llc: CacheModel,
    /// Options of writing the trace.
    pub writer: WriterOptions,
}

/// The failure of an import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The cache cannot be modelled.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The input could not be read.
    #[error("{input}: {}", unreadable(input, source))]
    Read {
        /// The input.
        input: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// No line is an event: Valgrind's own messages alone, or nothing.
    #[error(
        "{input}: there is no instruction and no access in it; expected lines such as \
         \" L 1ffefffe48,8\" from valgrind --tool=lackey --trace-mem=yes"
    )]
    Nothing {
        /// The input.
        input: PathBuf,
    },
    /// A line is not lackey's.
    #[error(
        "{input}:{line}: {text:?}: {reason}; expected lines such as \" L 1ffefffe48,8\" from \
         valgrind --tool=lackey --trace-mem=yes"
    )]
    Line {
        /// The input.
        input: PathBuf,
        /// Its number, from 1.
        line: u64,
        /// The line.
        text: String,
        /// Its defect.
        reason: &'static str,
    },
}

/// Reads `input` to its end and writes the trace at `out`: beside it first, then renamed.
///
/// # Errors
/// A line is not lackey's, no line is an event, the input cannot be read, or the trace cannot be
/// written.
pub fn import(
    input: impl BufRead,
    name: &Path,
    out: &Path,
    options: &ImportOptions,
) -> Result<Totals, ImportError> {
    let header = Header {
        command: options.command.clone(),
        host: format!("imported from valgrind lackey output, {}", name.display()),
        page_size: 1 << PAGE_SHIFT,
        window_instructions: options.window_instructions,
        cache: options.llc,
    };
    let mut failure = None;
    let written = beside(out, options.writer.overwrite, |file| {
        let buffered = std::io::BufWriter::new(file);
        let mut writer = TraceWriter::new(out, buffered, &header, options.writer)?;
        if let Err(error) = windows(input, name, options, &mut |window| writer.push(window)) {
            failure = Some(error);
            // Any error keeps the file from its name; the caller gets the real error.
            return Err(TraceError::io(out, std::io::ErrorKind::InvalidData.into()));
        }
        writer.finish().map(|(_, totals)| totals)
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(written?),
    }
}

/// Reads `input` to its end and passes each window to `push`.
pub(crate) fn windows(
    mut input: impl BufRead,
    name: &Path,
    options: &ImportOptions,
    push: &mut dyn FnMut(&Window) -> Result<(), TraceError>,
) -> Result<(), ImportError> {
    let mut pages = Pages::new(options)?;
    let mut bytes = Vec::new();
    let (mut line, mut events) = (0, false);
    loop {
        bytes.clear();
        let read = (&mut input)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut bytes)
            .map_err(|source| ImportError::Read { input: name.to_owned(), source })?;
        if read == 0 {
            break;
        }
        line += 1;
        if bytes.len() as u64 == MAX_LINE_BYTES && !bytes.ends_with(b"\n") {
            return Err(ImportError::Line {
                input: name.to_owned(),
                line,
                text: shown(&bytes),
                reason: "the line is longer than 4096 bytes",
            });
        }
        let event = parse(&bytes).map_err(|reason| ImportError::Line {
            input: name.to_owned(),
            line,
            text: shown(&bytes),
            reason,
        })?;
        if matches!(event, Event::Instruction) && pages.is_full() {
            pages.close(push)?;
        }
        pages.apply(event);
        events |= !matches!(event, Event::Message);
    }
    if !events {
        return Err(ImportError::Nothing { input: name.to_owned() });
    }
    pages.close(push)?;
    Ok(())
}

/// The start of a line, for a message.
fn shown(line: &[u8]) -> String {
    /// Bytes shown of a foreign line: a line of lackey has some 20, and twice that identifies
    /// another.
    const SHOWN_BYTES: usize = 40;
    let line = line.trim_ascii_end();
    String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Message,
    Instruction,
    Load { address: u64, bytes: u32 },
    Store { address: u64, bytes: u32 },
    Modify { address: u64, bytes: u32 },
}

/// The longest access of x86: FXSAVE and XSAVE areas take less than a page.
const MAX_ACCESS_BYTES: u32 = 4096;

fn parse(line: &[u8]) -> Result<Event, &'static str> {
    let line = line.trim_ascii_end();
    if line.is_empty() || line.starts_with(b"==") || line.starts_with(b"--") {
        return Ok(Event::Message);
    }
    let (kind, operand) = line.split_at_checked(3).ok_or("too short")?;
    let operand = std::str::from_utf8(operand).map_err(|_| "not text")?;
    let (address, bytes) = operand.split_once(',').ok_or("no comma after the address")?;
    let address = u64::from_str_radix(address, 16).map_err(|_| "the address is not hexadecimal")?;
    let bytes: u32 = bytes.parse().map_err(|_| "the size is not a number")?;
    if bytes == 0 || bytes > MAX_ACCESS_BYTES || address.checked_add(bytes.into()).is_none() {
        return Err("the size or the address is out of range");
    }
    match kind {
        b"I  " => Ok(Event::Instruction),
        b" L " => Ok(Event::Load { address, bytes }),
        b" S " => Ok(Event::Store { address, bytes }),
        b" M " => Ok(Event::Modify { address, bytes }),
        _ => Err("neither I, L, S nor M"),
    }
}

/// The pages so far, and the current window.
struct Pages {
    numbers: HashMap<u64, u32>,
    /// Position of each page's row in the window, if that row names the page.
    rows: Vec<u32>,
    window: Window,
    window_instructions: u64,
    cache: Cache,
    line_shift: u32,
}

impl Pages {
    fn new(options: &ImportOptions) -> Result<Self, GeometryError> {
        Ok(Self {
            numbers: HashMap::new(),
            rows: Vec::new(),
            window: Window::default(),
            window_instructions: options.window_instructions.max(1),
            cache: Cache::new(options.llc)?,
            line_shift: options.llc.line_bytes.trailing_zeros().min(PAGE_SHIFT),
        })
    }

    fn is_full(&self) -> bool {
        self.window.instructions >= self.window_instructions
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Message => {}
            Event::Instruction => self.window.instructions += 1,
            Event::Load { address, bytes } => self.access(address, bytes, false),
            Event::Store { address, bytes } => self.access(address, bytes, true),
            Event::Modify { address, bytes } => {
                self.access(address, bytes, false);
                self.access(address, bytes, true);
            }
        }
    }

    /// Adds one executed access: the access counts once in each page, and each line that it touches
    /// is looked up in the cache.
    fn access(&mut self, address: u64, bytes: u32, store: bool) {
        let last = address + u64::from(bytes) - 1;
        let mut counted = None;
        for line in address >> self.line_shift..=last >> self.line_shift {
            let lines_in_page = PAGE_SHIFT - self.line_shift;
            let vpn = line >> lines_in_page;
            let (page, row) = self.row(vpn);
            let in_page = line & ((1 << lines_in_page) - 1);
            let miss = self.cache.access(u64::from(page) << lines_in_page | in_page);
            let row = &mut self.window.accesses[row];
            let executed = u32::from(counted != Some(vpn));
            counted = Some(vpn);
            let (count, misses) = match store {
                true => (&mut row.stores, &mut row.store_misses),
                false => (&mut row.loads, &mut row.load_misses),
            };
            *count = count.saturating_add(executed);
            *misses = misses.saturating_add(u32::from(miss));
        }
    }

    /// The page at `vpn` and the index of its row in this window.
    fn row(&mut self, vpn: u64) -> (u32, usize) {
        let next = self.rows.len() as u32;
        let page = *self.numbers.entry(vpn).or_insert(next);
        if page == next {
            let allocation = Allocation { page, vpn, kind: PageBacking::Anon, order: 0, thread: 0 };
            self.window.allocations.push(allocation);
            self.rows.push(u32::MAX);
        }
        let row = self.rows[page as usize] as usize;
        if self.window.accesses.get(row).is_some_and(|access| access.page == page) {
            return (page, row);
        }
        let row = self.window.accesses.len();
        self.rows[page as usize] = row as u32;
        self.window.accesses.push(PageAccess {
            page,
            loads: 0,
            stores: 0,
            load_misses: 0,
            store_misses: 0,
            supervised: 0,
            thread: 0,
        });
        (page, row)
    }

    fn close(
        &mut self,
        push: &mut dyn FnMut(&Window) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let window = &mut self.window;
        if window.instructions == 0 && window.accesses.is_empty() {
            return Ok(());
        }
        window.threads.push(ThreadShare { thread: 0, instructions: window.instructions });
        window.accesses.sort_unstable_by_key(|access| access.page);
        push(window)?;
        window.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_read() {
        assert_eq!(parse(b"I  04001200,3\n"), Ok(Event::Instruction));
        assert_eq!(parse(b" L 1ffe,8\n"), Ok(Event::Load { address: 0x1ffe, bytes: 8 }));
        assert_eq!(parse(b" S 10,1"), Ok(Event::Store { address: 16, bytes: 1 }));
        assert_eq!(parse(b" M 10,16\r\n"), Ok(Event::Modify { address: 16, bytes: 16 }));
        assert_eq!(parse(b"==12== lackey\n"), Ok(Event::Message));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in
            [&b" X 10,1"[..], b" L 10", b" L zz,1", b" L 10,0", b" L", b" L ffffffffffffffff,8"]
        {
            assert!(parse(line).is_err(), "{:?}", line.escape_ascii().to_string());
        }
    }
}
