//! The `.twt` file format.
//!
//! A trace file is a magic number, a version, and frames one after the other:
//!
//! ```text
//! "TWTRACE\0"  version u32
//! frame: kind u8 | compressed bytes u32 | raw bytes u32 | CRC-32 u32 | zstd data
//! ```
//!
//! All integers are little-endian. The checksum covers the frame's first nine bytes and its data.
//! The first frame (`H`) is the [`Header`](crate::Header) as JSON. One frame (`W`) per window
//! follows, and the last frame (`E`) has the totals. A file without an end frame is incomplete,
//! because the recording still runs or was killed. The frames before that are good.
//!
//! The frames of a file unpack to at most 64 times the bytes read so far and 256 KiB
//! ([`frame::max_unpacked`]); a reader refuses a frame beyond that limit, with its offset, before
//! it unpacks the frame. A writer keeps the limit: where a window compresses better, a frame that
//! zstd skips follows its data.
//!
//! A window's numbers are laid out in columns ([`window_codec`]), because a column's neighbours are
//! alike (page numbers ascend by one, most pages have no supervised access) and compress well.

pub mod frame;
pub(crate) mod lifetimes;
pub mod varint;
pub mod window_codec;

/// The first bytes of every trace.
pub const MAGIC: [u8; 8] = *b"TWTRACE\0";

/// The version of the format. It changes whenever an older reader would misread the file.
pub const VERSION: u32 = 1;

/// Bytes in front of the first frame.
pub const PREAMBLE_BYTES: u64 = 12;

/// Totals of a trace, kept in its end frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Windows in the file.
    pub windows: u64,
    /// Guest instructions of all windows.
    pub instructions: u64,
    /// Pages allocated.
    pub pages: u64,
    /// Rows of page accesses.
    pub accesses: u64,
}

impl Totals {
    /// Adds one window.
    pub fn add(&mut self, window: &crate::Window) {
        self.windows += 1;
        // The sum saturates: a damaged file may have any number.
        self.instructions = self.instructions.saturating_add(window.instructions);
        self.pages += window.allocations.len() as u64;
        self.accesses += window.accesses.len() as u64;
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for value in [self.windows, self.instructions, self.pages, self.accesses] {
            varint::put(out, value);
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut cursor = varint::Cursor::new(bytes);
        let totals = Self {
            windows: cursor.take()?,
            instructions: cursor.take()?,
            pages: cursor.take()?,
            accesses: cursor.take()?,
        };
        cursor.finish()?;
        Ok(totals)
    }
}
