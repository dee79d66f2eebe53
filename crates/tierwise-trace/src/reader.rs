//! Reads a trace, one window at a time.
//!
//! A trace may be damaged, or still be growing. The reader returns every window up to the first bad
//! byte, and then an error that names it. When the file was only incomplete, asking again later goes
//! on where it stopped: this is how a running recording is followed.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::format::frame::{HEAD_BYTES, Head, Kind};
use crate::format::lifetimes::Lifetimes;
use crate::format::{MAGIC, PREAMBLE_BYTES, Totals, VERSION, window_codec};
use crate::writer::io_error;
use crate::{CacheModel, Header, TraceError, Window, WindowSource};

/// Reads a trace. Memory is bounded by the largest window, whatever the bytes say.
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
    compressed: Vec<u8>,
    raw: Vec<u8>,
}

impl TraceReader<BufReader<File>> {
    /// Opens the file at `path` and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or is not a trace of a version this reader knows.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|source| io_error(path, source))?;
        Self::new(path, BufReader::new(file))
    }
}

impl<R: Read + Seek> TraceReader<R> {
    /// Reads from `input`; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn new(name: impl Into<PathBuf>, input: R) -> Result<Self, TraceError> {
        let path = name.into();
        let decompressor =
            zstd::bulk::Decompressor::new().map_err(|source| io_error(&path, source))?;
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
        let mut bytes = [0; PREAMBLE_BYTES as usize];
        self.read_exact(&mut bytes)?;
        let (magic, version) = bytes.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(self.corrupt("not a trace: it does not begin with TWTRACE"));
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
        if kind != Kind::Header {
            return Err(self.corrupt("the first frame is not a header"));
        }
        self.header = serde_json::from_slice(&self.raw)
            .map_err(|e| self.corrupt(format!("the header is no JSON of a header: {e}")))?;
        self.offset += length;
        self.first_window = self.offset;
        Ok(())
    }

    /// Reads and unpacks the frame at the offset into `raw`; returns its kind and length in the file.
    fn read_frame(&mut self) -> Result<(Kind, u64), TraceError> {
        let mut bytes = [0; HEAD_BYTES];
        self.read_exact(&mut bytes)?;
        let head = Head::from_bytes(&bytes).map_err(|reason| self.corrupt(reason))?;
        self.compressed.clear();
        // Through `take`, so that a false length costs no more than the file has bytes.
        let read = (&mut self.input)
            .take(u64::from(head.compressed))
            .read_to_end(&mut self.compressed)
            .map_err(|source| io_error(&self.path, source))?;
        if read != head.compressed as usize {
            return Err(self.incomplete(&format!("{read} of {} bytes of data", head.compressed)));
        }
        let crc = head.checksum(&self.compressed);
        if crc != head.crc {
            return Err(self.corrupt(format!("checksum {crc:08x}, expected {:08x}", head.crc)));
        }
        self.unpack(head.raw as usize)?;
        Ok((head.kind, (HEAD_BYTES + read) as u64))
    }

    fn unpack(&mut self, length: usize) -> Result<(), TraceError> {
        self.raw.clear();
        self.raw.reserve(length);
        let unpacked = self.decompressor.decompress_to_buffer(&self.compressed, &mut self.raw);
        match unpacked {
            Ok(bytes) if bytes == length => Ok(()),
            Ok(bytes) => Err(self.corrupt(format!("unpacks to {bytes} bytes, expected {length}"))),
            Err(e) => Err(self.corrupt(format!("the data is no zstd frame: {e}"))),
        }
    }

    fn end(&mut self, length: u64) -> Result<bool, TraceError> {
        let totals = Totals::decode(&self.raw).map_err(|reason| self.corrupt(reason))?;
        if totals != self.totals {
            return Err(self.corrupt(format!(
                "the end says {totals:?} and the windows before it add up to {:?}",
                self.totals
            )));
        }
        let mut more = [0];
        let read = self.input.read(&mut more).map_err(|source| io_error(&self.path, source))?;
        self.offset += length;
        if read != 0 {
            return Err(self.corrupt("bytes after the end of the trace"));
        }
        self.ended = true;
        Ok(false)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), TraceError> {
        self.input.read_exact(bytes).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => self.incomplete("no whole frame"),
            _ => io_error(&self.path, source),
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
            Kind::Window => {}
            Kind::End => return self.end(length),
            Kind::Header => return Err(self.corrupt("a second header")),
        }
        window_codec::decode(&self.raw, self.totals.pages, window)
            .and_then(|()| self.lifetimes.admit(window))
            .map_err(|reason| self.corrupt(reason))?;
        self.totals.add(window);
        self.offset += length;
        Ok(true)
    }
}

/// Stands in until the header frame has been read, which [`TraceReader::new`] does before it returns.
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
            self.input.seek(SeekFrom::Start(start)).map_err(|e| io_error(&self.path, e))?;
        }
        result
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.offset = self.first_window;
        self.totals = Totals::default();
        self.lifetimes = Lifetimes::default();
        self.ended = false;
        self.input.seek(SeekFrom::Start(self.offset)).map_err(|e| io_error(&self.path, e))?;
        Ok(())
    }
}
