//! Intel Flat Memory Mode, line by line (Memstrata, section 3.1).
//!
//! - *Exclusive*: a line is in fast or in slow memory, never in both, so software has the sum of
//!   both.
//! - *Direct-mapped*: line `l` can be in fast memory only at place `l mod F`, where `F` is the
//!   number of fast lines. With a ratio of 1:1 two lines share each place.
//! - The *tag* of a place identifies the line in it; one bit at 1:1.
//! - A *read* checks fast memory first. If the tag does not match, the line is fetched from slow
//!   memory and changes places with the line that was there: one slow read, one slow write, one
//!   fast write.
//! - A *write* is posted: it comes when the CPU's caches evict the line, no load waits for it,
//!   and it ends in fast memory. The whole line is written, so if its place holds another line in
//!   the meantime, that one goes to slow memory and nothing has to be fetched.
//!
//! With more than two lines per place, the tag alone still identifies every line's location: the
//! first line of a place belongs in fast memory and each other one in a slot of its own in slow
//! memory. When one of those is in fast memory, the first line is in its slot. So one more slow
//! read and one more slow write are needed when neither the line that enters fast memory nor the
//! one that leaves it is the first.

use super::{HardwareError, Ratio, ServedBy, Traffic, check_lines};

/// The location of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// At this place in fast memory.
    Fast(u32),
    /// At this line of slow memory.
    Slow(u32),
}

/// A memory controller in Flat Memory Mode. Lines are numbered from zero up to
/// [`FlatMemory::lines`].
#[derive(Debug, Clone)]
pub struct FlatMemory {
    /// The index of the line in fast memory, by place. At the start that is the first.
    tags: Vec<u8>,
    ratio: Ratio,
    traffic: Traffic,
}

impl FlatMemory {
    /// Creates a memory with this many fast lines, each medium's lines interleaved over its
    /// channels.
    ///
    /// # Errors
    /// There are no lines, more than 32 bits can number, or no channels.
    pub fn new(
        fast_lines: u64,
        ratio: Ratio,
        fast_channels: u32,
        slow_channels: u32,
    ) -> Result<Self, HardwareError> {
        let places = check_lines(fast_lines)?;
        // Slow lines are numbered in 32 bits too.
        check_lines(fast_lines * u64::from(ratio.ways() - 1))?;
        let traffic = Traffic::new(fast_channels, slow_channels)?;
        Ok(Self { tags: vec![0; places as usize], ratio, traffic })
    }

    /// Returns the lines that software has: those of both media.
    pub fn lines(&self) -> u64 {
        self.tags.len() as u64 * u64::from(self.ratio.ways())
    }

    /// Traffic of the channels so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    #[inline]
    fn decode(&self, line: u64) -> (u32, u8) {
        let places = self.tags.len() as u64;
        ((line % places) as u32, (line / places) as u8)
    }

    /// The slot in slow memory of a line other than the first of its place.
    #[inline]
    fn slot(&self, place: u32, tag: u8) -> u32 {
        u32::from(tag).saturating_sub(1).wrapping_mul(self.tags.len() as u32).wrapping_add(place)
    }

    /// Returns the location of a line.
    pub fn location(&self, line: u64) -> Location {
        let (place, tag) = self.decode(line);
        let resident = self.tags[place as usize];
        match tag {
            tag if tag == resident => Location::Fast(place),
            0 => Location::Slow(self.slot(place, resident)),
            tag => Location::Slow(self.slot(place, tag)),
        }
    }

    /// Serves a read that missed the CPU's caches: a load, or the fetch of a line before a write.
    /// Returns the memory that had the line.
    #[inline]
    pub fn read(&mut self, line: u64) -> ServedBy {
        let (place, tag) = self.decode(line);
        self.traffic.fast.read(place);
        let resident = self.tags[place as usize];
        if resident == tag {
            return ServedBy::Fast;
        }
        let slot = self.slot(place, if tag == 0 { resident } else { tag });
        self.traffic.slow.read(slot);
        self.bring(place, resident, tag);
        ServedBy::Slow
    }

    /// Writes a line that the CPU's caches evict after a store. Returns the memory that had the
    /// line.
    #[inline]
    pub fn write(&mut self, line: u64) -> ServedBy {
        let (place, tag) = self.decode(line);
        self.traffic.fast.read(place);
        let resident = self.tags[place as usize];
        if resident == tag {
            self.traffic.fast.write(place);
            return ServedBy::Fast;
        }
        self.bring(place, resident, tag);
        ServedBy::Slow
    }

    /// Moves a line, whose data the controller holds, into its place, and evicts the previous one.
    fn bring(&mut self, place: u32, resident: u8, tag: u8) {
        self.traffic.fast.write(place);
        let home = self.slot(place, resident);
        match (resident, tag) {
            (0, tag) => self.traffic.slow.write(self.slot(place, tag)),
            (_, 0) => self.traffic.slow.write(home),
            (_, tag) => {
                // The place's first line leaves for the line that returns to its own slot.
                self.traffic.slow.read(home);
                self.traffic.slow.write(self.slot(place, tag));
                self.traffic.slow.write(home);
            }
        }
        self.tags[place as usize] = tag;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn counts(memory: &FlatMemory) -> [u64; 4] {
        let Traffic { fast, slow } = memory.traffic();
        [fast.reads(), fast.writes(), slow.reads(), slow.writes()]
    }

    /// Two fast lines and two slow ones, by hand: 0 and 2 share place 0, 1 and 3 place 1.
    #[test]
    fn tiny_memory_matches_hand_computation() {
        use ServedBy::{Fast, Slow};
        let mut memory = FlatMemory::new(2, Ratio::ONE, 1, 1).unwrap();
        let served: Vec<ServedBy> = [0, 2, 0, 1, 3, 3, 2, 2].map(|line| memory.read(line)).to_vec();
        assert_eq!(served, [Fast, Slow, Slow, Fast, Slow, Fast, Slow, Fast]);
        // Eight tag checks; four misses, each a slow read, a slow write and a fast write.
        assert_eq!(counts(&memory), [8, 4, 4, 4]);
        let at = [0, 1, 2, 3].map(|line| memory.location(line));
        assert_eq!(
            at,
            [Location::Slow(0), Location::Slow(1), Location::Fast(0), Location::Fast(1)]
        );
    }

    #[test]
    fn a_posted_write_fetches_nothing() {
        let mut memory = FlatMemory::new(2, Ratio::ONE, 1, 1).unwrap();
        assert_eq!(memory.write(0), ServedBy::Fast);
        assert_eq!(memory.write(2), ServedBy::Slow);
        assert_eq!(memory.read(2), ServedBy::Fast);
        // Tag checks of all three; both writes end in fast memory; line 0 went to slow memory.
        assert_eq!(counts(&memory), [3, 2, 0, 1]);
    }

    /// Three lines per place, computed by hand: lines 0, 1 and 2 share the only place.
    #[test]
    fn one_to_two_ratio_places_first_line() {
        let mut memory = FlatMemory::new(1, Ratio::new(2).unwrap(), 1, 1).unwrap();
        let where_all = |m: &FlatMemory| [0, 1, 2].map(|line| m.location(line));
        memory.read(1);
        assert_eq!(where_all(&memory), [Location::Slow(0), Location::Fast(0), Location::Slow(1)]);
        assert_eq!(counts(&memory), [1, 1, 1, 1]);
        memory.read(2);
        assert_eq!(where_all(&memory), [Location::Slow(1), Location::Slow(0), Location::Fast(0)]);
        // One more slow read and write than a plain swap.
        assert_eq!(counts(&memory), [2, 2, 3, 3]);
        memory.read(0);
        assert_eq!(where_all(&memory), [Location::Fast(0), Location::Slow(0), Location::Slow(1)]);
        assert_eq!(counts(&memory), [3, 3, 4, 4]);
    }

    /// Formula: of independent, uniform reads of twice the fast memory one half misses.
    #[test]
    fn double_footprint_misses_half() {
        let lines = 1 << 12;
        let mut memory = FlatMemory::new(lines, Ratio::ONE, 12, 3).unwrap();
        let mut x = 1;
        let mut missed = 0;
        let reads = 1_000_000;
        for _ in 0..reads {
            x = crate::hash::mix(x);
            missed += u64::from(memory.read(x % (2 * lines)) == ServedBy::Slow);
        }
        // Four standard deviations of a fair coin.
        let limit = 4.0 * 0.5 / f64::from(reads).sqrt();
        let share = missed as f64 / f64::from(reads);
        assert!((share - 0.5).abs() < limit, "{share}");
    }

    #[test]
    fn neighbours_use_all_channels_alike() {
        let mut memory = FlatMemory::new(1200, Ratio::ONE, 12, 3).unwrap();
        (1200..2400).for_each(|line| {
            memory.read(line);
        });
        // Each of 1,200 lines is checked for and written in fast memory, and read and written in
        // slow memory.
        assert_eq!(memory.traffic().fast.busiest(), 2 * 1200 / 12);
        assert_eq!(memory.traffic().slow.busiest(), 2 * 1200 / 3);
    }

    #[test]
    fn impossible_memories_are_refused_with_limits() {
        let error = |lines, fast, slow| FlatMemory::new(lines, Ratio::ONE, fast, slow).unwrap_err();
        assert!(error(0, 1, 1).to_string().contains("found 0 fast lines; allowed: 1 to"));
        assert_eq!(error(1 << 33, 1, 1), HardwareError::Lines { found: 1 << 33 });
        assert_eq!(error(8, 0, 1), HardwareError::Channels { found: 0 });
        let ratio = Ratio::new(3).unwrap_err().to_string();
        assert_eq!(ratio, "found a ratio of 1:3; allowed: 1 (1:1), 2 (1:2), 4 (1:4)");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(5),
            ..ProptestConfig::default()
        })]

        /// Exclusive: after any accesses, every line is in exactly one tier, and no two share a
        /// place.
        #[test]
        fn a_line_lies_in_exactly_one_tier(
            ratio in prop::sample::select(vec![1u64, 2, 4]),
            accesses in prop::collection::vec((any::<u64>(), any::<bool>()), 0..200),
        ) {
            let ratio = Ratio::new(ratio).unwrap();
            let mut memory = FlatMemory::new(7, ratio, 2, 3).unwrap();
            for (line, is_write) in accesses {
                let line = line % memory.lines();
                if is_write { memory.write(line); } else { memory.read(line); }
                prop_assert_eq!(memory.location(line), Location::Fast((line % 7) as u32));
            }
            let mut at: Vec<Location> = (0..memory.lines()).map(|l| memory.location(l)).collect();
            at.sort_unstable();
            let slow = 7 * (ratio.ways() - 1);
            let all: Vec<Location> =
                (0..7).map(Location::Fast).chain((0..slow).map(Location::Slow)).collect();
            prop_assert_eq!(at, all);
        }
    }
}
