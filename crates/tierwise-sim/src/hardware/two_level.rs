//! 2LM, the memory mode of Optane modules: fast memory as an inclusive, direct-mapped cache of slow
//! memory, by lines of 64 bytes (Memstrata, section 2.4; Izraelevitz et al. 2019, section 2.1).
//! Software has the slow memory's capacity only.
//!
//! A read that misses is fetched from slow memory and kept; the line that was there is written back
//! if it was written to since. A posted write that misses takes the place in the same way, without
//! a fetch, because the whole line is written.

use super::{HardwareError, ServedBy, Traffic, check_lines};

/// The word of a place that holds no line.
const EMPTY: u16 = 0;
/// Set in the word of a place whose line was written to.
const DIRTY: u16 = 1 << 15;

/// A memory controller in 2LM. Lines are those of slow memory, numbered from zero.
#[derive(Debug, Clone)]
pub struct TwoLevelMemory {
    /// The index of the line in each place, plus one, and [`DIRTY`].
    words: Vec<u16>,
    slow_lines: u64,
    traffic: Traffic,
}

impl TwoLevelMemory {
    /// Maximum of slow lines that share a place: the values of a word without `DIRTY`, except
    /// `EMPTY`.
    pub const MAX_WAYS: u64 = (DIRTY - 1) as u64;

    /// Creates an empty cache of fast lines in front of slow lines.
    ///
    /// # Errors
    /// There are no fast lines or too many, no slow lines or more than the tags can distinguish, or
    /// no channels.
    pub fn new(
        fast_lines: u64,
        slow_lines: u64,
        fast_channels: u32,
        slow_channels: u32,
    ) -> Result<Self, HardwareError> {
        let places = check_lines(fast_lines)?;
        if slow_lines == 0 || slow_lines.div_ceil(fast_lines) > Self::MAX_WAYS {
            return Err(HardwareError::Slow { slow: slow_lines, fast: fast_lines });
        }
        let traffic = Traffic::new(fast_channels, slow_channels)?;
        Ok(Self { words: vec![EMPTY; places as usize], slow_lines, traffic })
    }

    /// Returns the lines that software has.
    pub fn lines(&self) -> u64 {
        self.slow_lines
    }

    /// Traffic of the channels so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Returns true if fast memory holds a copy of a line.
    pub fn holds(&self, line: u64) -> bool {
        let places = self.words.len() as u64;
        let word = self.words[(line % places) as usize] & !DIRTY;
        u64::from(word) == line / places + 1
    }

    /// Serves a read that missed the CPU's caches. Returns the memory that had the line.
    #[inline]
    pub fn read(&mut self, line: u64) -> ServedBy {
        self.access(line, false)
    }

    /// Writes a line that the CPU's caches evict after a store. Returns the memory that had the
    /// line.
    #[inline]
    pub fn write(&mut self, line: u64) -> ServedBy {
        self.access(line, true)
    }

    #[inline]
    fn access(&mut self, line: u64, is_write: bool) -> ServedBy {
        let places = self.words.len() as u64;
        let (place, tag) = ((line % places) as u32, (line / places) as u16 + 1);
        let word = self.words[place as usize];
        let dirty = if is_write { DIRTY } else { 0 };
        self.traffic.fast.read(place);
        if word & !DIRTY == tag {
            self.words[place as usize] = word | dirty;
            if is_write {
                self.traffic.fast.write(place);
            }
            return ServedBy::Fast;
        }
        if !is_write {
            self.traffic.slow.read(line as u32);
        }
        if word & DIRTY != 0 {
            let victim = u64::from(word & !DIRTY) - 1;
            self.traffic.slow.write((victim * places) as u32 + place);
        }
        self.traffic.fast.write(place);
        self.words[place as usize] = tag | dirty;
        ServedBy::Slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two places in front of six lines, by hand.
    #[test]
    fn tiny_cache_matches_hand_computation() {
        use ServedBy::{Fast, Slow};
        let mut memory = TwoLevelMemory::new(2, 6, 1, 1).unwrap();
        let reads = [0, 0, 2, 1].map(|line| memory.read(line));
        assert_eq!(reads, [Slow, Fast, Slow, Slow]);
        // Line 2 is written, then displaced by line 4: written back. Line 1 was only read: dropped.
        assert_eq!(memory.write(2), Fast);
        assert_eq!([memory.read(4), memory.read(5), memory.write(3)], [Slow, Slow, Slow]);
        assert_eq!([4, 3, 5, 1].map(|l| memory.holds(l)), [true, true, false, false]);
        let Traffic { fast, slow } = memory.traffic();
        // Eight tag checks; fills by 0, 2, 1, 4, 5 and 3 and the write of 2; fetches of 0, 2, 1, 4
        // and 5.
        assert_eq!([fast.reads(), fast.writes(), slow.reads(), slow.writes()], [8, 7, 5, 1]);
    }

    /// Formula: of independent, uniform reads of `n` times the cache, `1 - 1/n` miss.
    #[test]
    fn fourfold_footprint_misses_three_quarters() {
        let lines = 1 << 10;
        let mut memory = TwoLevelMemory::new(lines, 4 * lines, 6, 2).unwrap();
        let mut x = 7;
        let mut step = || {
            x = crate::hash::mix(x);
            x % (4 * lines)
        };
        (0..100_000).for_each(|_| {
            memory.read(step());
        });
        let reads = 1_000_000;
        let missed = (0..reads).filter(|_| memory.read(step()) == ServedBy::Slow).count();
        let share = missed as f64 / f64::from(reads);
        // Four standard deviations of a coin that falls so in three of four throws.
        assert!((share - 0.75).abs() < 4.0 * (0.1875 / f64::from(reads)).sqrt(), "{share}");
    }

    #[test]
    fn impossible_caches_are_refused() {
        let error = TwoLevelMemory::new(2, 0, 1, 1).unwrap_err();
        assert_eq!(error, HardwareError::Slow { slow: 0, fast: 2 });
        assert!(TwoLevelMemory::new(1, TwoLevelMemory::MAX_WAYS + 1, 1, 1).is_err());
        assert!(TwoLevelMemory::new(1, TwoLevelMemory::MAX_WAYS, 1, 1).is_ok());
    }
}
