//! A frame's head, and the limits that keep a damaged one from costing memory.

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The trace's header, as JSON; the first frame.
    Header,
    /// One window.
    Window,
    /// Totals; the last frame.
    End,
}

impl Kind {
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

/// The most that a frame may hold when unpacked: a window that touches 16 million pages (64 GiB) at
/// a generous 16 bytes a row.
pub const MAX_RAW_BYTES: u32 = 1 << 28;

/// zstd's smallest block of equal bytes takes 4 bytes and yields 128 KiB, a ratio of 32 Ki; twice that
/// leaves room. A frame that claims more is damaged.
const MAX_RATIO: u64 = 1 << 16;

/// A frame's head, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What the frame holds.
    pub kind: Kind,
    /// Bytes of data that follow.
    pub compressed: u32,
    /// Bytes they unpack to.
    pub raw: u32,
    /// CRC-32 of the head before this field, and of the data.
    pub crc: u32,
}

impl Head {
    /// The head for `data`, which unpacks to `raw` bytes.
    ///
    /// # Errors
    /// More than a frame may hold.
    pub fn new(kind: Kind, raw: usize, data: &[u8]) -> Result<Self, String> {
        let checked = |n: usize| u32::try_from(n).ok().filter(|&n| n <= MAX_RAW_BYTES);
        let (Some(raw), Some(compressed)) = (checked(raw), checked(data.len())) else {
            return Err(format!(
                "the window takes {raw} bytes and a frame holds {MAX_RAW_BYTES}; use shorter windows"
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

    /// As in the file.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = self.kind.byte();
        bytes[1..5].copy_from_slice(&self.compressed.to_le_bytes());
        bytes[5..9].copy_from_slice(&self.raw.to_le_bytes());
        bytes[9..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// From the file.
    ///
    /// # Errors
    /// An unknown kind, or sizes that no writer produces.
    pub fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Result<Self, String> {
        let kind = match bytes[0] {
            b'H' => Kind::Header,
            b'W' => Kind::Window,
            b'E' => Kind::End,
            other => return Err(format!("frame kind {other:#04x}; expected H, W or E")),
        };
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let head = Self { kind, compressed: word(1), raw: word(5), crc: word(9) };
        if head.raw > MAX_RAW_BYTES || head.compressed > MAX_RAW_BYTES {
            return Err(format!("a frame of {} bytes; at most {MAX_RAW_BYTES}", head.raw));
        }
        if u64::from(head.raw) > u64::from(head.compressed) * MAX_RATIO {
            return Err(format!("{} bytes cannot unpack to {}", head.compressed, head.raw));
        }
        Ok(head)
    }
}
