//! The data of a trace: what one window of a program's execution did to its pages.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The backing of a page, which decides its LRU list in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageBacking {
    /// Heap, stack and private anonymous mappings.
    Anon,
    /// Page cache: mapped files, and files read and written through system calls.
    File,
}

/// The last-level cache that decided which accesses of a trace missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheModel {
    /// Capacity in bytes.
    pub size_bytes: u64,
    /// Associativity.
    pub ways: u32,
    /// Line size in bytes; 64 on x86-64 and AArch64 servers.
    pub line_bytes: u32,
}

/// The description of a trace, once, at its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The program and its arguments; a generator names itself and its parameters.
    pub command: Vec<String>,
    /// The recording host: CPU, kernel and recorder, in words.
    pub host: String,
    /// Base page size in bytes.
    pub page_size: u32,
    /// Guest instructions of a window. The last one, and one cut by a mark, may be shorter; windows
    /// that were merged after the recording are longer.
    pub window_instructions: u64,
    /// The cache in front of memory.
    pub cache: CacheModel,
}

/// The first touch of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// Dense index within the trace, given in order of allocation and never used again after an
    /// unmap.
    pub page: u32,
    /// Address divided by the base page size: the virtual page number of a mapped page; pages that
    /// are only reached through system calls get numbers from 2^52 up, one range per file.
    pub vpn: u64,
    /// The page's backing.
    pub kind: PageBacking,
    /// log2 of the base pages that it spans: 0, or 9 for a 2 MiB page of 4 KiB base pages.
    pub order: u8,
    /// Index into [`Window::threads`]' numbering of the thread that touched it first.
    pub thread: u16,
}

/// One page's accesses within one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageAccess {
    /// The page, as numbered by its [`Allocation`].
    pub page: u32,
    /// Loads executed, whether or not a cache held the line.
    pub loads: u32,
    /// Stores executed.
    pub stores: u32,
    /// Loads that missed the last-level cache and so reached memory.
    pub load_misses: u32,
    /// Stores that missed the last-level cache.
    pub store_misses: u32,
    /// Accesses through a system call (read, write), which the kernel detects without a reference
    /// bit: the "supervised" accesses of MULTI-CLOCK, section III-A.
    pub supervised: u16,
    /// The thread that accessed it last in this window.
    pub thread: u16,
}

/// The hotness of the objects on a page at a window's end, as EMT predicts it from the changes of
/// their reference counts in the last eight windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectHeat {
    /// The page, as numbered by its [`Allocation`].
    pub page: u32,
    /// The sum of its objects' hotness, in sixteenths.
    pub hotness: u32,
}

/// The instructions of one thread in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadShare {
    /// Dense index of the thread, in order of its first instruction.
    pub thread: u16,
    /// Guest instructions that it executed in the window.
    pub instructions: u64,
}

/// A stretch of execution. Buffers are reused from window to window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// Guest instructions of all threads.
    pub instructions: u64,
    /// Instructions by thread, ascending.
    pub threads: Vec<ThreadShare>,
    /// Pages first touched in this window, in the order of their first touch.
    pub allocations: Vec<Allocation>,
    /// Touched pages, ascending by page, each once. A page that is allocated in this window is in
    /// this list too.
    pub accesses: Vec<PageAccess>,
    /// Pages unmapped in this window, ascending. Their accesses come before the unmap.
    pub unmaps: Vec<u32>,
    /// Names of phases that start with this window (for instance "run" after a load phase).
    pub marks: Vec<String>,
    /// Application operations completed (requests, transactions); 0 where the source does not count
    /// them.
    pub operations: u64,
    /// Objects of the program alive at the window's end; 0 where the source does not follow them.
    pub objects: u64,
    /// Pages with objects that changed in the last eight windows, ascending by page, each once.
    /// Such a page need not be touched in this window.
    pub object_heat: Vec<ObjectHeat>,
}

impl Window {
    /// Empties every list and keeps its memory.
    pub fn clear(&mut self) {
        self.instructions = 0;
        self.operations = 0;
        self.objects = 0;
        self.object_heat.clear();
        self.threads.clear();
        self.allocations.clear();
        self.accesses.clear();
        self.unmaps.clear();
        self.marks.clear();
    }
}

/// The reason why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be opened, read or written.
    #[error("{path}: {}", unreadable(path, source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a trace.
    #[error("{path}: not a trace: {found}; traces are made by `tierwise record`")]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// Its apparent kind.
        found: &'static str,
    },
    /// The bytes are damaged, or end too early. Windows before `offset` were good.
    #[error("{path}: at byte {offset}: {reason}; {}", usable(path, *good_windows))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Start of the unreadable frame.
        offset: u64,
        /// The value found and the value expected.
        reason: String,
        /// Windows before this offset that were read without error.
        good_windows: u64,
    },
}

impl TraceError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// The reason why a file cannot be opened or read, with the remedy where the system's own text does
/// not suggest one.
pub fn unreadable(path: &Path, error: &std::io::Error) -> String {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match (error.kind(), parent) {
        (std::io::ErrorKind::IsADirectory, _) => "is a directory; name a file in it".to_owned(),
        (std::io::ErrorKind::NotFound, Some(parent)) if !parent.exists() => {
            format!("there is no directory {}", parent.display())
        }
        _ => without_number(error),
    }
}

/// The system's text for an error, without " (os error 2)" at its end.
fn without_number(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = error.raw_os_error().and_then(|_| text.rfind(" (os error "));
    text[..end.unwrap_or(text.len())].to_owned()
}

/// The use of the windows before a damage.
fn usable(path: &Path, windows: u64) -> String {
    if windows == 0 {
        return "no window before it is usable".to_owned();
    }
    let path = path.display();
    let before = if windows == 1 { "window before it is" } else { "windows before it are" };
    format!(
        "the {windows} {before} usable: `tierwise trace cut {path} PART.twt --windows \
         0..{windows}` keeps them"
    )
}

/// A program as the simulated host runs it: windows in order, again from the start on request.
pub trait WindowSource: Send {
    /// Returns the source's description.
    fn header(&self) -> &Header;

    /// Fills `window` with the next window and returns true, or returns false at the end.
    ///
    /// # Errors
    /// The trace is damaged; every window returned before the error is valid.
    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError>;

    /// Goes back to the first window.
    ///
    /// # Errors
    /// Those of [`WindowSource::next_window`].
    fn rewind(&mut self) -> Result<(), TraceError>;
}
