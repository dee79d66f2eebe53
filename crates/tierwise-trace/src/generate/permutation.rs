//! A random permutation of 0..len without a table.
//!
//! A Feistel network permutes the numbers of an even count of bits with any round function (Luby
//! and Rackoff, 1988). A result outside 0..len is permuted again until it is inside, which keeps
//! the map one-to-one (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains",
//! 2002, section 4). A table would cost 4 bytes per page each way, 2 GB at 1 TB.

/// Rounds of the network. Four already hide the input from a chosen-text test (Luby and Rackoff),
/// far more than a scattered hot set needs.
const ROUNDS: u64 = 4;

#[derive(Debug, Clone)]
pub(super) struct Permutation {
    len: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// Makes a permutation of `0..len`, chosen by `seed`; `len` is at least 1 and at most 2^62.
    pub(super) fn new(len: u64, seed: u64) -> Self {
        let bits = (len.max(2) - 1).ilog2() + 1;
        Self { len, half_bits: bits.div_ceil(2), seed }
    }

    /// Returns the image of `from`.
    pub(super) fn apply(&self, from: u64) -> u64 {
        let mut value = from;
        loop {
            value = self.network(value, 0..ROUNDS);
            if value < self.len {
                return value;
            }
        }
    }

    /// Returns the number that is mapped to `to`.
    pub(super) fn invert(&self, to: u64) -> u64 {
        let mut value = to;
        loop {
            let swapped = self.swap_halves(value);
            value = self.swap_halves(self.network(swapped, (0..ROUNDS).rev()));
            if value < self.len {
                return value;
            }
        }
    }

    fn network(&self, value: u64, rounds: impl Iterator<Item = u64>) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in rounds {
            let key = self.seed.wrapping_add(round);
            (left, right) = (right, left ^ (mix(mix(key) ^ right) & mask));
        }
        (left << self.half_bits) | right
    }

    fn swap_halves(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        ((value & mask) << self.half_bits) | (value >> self.half_bits)
    }
}

/// Spreads every bit of `value` over the result: the finaliser of SplitMix64 (Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", 2014).
pub(super) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_one_to_one_and_back() {
        for len in [1, 2, 3, 64, 1000, 65_537] {
            let permutation = Permutation::new(len, 7);
            let mut seen = vec![false; len as usize];
            for from in 0..len {
                let to = permutation.apply(from);
                assert!(!seen[to as usize], "{to} is reached twice of {len}");
                seen[to as usize] = true;
                assert_eq!(permutation.invert(to), from);
            }
        }
    }

    #[test]
    fn low_range_scatters_over_both_halves() {
        let permutation = Permutation::new(65_536, 1);
        let low = (0..4096).filter(|&from| permutation.apply(from) < 32_768).count();
        assert!((1920..=2176).contains(&low), "half of the range, give or take 4 sigma: {low}");
    }
}
