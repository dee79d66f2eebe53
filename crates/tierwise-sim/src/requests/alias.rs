//! Walker's alias method: a draw from any discrete distribution in constant time.
//!
//! `rand_distr::WeightedAliasIndex` draws twice per sample, and keeps 12 bytes per entry in two
//! tables. Here one 64-bit draw gives the entry (upper half) and decides between it and its alias
//! (lower half), and an entry has 8 bytes. A request draws several times, and a simulation has
//! hundreds of millions of requests. The table is built as in Vose, IEEE Transactions on Software
//! Engineering 17(9), 1991. Probabilities are exact to 2^-32.
//!
//! ```
//! use tierwise_sim::requests::alias::AliasTable;
//!
//! let table = AliasTable::new(&[1.0, 3.0, 0.0]);
//! let p = table.probabilities();
//! assert!((p[0] - 0.25).abs() < 1e-9 && (p[1] - 0.75).abs() < 1e-9 && p[2] < 1e-9);
//! ```

use std::hint::select_unpredictable;

/// One entry: its own share of the slot, in 2^-32, and the entry with the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    own: u32,
    alias: u32,
}

/// A distribution over 0..n.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasTable {
    entries: Vec<Entry>,
}

/// 2^32: a whole slot in units of an entry's own share.
const SLOT: f64 = 4_294_967_296.0;

impl AliasTable {
    /// Makes a distribution in proportion to weights that are not negative; even, if they are all
    /// zero.
    pub fn new(weights: &[f64]) -> Self {
        let n = weights.len();
        let sum: f64 = weights.iter().sum();
        let scale = if sum > 0.0 { n as f64 / sum } else { 0.0 };
        let mut share: Vec<f64> =
            weights.iter().map(|w| if sum > 0.0 { w * scale } else { 1.0 }).collect();
        let mut entries: Vec<Entry> =
            (0..n as u32).map(|i| Entry { own: u32::MAX, alias: i }).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..n).partition(|&i| share[i] < 1.0);
        while let (Some(s), Some(&l)) = (small.pop(), large.last()) {
            entries[s] = Entry { own: (share[s] * SLOT) as u32, alias: l as u32 };
            share[l] -= 1.0 - share[s];
            if share[l] < 1.0 {
                large.pop();
                small.push(l);
            }
        }
        // A slot that rounding leaves over is full alone: it is its own alias.
        Self { entries }
    }

    /// Number of choices.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no choice.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the choice that a uniform 64-bit number makes.
    #[inline]
    pub fn choose(&self, draw: u64) -> u32 {
        let slot = (((draw >> 32) * self.entries.len() as u64) >> 32) as u32;
        let entry = self.entries[slot as usize];
        // A branch would be predicted wrong half of the time.
        select_unpredictable((draw as u32) < entry.own, slot, entry.alias)
    }

    /// Returns the probability of each choice.
    pub fn probabilities(&self) -> Vec<f64> {
        let n = self.entries.len() as f64;
        let mut p = vec![0.0; self.entries.len()];
        for (i, entry) in self.entries.iter().enumerate() {
            let own = f64::from(entry.own) / SLOT;
            p[i] += own / n;
            p[entry.alias as usize] += (1.0 - own) / n;
        }
        p
    }
}
