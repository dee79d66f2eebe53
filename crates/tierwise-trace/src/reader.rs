//! Reads a trace, one window at a time.
//!
//! A trace may be damaged, or still be growing. The reader returns every window up to the first bad
//! byte, and then an error that names it. If the file was only incomplete, a later call continues
//! where the reader stopped. So a running recording can be followed.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::format::frame::{ALLOWANCE_BYTES, FrameKind, HEAD_BYTES, Head, MAX_RATIO, max_unpacked};
use crate::format::lifetimes::Lifetimes;
use crate::format::{MAGIC, PREAMBLE_BYTES, Totals, VERSION, window_codec};
use crate::pipe;
use crate::{CacheModel, Header, TraceError, Window, WindowSource};

/// Reads a trace. Its frames may unpack to at most [`max_unpacked`] of the bytes read so far, so
/// that memory and time are bounded by the size of the file, not by its content.
pub struct TraceReader<R> {
    path: PathBuf,
    input: R,
    header: Header,
    decompressor: zstd::bulk::Decompressor<'static>,
    first_window: u64,
    offset: u64,
    totals: Totals,
    lifetimes: Lifetimes,
    ended: bool,
    /// Unpacked bytes of the frames before the offset.
    unpacked: u64,
    header_unpacked: u64,
    compressed: Vec<u8>,
    raw: Vec<u8>,
}

impl TraceReader<BufReader<File>> {
    /// Opens the file at `path` and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or is not a trace of a version that this reader knows.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = pipe::open(path).map_err(|source| TraceError::io(path, source))?;
        Self::new(path, BufReader::new(file))
    }
}

impl<R: Read + Seek> TraceReader<R> {
    /// Reads from `input`, which errors name `name`.
    ///
    /// # Errors
    /// Those of [`TraceReader::open`].
    pub fn new(name: impl Into<PathBuf>, input: R) -> Result<Self, TraceError> {
        let path = name.into();
        let decompressor =
            zstd::bulk::Decompressor::new().map_err(|source| TraceError::io(&path, source))?;
        let mut reader = Self {
            path,
            input,
            header: unread_header(),
            decompressor,
            first_window: 0,
            offset: 0,
            totals: Totals::default(),
            lifetimes: Lifetimes::default(),
            ended: false,
            unpacked: 0,
            header_unpacked: 0,
            compressed: Vec::new(),
            raw: Vec::new(),
        };
        reader.read_preamble()?;
        reader.read_header()?;
        Ok(reader)
    }

    /// Totals of the windows read since the start or the last [`WindowSource::rewind`].
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Byte offset of the next frame.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn read_preamble(&mut self) -> Result<(), TraceError> {
        let mut bytes = Vec::new();
        (&mut self.input)
            .take(PREAMBLE_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|source| TraceError::io(&self.path, source))?;
        let (magic, version) = bytes.split_at(bytes.len().min(MAGIC.len()));
        if !MAGIC.starts_with(magic) {
            return Err(TraceError::NotATrace {
                path: self.path.clone(),
                found: format_of(&self.path, &bytes),
            });
        }
        if bytes.len() < PREAMBLE_BYTES as usize {
            return Err(self.incomplete("no whole frame"));
        }
        let version = version.iter().rev().fold(0u32, |value, &byte| value << 8 | u32::from(byte));
        if version != VERSION {
            return Err(self
                .corrupt(format!("trace version {version}; this reader knows version {VERSION}")));
        }
        self.offset = PREAMBLE_BYTES;
        Ok(())
    }

    fn read_header(&mut self) -> Result<(), TraceError> {
        let (kind, length) = self.read_frame()?;
        if kind != FrameKind::Header {
            return Err(self.corrupt("the first frame is not a header"));
        }
        self.header = serde_json::from_slice(&self.raw)
            .map_err(|e| self.corrupt(format!("the header is not the JSON of a header: {e}")))?;
        self.accept(length);
        self.first_window = self.offset;
        self.header_unpacked = self.unpacked;
        Ok(())
    }

    /// Reads and unpacks the frame at the offset into `raw`. Returns its kind and its length in the
    /// file.
    fn read_frame(&mut self) -> Result<(FrameKind, u64), TraceError> {
        let mut bytes = [0; HEAD_BYTES];
        self.read_exact(&mut bytes)?;
        let head = Head::from_bytes(&bytes).map_err(|reason| self.corrupt(reason))?;
        self.compressed.clear();
        // `take` limits the read, so that a false length costs no more memory than the file has
        // bytes.
        let read = (&mut self.input)
            .take(u64::from(head.compressed))
            .read_to_end(&mut self.compressed)
            .map_err(|source| TraceError::io(&self.path, source))?;
        if read != head.compressed as usize {
            return Err(self.incomplete(&format!("{read} of {} bytes of data", head.compressed)));
        }
        let crc = head.checksum(&self.compressed);
        if crc != head.crc {
            return Err(self.corrupt(format!("checksum {crc:08x}, expected {:08x}", head.crc)));
        }
        let length = (HEAD_BYTES + read) as u64;
        self.check_ratio(head.raw, length)?;
        self.unpack(head.raw as usize)?;
        Ok((head.kind, length))
    }

    /// Refuses a frame that would unpack to more than the file's size allows.
    fn check_ratio(&self, raw: u32, length: u64) -> Result<(), TraceError> {
        let (end, unpacked) = (self.offset + length, self.unpacked + u64::from(raw));
        if unpacked <= max_unpacked(end) {
            return Ok(());
        }
        Err(self.corrupt(format!(
            "the first {end} bytes of the file unpack to {unpacked}; allowed are {MAX_RATIO} for \
             each byte and {ALLOWANCE_BYTES} besides"
        )))
    }

    /// Continues after the frame just read, which has `length` bytes in the file.
    fn accept(&mut self, length: u64) {
        self.offset += length;
        self.unpacked += self.raw.len() as u64;
    }

    fn unpack(&mut self, length: usize) -> Result<(), TraceError> {
        self.raw.clear();
        self.raw.reserve(length);
        let unpacked = self.decompressor.decompress_to_buffer(&self.compressed, &mut self.raw);
        match unpacked {
            Ok(bytes) if bytes == length => Ok(()),
            Ok(bytes) => Err(self.corrupt(format!("unpacks to {bytes} bytes, expected {length}"))),
            Err(e) => Err(self.corrupt(format!("the data is not a zstd frame: {e}"))),
        }
    }

    fn end(&mut self, length: u64) -> Result<bool, TraceError> {
        let totals = Totals::decode(&self.raw).map_err(|reason| self.corrupt(reason))?;
        if totals != self.totals {
            return Err(self.corrupt(format!(
                "the end frame has {totals:?} and the windows before it add up to {:?}",
                self.totals
            )));
        }
        let mut more = [0];
        let read =
            self.input.read(&mut more).map_err(|source| TraceError::io(&self.path, source))?;
        self.accept(length);
        if read != 0 {
            return Err(self.corrupt("bytes after the end of the trace"));
        }
        self.ended = true;
        Ok(false)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), TraceError> {
        self.input.read_exact(bytes).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => self.incomplete("no whole frame"),
            _ => TraceError::io(&self.path, source),
        })
    }

    fn incomplete(&self, found: &str) -> TraceError {
        self.corrupt(format!(
            "the trace ends here with {found}; its recording was cut off or still runs"
        ))
    }

    fn corrupt(&self, reason: impl Into<String>) -> TraceError {
        TraceError::Corrupt {
            path: self.path.clone(),
            offset: self.offset,
            reason: reason.into(),
            good_windows: self.totals.windows,
        }
    }

    fn read_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        let (kind, length) = self.read_frame()?;
        match kind {
            FrameKind::Window => {}
            FrameKind::End => return self.end(length),
            FrameKind::Header => return Err(self.corrupt("a second header")),
        }
        window_codec::decode(&self.raw, self.totals.pages, window)
            .and_then(|()| self.lifetimes.admit(window))
            .map_err(|reason| self.corrupt(reason))?;
        self.totals.add(window);
        self.accept(length);
        Ok(true)
    }
}

/// Guesses the kind of a file that is no trace, by its name and its first bytes.
fn format_of(path: &Path, start: &[u8]) -> &'static str {
    /// The first bytes of a zstd frame, and of a Parquet file.
    const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
    const PARQUET: &[u8] = b"PAR1";
    let ending = path.extension().and_then(|ending| ending.to_str());
    let text = start.iter().all(|&byte| byte >= b' ' || byte.is_ascii_whitespace());
    match ending {
        _ if start.starts_with(ZSTD) => {
            "this looks like zstd data; `tierwise explain` reads runs; unpack other data first"
        }
        _ if start.starts_with(PARQUET) => "this looks like a Parquet file",
        Some("toml") if text => {
            "this looks like TOML; `tierwise scenario check` reads scenarios and `tierwise \
             simulate` runs them"
        }
        _ if text && start.trim_ascii_start().starts_with(b"{") => "this looks like JSON",
        _ if text => "this looks like text; `tierwise trace import` reads the output of lackey",
        _ => "it does not start with TWTRACE",
    }
}

/// Makes a placeholder until the header frame is read, which [`TraceReader::new`] does before it
/// returns.
fn unread_header() -> Header {
    Header {
        command: Vec::new(),
        host: String::new(),
        page_size: 0,
        window_instructions: 0,
        cache: CacheModel { size_bytes: 0, ways: 0, line_bytes: 0 },
    }
}

impl<R: Read + Seek + Send> WindowSource for TraceReader<R> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        window.clear();
        if self.ended {
            return Ok(false);
        }
        let start = self.offset;
        let result = self.read_window(window);
        if result.is_err() {
            window.clear();
            self.offset = start;
            self.input.seek(SeekFrom::Start(start)).map_err(|e| TraceError::io(&self.path, e))?;
        }
        result
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.offset = self.first_window;
        self.unpacked = self.header_unpacked;
        self.totals = Totals::default();
        self.lifetimes = Lifetimes::default();
        self.ended = false;
        self.input.seek(SeekFrom::Start(self.offset)).map_err(|e| TraceError::io(&self.path, e))?;
        Ok(())
    }
}
