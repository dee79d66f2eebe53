//! The memory that a request touches: kinds of requests, each with groups of units, and a closed
//! form for each figure that a simulation of them measures.
//!
//! Memory is in units of equal size, numbered from 0 by the service itself. A touch of a unit is a
//! number of last-level misses that come together, because they are neighbours: a record of 1,000
//! bytes is 16 lines of one page. So a request needs few draws, however many lines it misses.

use super::alias::AliasTable;
use super::tier::TierCosts;

/// The distribution of touches over the units of a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Popularity {
    /// Each unit of a range with the same probability.
    Even {
        /// First unit.
        first: u32,
        /// Units.
        count: u32,
    },
    /// In proportion to weights.
    Weighted {
        /// First unit.
        first: u32,
        /// Probability of each from there.
        table: AliasTable,
    },
}

impl Popularity {
    /// Returns the unit that a uniform 64-bit number chooses.
    #[inline]
    pub fn choose(&self, draw: u64) -> u32 {
        match self {
            Self::Even { first, count } => {
                first + (((draw >> 32) * u64::from(*count)) >> 32) as u32
            }
            Self::Weighted { first, table } => first + table.choose(draw),
        }
    }

    /// Units with their probabilities.
    pub fn probabilities(&self) -> Vec<(u32, f64)> {
        match self {
            Self::Even { first, count } => {
                (*first..first + count).map(|unit| (unit, 1.0 / f64::from(*count))).collect()
            }
            Self::Weighted { first, table } => (*first..).zip(table.probabilities()).collect(),
        }
    }

    fn end(&self) -> u32 {
        match self {
            Self::Even { first, count } => first + count,
            Self::Weighted { first, table } => first + table.len() as u32,
        }
    }
}

/// Units that are alike to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitGroup {
    /// For people.
    pub name: &'static str,
    /// Touches per request. A fraction means that some requests make one more.
    pub touches: f64,
    /// Load misses per touch.
    pub loads: f64,
    /// Store misses per touch.
    pub stores: f64,
    /// Lines per touch that the processor's prefetchers bring in time: they take bandwidth, no
    /// request waits for them, and no sample or counter of misses sees them.
    pub prefetched: f64,
    /// The distribution over the units.
    pub units: Popularity,
}

impl UnitGroup {
    /// Time of one touch's misses in a tier.
    pub fn touch_ns(&self, tier: usize, costs: &TierCosts<'_>) -> f64 {
        self.loads * costs.load_ns[tier] + self.stores * costs.store_ns[tier]
    }
}

/// A kind of request.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestKind {
    /// For people.
    pub name: &'static str,
    /// Share of the requests.
    pub share: f64,
    /// CPU time in nanoseconds.
    pub cpu_ns: f64,
    /// The units that it touches.
    pub groups: Vec<UnitGroup>,
}

/// The units that the requests of a service touch.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// Units of the service: all its resident memory, whether requests touch it or not.
    pub units: u32,
    /// Kinds; their shares sum up to one.
    pub kinds: Vec<RequestKind>,
    /// Units that every request accesses in the caches: set in reference bits, never missed.
    pub cached: Vec<u32>,
}

impl Mix {
    /// Returns true if every unit that a request can touch exists.
    pub fn is_sound(&self) -> bool {
        let groups = self.kinds.iter().flat_map(|k| &k.groups);
        let shares: f64 = self.kinds.iter().map(|k| k.share).sum();
        (shares - 1.0).abs() < 1e-9
            && groups.clone().all(|g| g.units.end() <= self.units)
            && groups.clone().all(|g| g.touches >= 0.0 && g.loads >= 0.0 && g.stores >= 0.0)
            && groups.clone().all(|g| g.prefetched >= 0.0)
            && self.cached.iter().all(|&unit| unit < self.units)
    }

    /// Misses of a request, loads and stores, on average.
    pub fn misses(&self) -> (f64, f64) {
        self.kinds.iter().fold((0.0, 0.0), |(loads, stores), kind| {
            let of = |f: fn(&UnitGroup) -> f64| {
                kind.groups.iter().map(|g| g.touches * f(g)).sum::<f64>()
            };
            (loads + kind.share * of(|g| g.loads), stores + kind.share * of(|g| g.stores))
        })
    }

    /// Returns the average misses per request of each unit, by which a unit gains from a faster
    /// tier.
    pub fn misses_by_unit(&self) -> Vec<f64> {
        let mut misses = vec![0.0; self.units as usize];
        for kind in &self.kinds {
            for group in &kind.groups {
                let each = kind.share * group.touches * (group.loads + group.stores);
                for (unit, p) in group.units.probabilities() {
                    misses[unit as usize] += each * p;
                }
            }
        }
        misses
    }

    /// Mean and variance of a request's time, in nanoseconds, with everything in the fastest tier.
    /// The variance is that between kinds: within a kind, requests differ only by the tiers that
    /// they touch.
    pub fn all_fast(&self, costs: &TierCosts<'_>) -> (f64, f64) {
        let time = |kind: &RequestKind| {
            kind.cpu_ns + kind.groups.iter().map(|g| g.touches * g.touch_ns(0, costs)).sum::<f64>()
        };
        let mean: f64 = self.kinds.iter().map(|k| k.share * time(k)).sum();
        let variance = self.kinds.iter().map(|k| k.share * (time(k) - mean).powi(2)).sum();
        (mean, variance)
    }

    /// Mean time of a request, in nanoseconds, with each unit in its tier.
    pub fn mean_ns(&self, costs: &TierCosts<'_>, tier_of: &[u8]) -> f64 {
        let kind_ns = |kind: &RequestKind| {
            let memory = kind.groups.iter().map(|group| {
                let place = |(unit, p): (u32, f64)| {
                    p * group.touch_ns(usize::from(tier_of[unit as usize]), costs)
                };
                group.touches * group.units.probabilities().into_iter().map(place).sum::<f64>()
            });
            kind.cpu_ns + memory.sum::<f64>()
        };
        self.kinds.iter().map(|kind| kind.share * kind_ns(kind)).sum()
    }

    /// Returns a placement in two tiers that keeps this many units fast, those with most misses:
    /// the result of a policy that counts misses when no tenant competes.
    pub fn hottest_fast(&self, fast: u32) -> Vec<u8> {
        let misses = self.misses_by_unit();
        let mut units: Vec<u32> = (0..self.units).collect();
        units.sort_by(|&a, &b| misses[b as usize].total_cmp(&misses[a as usize]).then(a.cmp(&b)));
        let mut tier_of = vec![1; self.units as usize];
        units.iter().take(fast as usize).for_each(|&unit| tier_of[unit as usize] = 0);
        tier_of
    }
}
