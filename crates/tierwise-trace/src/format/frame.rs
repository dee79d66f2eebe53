//! A frame's head, and the limits on the memory that a damaged frame can take.

/// The content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// The trace's header, as JSON; the first frame.
    Header,
    /// One window.
    Window,
    /// Totals; the last frame.
    End,
}

impl FrameKind {
    fn byte(self) -> u8 {
        match self {
            Self::Header => b'H',
            Self::Window => b'W',
            Self::End => b'E',
        }
    }
}

/// Bytes in front of a frame's data.
pub const HEAD_BYTES: usize = 13;

/// Maximum of unpacked bytes of a frame: those of a window that touches 16 million pages (64 GiB)
/// at 16 bytes per row, which is more than a row takes.
pub const MAX_RAW_BYTES: u32 = 1 << 28;

/// Maximum of bytes to which one byte of a file may unpack, on average from its start. Recorded
/// programs reach 5, so 64 leaves a margin. An unpacked window takes some 20 times its packed
/// columns, so this bounds the memory that a small file can make a reader allocate.
pub const MAX_RATIO: u64 = 64;

/// Bytes to which any file may unpack beyond [`MAX_RATIO`]: short traces of regular programs
/// compress better.
pub const ALLOWANCE_BYTES: u64 = 256 << 10;

/// Returns the maximum of bytes to which all frames in the first `file_bytes` of a file may unpack.
#[must_use]
pub const fn max_unpacked(file_bytes: u64) -> u64 {
    ALLOWANCE_BYTES.saturating_add(file_bytes.saturating_mul(MAX_RATIO))
}

/// zstd's first magic number of a frame that decompressors skip.
const SKIPPABLE: u32 = 0x184D_2A50;

/// Bytes in front of a skippable frame's content: its magic number and its length.
const SKIPPABLE_HEAD: u64 = 8;

/// Adds a frame that every zstd decompressor skips to `data`, so that a file in which `data` ends
/// at `end` may unpack to `unpacked` bytes.
pub(crate) fn pad(data: &mut Vec<u8>, end: u64, unpacked: u64) {
    let wanted = unpacked.saturating_sub(ALLOWANCE_BYTES).div_ceil(MAX_RATIO);
    let Some(missing) = wanted.checked_sub(end).filter(|&missing| missing > 0) else { return };
    let content = missing.saturating_sub(SKIPPABLE_HEAD) as u32;
    data.extend(SKIPPABLE.to_le_bytes());
    data.extend(content.to_le_bytes());
    data.resize(data.len() + content as usize, 0);
}

/// A frame's head, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The frame's content.
    pub kind: FrameKind,
    /// Bytes of data that follow.
    pub compressed: u32,
    /// Bytes to which they unpack.
    pub raw: u32,
    /// CRC-32 of the head before this field, and of the data.
    pub crc: u32,
}

impl Head {
    /// Makes the head for `data`, which unpacks to `raw` bytes.
    ///
    /// # Errors
    /// The data is more than a frame may hold.
    pub fn new(kind: FrameKind, raw: usize, data: &[u8]) -> Result<Self, String> {
        let checked = |n: usize| u32::try_from(n).ok().filter(|&n| n <= MAX_RAW_BYTES);
        let (Some(raw), Some(compressed)) = (checked(raw), checked(data.len())) else {
            return Err(format!(
                "the window takes {raw} bytes and a frame holds {MAX_RAW_BYTES}; use shorter \
                 windows"
            ));
        };
        let mut head = Self { kind, compressed, raw, crc: 0 };
        head.crc = head.checksum(data);
        Ok(head)
    }

    /// The CRC-32 that this head and `data` should have.
    #[must_use]
    pub fn checksum(&self, data: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.to_bytes()[..9]);
        hasher.update(data);
        hasher.finalize()
    }

    /// Returns the head as it is in the file.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = self.kind.byte();
        bytes[1..5].copy_from_slice(&self.compressed.to_le_bytes());
        bytes[5..9].copy_from_slice(&self.raw.to_le_bytes());
        bytes[9..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// Reads a head from the file's bytes.
    ///
    /// # Errors
    /// The kind is unknown, or no writer produces these sizes.
    pub fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Result<Self, String> {
        let kind = match bytes[0] {
            b'H' => FrameKind::Header,
            b'W' => FrameKind::Window,
            b'E' => FrameKind::End,
            other => return Err(format!("frame kind {other:#04x}; expected H, W or E")),
        };
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let head = Self { kind, compressed: word(1), raw: word(5), crc: word(9) };
        if head.raw > MAX_RAW_BYTES || head.compressed > MAX_RAW_BYTES {
            return Err(format!("a frame of {} bytes; at most {MAX_RAW_BYTES}", head.raw));
        }
        Ok(head)
    }
}
