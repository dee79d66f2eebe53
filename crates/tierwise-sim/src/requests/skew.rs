//! The popularity of records among requests, as weights of the units that hold them. Exact, not
//! sampled.

use super::alias::AliasTable;
use super::mix::Popularity;
use crate::hash::mix as scramble;

/// Ranks of a zipfian whose records are placed one by one; the rest is spread evenly. A unit holds
/// hundreds of records beyond the millionth, so their sum differs little from unit to unit.
const PLACED_RANKS: u64 = 1 << 20;

/// YCSB's default exponent (Cooper et al., SoCC 2010, section 4.2.1, and its `zipfianconstant`).
pub const YCSB_THETA: f64 = 0.99;

/// The popularity of records among requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// All alike.
    Even,
    /// The record of rank r in proportion to `r^-theta`, with records in an order that is
    /// independent of their ranks (YCSB's scrambled zipfian).
    Zipfian(f64),
}

impl Skew {
    /// Popularity of `count` units from `first` on that hold `records` records.
    pub fn over(self, records: u64, first: u32, count: u32) -> Popularity {
        match self {
            Self::Even => Popularity::Even { first, count },
            Self::Zipfian(theta) => {
                let table = AliasTable::new(&zipfian(theta, records, count));
                Popularity::Weighted { first, table }
            }
        }
    }
}

fn zipfian(theta: f64, records: u64, units: u32) -> Vec<f64> {
    let placed = records.min(PLACED_RANKS);
    // The sum of r^-theta over the ranks beyond, by its integral from half a rank before the first.
    let power = 1.0 - theta;
    let integral = |to: f64| if power == 0.0 { to.ln() } else { to.powf(power) / power };
    let rest = integral(records as f64 + 0.5) - integral(placed as f64 + 0.5);
    let mut weights = vec![rest / f64::from(units); units as usize];
    for rank in 1..=placed {
        let unit = ((u128::from(scramble(rank)) * u128::from(units)) >> 64) as usize;
        weights[unit] += (rank as f64).powf(-theta);
    }
    weights
}

/// Probability of each of the numbers 1 to `n` under TPC-C's `NURand(2^bits - 1, 1, n)` (clause
/// 2.1.6): `((random(0, 2^bits - 1) | random(1, n)) + constant) % n + 1`.
///
/// Given the lower bits b of the second number, the first sets each bit that b has not with
/// probability one half, so b leads to each of its supersets with the same probability; their sums
/// are made bit by bit.
///
/// ```
/// use tierwise_sim::requests::skew::nurand;
///
/// // One bit, n = 2: of 0|1, 1|1, 0|2 and 1|2 only the third is 0 modulo 2, and gives 1.
/// assert_eq!(nurand(1, 2, 0), [0.25, 0.75]);
/// ```
pub fn nurand(bits: u32, n: u64, constant: u64) -> Vec<f64> {
    let block = 1u64 << bits;
    let mut p = vec![0.0; n as usize];
    let mut sums = vec![0.0; block as usize];
    for high in 0..=n >> bits {
        for low in 0..block {
            let value = high << bits | low;
            let possible = (1..=n).contains(&value);
            let supersets = f64::from(1u32 << (bits - low.count_ones()));
            sums[low as usize] = if possible { 1.0 / (n as f64 * supersets) } else { 0.0 };
        }
        for bit in 0..bits {
            for low in (0..block as usize).filter(|low| low >> bit & 1 == 1) {
                sums[low] += sums[low ^ 1 << bit];
            }
        }
        for (low, sum) in sums.iter().enumerate() {
            p[(((high << bits | low as u64) + constant) % n) as usize] += sum;
        }
    }
    p
}

/// Weights of `units` units that hold `cycles` copies of the same rows one after another.
pub fn repeated(rows: &[f64], cycles: u64, units: u32) -> Vec<f64> {
    let mut sums = Vec::with_capacity(rows.len() + 1);
    let mut sum = 0.0;
    sums.push(0.0);
    sums.extend(rows.iter().map(|p| {
        sum += p;
        sum
    }));
    let per_cycle = rows.len() as u64;
    let up_to = |unit: u32| {
        let row = u128::from(cycles * per_cycle) * u128::from(unit) / u128::from(units.max(1));
        let row = row as u64;
        (row / per_cycle) as f64 * sum + sums[(row % per_cycle) as usize]
    };
    (0..units).map(|unit| up_to(unit + 1) - up_to(unit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nurand_is_what_counting_all_pairs_gives() {
        let (bits, n, constant) = (5, 75, 11);
        let mut counted = vec![0.0; n as usize];
        for a in 0..1u64 << bits {
            for b in 1..=n {
                counted[(((a | b) + constant) % n) as usize] += 1.0 / (n as f64 * 32.0);
            }
        }
        for (p, q) in nurand(bits, n, constant).iter().zip(&counted) {
            assert!((p - q).abs() < 1e-12);
        }
    }

    #[test]
    fn zipfian_weights_sum_to_harmonic_number() {
        // Beyond the millionth rank the sum is an integral; it must not show.
        let records = 3_000_000u64;
        let harmonic: f64 = (1..=records).map(|r| (r as f64).powf(-YCSB_THETA)).sum();
        let sum: f64 = zipfian(YCSB_THETA, records, 500).iter().sum();
        assert!((sum / harmonic - 1.0).abs() < 1e-9, "{sum} {harmonic}");
    }

    #[test]
    fn repeated_rows_fill_units_in_order() {
        // Two copies of 0.75, 0.25 over four units: a row each; over two units: a copy each.
        assert_eq!(repeated(&[0.75, 0.25], 2, 4), [0.75, 0.25, 0.75, 0.25]);
        assert_eq!(repeated(&[0.75, 0.25], 2, 2), [1.0, 1.0]);
    }
}
