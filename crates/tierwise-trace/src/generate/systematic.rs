//! Exact mode: a window's counts are the expectations, rounded by error diffusion.
//!
//! With F the cumulative distribution and A accesses in a window, rank r gets `floor(A F(r + 1) +
//! u) - floor(A F(r) + u)` of them. The counts add up to A, any range of ranks gets its share to
//! within one access, and with u stepping by the golden ratio each window the average over windows
//! converges to the expectation as 1 / windows (Weyl's equidistribution), where drawing at random
//! converges as 1 / sqrt. This is systematic sampling, and needs no table.

/// The fractional part of the golden ratio: of all steps it fills the unit interval most evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// The rounding offset of a window.
pub(super) fn offset(window: u64) -> f64 {
    (window as f64 * GOLDEN).fract()
}

/// Calls `emit(rank, count)` for every rank below `ranks` that gets accesses, ascending.
///
/// `cumulative(k)` is the probability of the first k ranks.
pub(super) fn allot(
    ranks: u64,
    accesses: u64,
    offset: f64,
    cumulative: impl Fn(u64) -> f64,
    mut emit: impl FnMut(u64, u32),
) {
    let through = |rank: u64| {
        if rank + 1 >= ranks {
            return accesses;
        }
        ((accesses as f64 * cumulative(rank + 1) + offset) as u64).min(accesses)
    };
    let (mut rank, mut done) = (0, 0);
    while done < accesses && rank < ranks {
        rank = first_beyond(rank, ranks - 1, done, through);
        let total = through(rank);
        emit(rank, u32::try_from(total - done).unwrap_or(u32::MAX));
        done = total;
        rank += 1;
    }
}

/// The first rank from `from` to `last` whose total exceeds `done`: searches in growing steps, then
/// by halves.
fn first_beyond(from: u64, last: u64, done: u64, through: impl Fn(u64) -> u64) -> u64 {
    let (mut low, mut high, mut step) = (from, from, 1);
    while high < last && through(high) <= done {
        low = high + 1;
        high = last.min(high + step);
        step *= 2;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if through(middle) > done {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Splits a stream of counts into loads and stores, stores being exactly `write_ratio` of the
/// whole.
pub(super) struct WriteSplit {
    write_ratio: f64,
    accesses: u64,
    stores: u64,
}

impl WriteSplit {
    pub(super) fn new(write_ratio: f64) -> Self {
        Self { write_ratio, accesses: 0, stores: 0 }
    }

    /// The stores among the next `count` accesses.
    pub(super) fn stores(&mut self, count: u32) -> u32 {
        self.accesses += u64::from(count);
        let total = (self.accesses as f64 * self.write_ratio).round() as u64;
        let stores = (total - self.stores).min(u64::from(count));
        self.stores += stores;
        stores as u32
    }
}
