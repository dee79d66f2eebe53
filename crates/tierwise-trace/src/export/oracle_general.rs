//! libCacheSim's oracleGeneral, for simulators of caches; [`crate::import`] reads it too.
//!
//! A request is one page in one window in which it was touched, whatever the number of its
//! accesses: the object is the page's number, its size the page's. The time is that of the window's
//! start. A window has no order of its pages; the export shuffles them, because a sorted order
//! would be a loop, on which LRU never hits if the window does not fit. Miss ratios therefore mean
//! something for caches that hold more than a window's pages.

use std::fs::File;
use std::io::{Result, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::writer::beside;
use crate::{TraceError, Window, WindowSource};

/// Bytes of a request.
const RECORD: usize = 24;

/// Bytes kept in memory, so that the last requests of most pages are still in it when the next ones
/// complete them: 2.8 million requests.
const KEPT: usize = 64 << 20;

/// Seed of the order within windows; any would do.
const SEED: u64 = 1;

/// Writes a request for each page of each window to the file at `path`: beside it first, then
/// renamed. `instruction_ns` is the time of an instruction. Returns the number of requests.
///
/// # Errors
/// The source is damaged, the file exists and `overwrite` is off, or the file cannot be written.
pub fn export_oracle_general(
    path: &Path,
    source: &mut dyn WindowSource,
    instruction_ns: f64,
    overwrite: bool,
) -> std::result::Result<u64, TraceError> {
    let page_bytes = u64::from(source.header().page_size);
    beside(path, overwrite, |file| {
        let failed = |error| TraceError::io(path, error);
        let mut requests = Requests::new(file);
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let (mut window, mut ns) = (Window::default(), 0.0);
        while source.next_window(&mut window)? {
            requests.sizes.extend(window.allocations.iter().map(|allocation| {
                let bytes = page_bytes << allocation.order.min(31);
                u32::try_from(bytes).unwrap_or(u32::MAX)
            }));
            window.accesses.shuffle(&mut random);
            for access in &window.accesses {
                requests.push((ns / 1e9) as u32, access.page).map_err(failed)?;
            }
            ns += window.instructions as f64 * instruction_ns;
        }
        requests.finish().map_err(failed)
    })
}

/// Writes requests, and completes each when the next one of its object comes.
struct Requests<'a> {
    file: &'a File,
    /// Bytes before those that are kept.
    written: u64,
    kept: Vec<u8>,
    number: u64,
    /// Size in bytes of each object, and the number of its last request plus one.
    sizes: Vec<u32>,
    last: Vec<u64>,
}

impl<'a> Requests<'a> {
    fn new(file: &'a File) -> Self {
        let (sizes, last) = (Vec::new(), Vec::new());
        Self { file, written: 0, kept: Vec::new(), number: 0, sizes, last }
    }

    fn push(&mut self, seconds: u32, page: u32) -> Result<()> {
        self.last.resize(self.sizes.len(), 0);
        let last = std::mem::replace(&mut self.last[page as usize], self.number + 1);
        if last > 0 {
            self.complete(last - 1)?;
        }
        self.kept.extend(seconds.to_le_bytes());
        self.kept.extend(u64::from(page).to_le_bytes());
        self.kept.extend(self.sizes[page as usize].to_le_bytes());
        self.kept.extend((-1i64).to_le_bytes());
        self.number += 1;
        if self.kept.len() >= KEPT { self.write_half() } else { Ok(()) }
    }

    /// Sets the next request of a request's object to the one that follows now.
    fn complete(&mut self, request: u64) -> Result<()> {
        let at = request * RECORD as u64 + 16;
        let next = self.number.to_le_bytes();
        match at.checked_sub(self.written) {
            Some(at) => {
                self.kept[at as usize..][..8].copy_from_slice(&next);
                Ok(())
            }
            None => self.file.write_all_at(&next, at),
        }
    }

    fn write_half(&mut self) -> Result<()> {
        let half = self.kept.len() / RECORD / 2 * RECORD;
        self.write(half)
    }

    fn write(&mut self, bytes: usize) -> Result<()> {
        self.file.write_all(&self.kept[..bytes])?;
        self.kept.drain(..bytes);
        self.written += bytes as u64;
        Ok(())
    }

    fn finish(mut self) -> Result<u64> {
        self.write(self.kept.len())?;
        Ok(self.number)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn requests_on_disk_are_completed_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        let mut requests = Requests::new(&file);
        requests.sizes = vec![4096, 8192];
        for page in [0, 1, 1] {
            requests.push(7, page).unwrap();
        }
        requests.write_half().unwrap();
        requests.push(9, 0).unwrap();
        assert_eq!(requests.finish().unwrap(), 4);
        let bytes = std::fs::read(&path).unwrap();
        let next = |request: usize| {
            i64::from_le_bytes(bytes[request * RECORD + 16..][..8].try_into().unwrap())
        };
        assert_eq!([0, 1, 2, 3].map(next), [3, 2, -1, -1]);
        assert_eq!(bytes[..4], 7u32.to_le_bytes());
        assert_eq!(bytes[RECORD + 12..][..4], 8192u32.to_le_bytes());
    }
}
