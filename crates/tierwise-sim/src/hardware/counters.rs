//! The CPU's counters of a tenant, where the hardware manages a tier. Software has no other signal.
//!
//! The local misses of one tenant cannot be counted, because the memory controller does not know
//! cores (Memstrata, section 4.2). A core only knows the duration of its loads. The model's rules,
//! where a trace has no data:
//!
//! - A load that missed the last-level cache takes the present latency of its medium; the mean over
//!   all of them is the *L3 miss latency*.
//! - A trace has one cache. Misses of the L2 cache in front of it are [`L2_FACTOR`] times the last
//!   level's, and no more than there are loads; those that the last level holds take [`L3_HIT_NS`].
//! - A *page walk* takes [`WALK_NS`], and goes to memory in one of eight cases in which a load that
//!   missed the L2 cache does: a line of page table entries covers eight pages.
//! - *Memory requests* are all misses, and a write-back for each store that missed.
//! - *Misses in flight* are the scenario's `memory_level_parallelism`.

use tierwise_core::observe::CpuCounters;
use tierwise_trace::Window;

/// Misses of the L2 cache per miss of the last-level cache. Misses fall with the square root of a
/// cache's size (Hartstein et al., Computing Frontiers 2006), and a Xeon of today has some 2 MiB of
/// L2 and 32 MiB of L3 for a program of a few cores.
pub const L2_FACTOR: f64 = 4.0;

/// A load that the L3 cache serves: some 70 cycles at 2.3 GHz.
pub const L3_HIT_NS: f64 = 30.0;

/// A page walk whose last entry comes from the L3 cache, like
/// [`crate::costs::Costs::clear_bit_ns`].
pub const WALK_NS: f64 = 30.0;

/// A line of 64 bytes holds eight page table entries.
const ENTRIES_A_LINE: f64 = 8.0;

/// The demand of one pass over a window on the caches. It does not depend on the memory behind
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Demand {
    /// Loads that miss the last-level cache.
    pub loads: f64,
    /// Stores that miss the last-level cache.
    pub stores: f64,
    /// Loads that miss the L2 cache.
    pub l2_loads: f64,
    /// Instructions.
    pub instructions: f64,
}

impl Demand {
    /// Returns a window's demand.
    pub fn of(window: &Window) -> Self {
        let mut demand = Self { instructions: window.instructions as f64, ..Self::default() };
        for access in &window.accesses {
            let misses = f64::from(access.load_misses);
            demand.loads += misses;
            demand.stores += f64::from(access.store_misses);
            demand.l2_loads += (misses * L2_FACTOR).min(f64::from(access.loads)).max(misses);
        }
        demand
    }
}

/// Sums since the last observation, of which [`CounterSums::counters`] gives the means.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CounterSums {
    demand: Demand,
    /// Nanoseconds of all loads that missed the last-level cache.
    l3_ns: f64,
    /// Nanoseconds of all loads that missed the L2 cache.
    l2_ns: f64,
    /// Nanoseconds of the page walks, one for each load that missed the L2 cache.
    walk_ns: f64,
    /// Misses in flight, counted at each load that missed the last-level cache.
    in_flight: f64,
}

impl CounterSums {
    /// Adds a number of passes over a window whose load misses took `load_ns` on average, `overlap`
    /// of them at a time.
    pub fn add(&mut self, demand: &Demand, load_ns: f64, overlap: f64, passes: f64) {
        let l3_ns = demand.loads * load_ns;
        self.demand.loads += demand.loads * passes;
        self.demand.stores += demand.stores * passes;
        self.demand.l2_loads += demand.l2_loads * passes;
        self.demand.instructions += demand.instructions * passes;
        self.l3_ns += l3_ns * passes;
        self.l2_ns += (l3_ns + (demand.l2_loads - demand.loads) * L3_HIT_NS) * passes;
        self.walk_ns += (demand.l2_loads * WALK_NS + l3_ns / ENTRIES_A_LINE) * passes;
        self.in_flight += overlap * demand.loads * passes;
    }

    /// Returns the counts. The latency of no events is zero.
    pub fn counters(&self) -> CpuCounters {
        let mean = |sum: f64, count: f64| if count > 0.0 { sum / count } else { 0.0 };
        let Demand { loads, stores, l2_loads, instructions } = self.demand;
        CpuCounters {
            l3_miss_ns: mean(self.l3_ns, loads),
            l2_miss_ns: mean(self.l2_ns, l2_loads),
            dtlb_miss_ns: mean(self.walk_ns, l2_loads),
            l2_misses: l2_loads,
            memory_requests: loads + 2.0 * stores,
            misses_in_flight: mean(self.in_flight, loads),
            instructions,
        }
    }
}

#[cfg(test)]
mod tests {
    use tierwise_trace::PageAccess;

    use super::*;

    /// Ten loads of 100 miss, and so do five stores; memory takes 200 ns. Computed by hand.
    #[test]
    fn counters_are_means_of_their_inputs() {
        let access = PageAccess {
            page: 0,
            loads: 100,
            stores: 20,
            load_misses: 10,
            store_misses: 5,
            supervised: 0,
            thread: 0,
        };
        let window = Window { instructions: 1000, accesses: vec![access], ..Window::default() };
        let demand = Demand::of(&window);
        let mut tally = CounterSums::default();
        assert_eq!(tally.counters(), CpuCounters::default());
        tally.add(&demand, 200.0, 4.0, 3.0);
        let expected = CpuCounters {
            l3_miss_ns: 200.0,
            // 10 at 200 ns and 30 at 30 ns.
            l2_miss_ns: 72.5,
            // Each 30 ns, and 1.25 of the 40 go to memory.
            dtlb_miss_ns: 36.25,
            l2_misses: 120.0,
            memory_requests: 60.0,
            misses_in_flight: 4.0,
            instructions: 3000.0,
        };
        assert_eq!(tally.counters(), expected);
    }

    #[test]
    fn second_level_misses_stay_within_loads() {
        let access = PageAccess {
            page: 0,
            loads: 12,
            stores: 0,
            load_misses: 10,
            store_misses: 0,
            supervised: 0,
            thread: 0,
        };
        let window = Window { accesses: vec![access], ..Window::default() };
        assert_eq!(Demand::of(&window).l2_loads, 12.0);
    }
}
