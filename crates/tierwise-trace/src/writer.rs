//! Writes a trace, one window at a time.
//!
//! ```
//! use tierwise_trace::reader::TraceReader;
//! use tierwise_trace::writer::TraceWriter;
//! use tierwise_trace::{CacheModel, Header, Window, WindowSource};
//! # fn main() -> Result<(), tierwise_trace::TraceError> {
//! let header = Header {
//!     command: vec!["example".into()],
//!     host: "this one".into(),
//!     page_size: 4096,
//!     window_instructions: 1000,
//!     cache: CacheModel { size_bytes: 32 << 20, ways: 16, line_bytes: 64 },
//! };
//! let mut writer = TraceWriter::new("in memory", Vec::new(), &header, Default::default())?;
//! writer.push(&Window { instructions: 1000, ..Window::default() })?;
//! let (file, totals) = writer.finish()?;
//! assert_eq!(totals.instructions, 1000);
//!
//! let mut reader = TraceReader::new("in memory", std::io::Cursor::new(file))?;
//! let mut window = Window::default();
//! assert!(reader.next_window(&mut window)?);
//! assert_eq!(window.instructions, 1000);
//! assert!(!reader.next_window(&mut window)?);
//! # Ok(())
//! # }
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::format::frame::{self, FrameKind, HEAD_BYTES, Head};
use crate::format::lifetimes::Lifetimes;
use crate::format::{MAGIC, Totals, VERSION, window_codec};
use crate::new_trace::NewTrace;
use crate::{Header, TraceError, Window, WindowSource};

/// Options of a trace writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// zstd level, 1 to 19.
    pub level: i32,
    /// True to replace an existing file.
    pub overwrite: bool,
}

impl Default for WriterOptions {
    /// Level 12: on recorded traces, higher levels gain little and delay the guest.
    fn default() -> Self {
        Self { level: 12, overwrite: false }
    }
}

/// Writes a trace. Each window is flushed as a whole, so that a reader can follow a file that
/// grows.
pub struct TraceWriter<W: Write> {
    path: PathBuf,
    out: W,
    compressor: zstd::bulk::Compressor<'static>,
    totals: Totals,
    lifetimes: Lifetimes,
    bytes: u64,
    /// Bytes up to the end of the last whole frame.
    whole: u64,
    /// Unpacked bytes of all frames so far.
    unpacked: u64,
    raw: Vec<u8>,
}

impl TraceWriter<BufWriter<File>> {
    /// Writes to a new file, from its start.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn of(
        new: &NewTrace,
        path: &Path,
        header: &Header,
        options: WriterOptions,
    ) -> Result<Self, TraceError> {
        Self::new(path, BufWriter::new(new.file()?), header, options)
    }

    /// Closes the trace after its last whole window, even if writing another one has failed: a full
    /// disk has space for the end frame once the broken window is cut off.
    ///
    /// # Errors
    /// Not even the end frame can be written; the part before it is still usable.
    pub fn close(self) -> Result<(Totals, u64), TraceError> {
        let failed = |source| TraceError::io(&self.path, source);
        // The rest of the buffer belongs to the broken window.
        let (mut file, _) = self.out.into_parts();
        file.set_len(self.whole).map_err(failed)?;
        file.seek(SeekFrom::Start(self.whole)).map_err(failed)?;
        let mut raw = Vec::new();
        self.totals.encode(&mut raw);
        let data = zstd::bulk::compress(&raw, 1).map_err(failed)?;
        let head = Head::new(FrameKind::End, raw.len(), &data)
            .map_err(|reason| failed(io::Error::new(io::ErrorKind::InvalidInput, reason)))?;
        let frame = [&head.to_bytes()[..], &data].concat();
        file.write_all(&frame).map_err(failed)?;
        Ok((self.totals, self.whole + frame.len() as u64))
    }

    /// Creates the file at `path`, where no file may exist.
    ///
    /// # Errors
    /// A file exists there, or the file cannot be written.
    pub fn create(
        path: &Path,
        header: &Header,
        options: WriterOptions,
    ) -> Result<Self, TraceError> {
        Self::of(&NewTrace::create(path, false)?, path, header, options)
    }
}

impl<W: Write> TraceWriter<W> {
    /// Writes to `out`, which errors name `name`.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(
        name: impl Into<PathBuf>,
        out: W,
        header: &Header,
        options: WriterOptions,
    ) -> Result<Self, TraceError> {
        let path = name.into();
        let compressor = zstd::bulk::Compressor::new(options.level.clamp(1, 19))
            .map_err(|source| TraceError::io(&path, source))?;
        let mut writer = Self {
            path,
            out,
            compressor,
            totals: Totals::default(),
            lifetimes: Lifetimes::default(),
            bytes: 0,
            whole: 0,
            unpacked: 0,
            raw: Vec::new(),
        };
        writer.write(&MAGIC)?;
        writer.write(&VERSION.to_le_bytes())?;
        writer.raw = serde_json::to_vec(header).map_err(|e| writer.error(e.into()))?;
        writer.frame(FrameKind::Header)?;
        Ok(writer)
    }

    /// Appends a window.
    ///
    /// # Errors
    /// The window breaks a rule of the data model (pages out of order, never allocated, or
    /// unmapped), or writing failed.
    pub fn push(&mut self, window: &Window) -> Result<(), TraceError> {
        self.raw.clear();
        window_codec::encode(window, self.totals.pages, &mut self.raw)
            .and_then(|()| self.lifetimes.admit(window))
            .map_err(|reason| self.invalid(&reason))?;
        self.frame(FrameKind::Window)?;
        self.totals.add(window);
        Ok(())
    }

    /// Writes the end frame; without it the trace counts as incomplete.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(mut self) -> Result<(W, Totals), TraceError> {
        self.raw.clear();
        self.totals.encode(&mut self.raw);
        self.frame(FrameKind::End)?;
        Ok((self.out, self.totals))
    }

    /// Totals so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Compresses `raw` and writes it as one frame.
    fn frame(&mut self, kind: FrameKind) -> Result<(), TraceError> {
        let mut data = self.compressor.compress(&self.raw).map_err(|source| self.error(source))?;
        let unpacked = self.unpacked + self.raw.len() as u64;
        let end = self.bytes + (HEAD_BYTES + data.len()) as u64;
        frame::pad(&mut data, end, unpacked);
        let head =
            Head::new(kind, self.raw.len(), &data).map_err(|reason| self.invalid(&reason))?;
        self.write(&head.to_bytes())?;
        self.write(&data)?;
        self.unpacked = unpacked;
        self.out.flush().map_err(|source| TraceError::io(&self.path, source))?;
        self.whole = self.bytes;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|source| TraceError::io(&self.path, source))
    }

    fn error(&self, source: io::Error) -> TraceError {
        TraceError::io(&self.path, source)
    }

    fn invalid(&self, reason: &str) -> TraceError {
        let reason = format!("window {}: {reason}", self.totals.windows);
        self.error(io::Error::new(io::ErrorKind::InvalidInput, reason))
    }
}

/// Writes a whole source to the file at `path`: beside it first, then renamed, so that `path` never
/// holds half a trace.
///
/// # Errors
/// The source is damaged, the file exists and [`WriterOptions::overwrite`] is off, or writing
/// failed.
pub fn write_trace(
    path: &Path,
    source: &mut dyn WindowSource,
    options: WriterOptions,
) -> Result<Totals, TraceError> {
    beside(path, options.overwrite, |file| {
        let mut writer = TraceWriter::new(path, BufWriter::new(file), source.header(), options)?;
        let mut window = Window::default();
        while source.next_window(&mut window)? {
            writer.push(&window)?;
        }
        writer.finish().map(|(_, totals)| totals)
    })
}

/// Calls `write` to fill a file, which then appears at `path`.
pub(crate) fn beside<T>(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(&mut File) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let new = NewTrace::beside(path, overwrite)?;
    match new.file().and_then(|mut file| write(&mut file)) {
        Ok(result) => new.finish().map(|()| result),
        Err(error) => {
            new.discard();
            Err(error)
        }
    }
}
