//! Integers in as few bytes as they need: seven bits per byte, the low ones first (LEB128).
//!
//! ```
//! use tierwise_trace::format::varint;
//! let mut bytes = Vec::new();
//! varint::put(&mut bytes, 300);
//! assert_eq!(bytes, [0xac, 0x02]); // 300 = 2 * 128 + 44
//! assert_eq!(varint::Cursor::new(&bytes).take(), Ok(300));
//! assert_eq!(varint::zigzag(-2), 3); // small magnitudes of either sign stay small
//! assert_eq!(varint::unzigzag(3), -2);
//! ```

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Folds the sign into the lowest bit.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads numbers from a byte slice.
#[derive(Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next number.
    ///
    /// # Errors
    /// The bytes end within a number, or it does not fit 64 bits.
    #[inline]
    pub fn take(&mut self) -> Result<u64, String> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.take_long(),
        }
    }

    fn take_long(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(format!("the frame's data ends within a number, at {}", self.at));
            };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(format!("a number in the frame's data exceeds 64 bits, before {}", self.at))
    }

    /// The next number, as a narrower type.
    ///
    /// # Errors
    /// Those of [`Cursor::take`], and a number that does not fit.
    #[inline]
    pub fn take_as<T: TryFrom<u64>>(&mut self) -> Result<T, String> {
        let value = self.take()?;
        T::try_from(value).map_err(|_| {
            format!("{value} does not fit {} at {}", std::any::type_name::<T>(), self.at)
        })
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else {
            return Err(format!("{length} bytes announced, {} left", self.remaining()));
        };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// Bytes not read yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Checks that everything has been read.
    ///
    /// # Errors
    /// Bytes are left over.
    pub fn finish(&self) -> Result<(), String> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(format!("{left} bytes too many in the frame's data")),
        }
    }
}
