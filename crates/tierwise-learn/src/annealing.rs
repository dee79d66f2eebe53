//! MTAT's division of fast memory among best-effort tenants: simulated annealing (section 3.2.2,
//! algorithm 2).
//!
//! Each iteration draws two tenants and moves a step of memory from one to the other. The search
//! keeps a better division. With probability `exp(-d / T)` it also keeps one that is worse by `d`,
//! so that it leaves local optima. The temperature `T` decays by a factor at each iteration, and
//! the best division found is the answer.
//!
//! ```
//! use tierwise_core::learn::Objective;
//! use tierwise_learn::anneal;
//!
//! /// The second tenant needs three times as much for the same performance.
//! struct Smallest;
//!
//! impl Objective for Smallest {
//!     fn performance(&self, place: usize, units: u64) -> f64 {
//!         (units as f64 / [30.0, 90.0][place]).min(1.0)
//!     }
//!     fn step(&self) -> u64 {
//!         1
//!     }
//! }
//!
//! assert_eq!(anneal(&Smallest, &[40, 40], 1), [20, 60]);
//! ```
//!
//! The crate argmin has simulated annealing too. It does not fit, for two reasons. It accepts a
//! worse solution with probability `1 / (1 + exp(d / T))` (`SimulatedAnnealing::next_iter`), half
//! of algorithm 2's at high temperatures, and the caller cannot choose another. It owns a clone of
//! its problem, while an [`Objective`] is borrowed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tierwise_core::learn::Objective;

/// T at the start, in units of normalised performance: a step that costs a tenth of the smallest
/// performance is accepted with probability 0.37. The paper determined its own value by experiment
/// and does not publish it.
const FIRST_TEMPERATURE: f64 = 0.1;

/// T at the end: a step that costs a thousandth is accepted with probability 0.00005.
const LAST_TEMPERATURE: f64 = 1e-4;

/// Iterations per tenant. An even part is eight steps or more. With n tenants, one in n of the
/// pairs drawn concerns the worst-off tenant. A thousand iterations per tenant let its part cross
/// the range some ten times.
const ITERATIONS: u64 = 1000;

/// The maximum number of iterations of one search. They take 7 ms, at 110 ns each
/// (`examples/annealing_speed.rs`). With more than 64 tenants each has fewer, and the result is
/// further from the optimum.
const MAX: u64 = 64_000;

/// A tournament tree: it keeps the smallest of several numbers while some of them change.
struct Tournament {
    /// The second half holds the numbers. Each earlier node is the smaller of its two children.
    tree: Vec<f64>,
}

impl Tournament {
    fn new(numbers: impl ExactSizeIterator<Item = f64>) -> Self {
        let leaves = numbers.len().next_power_of_two();
        let mut tree = vec![f64::INFINITY; 2 * leaves];
        tree[leaves..].iter_mut().zip(numbers).for_each(|(leaf, number)| *leaf = number);
        for node in (1..leaves).rev() {
            tree[node] = tree[2 * node].min(tree[2 * node + 1]);
        }
        Self { tree }
    }

    fn smallest(&self) -> f64 {
        self.tree[1]
    }

    fn set(&mut self, place: usize, number: f64) {
        let mut node = self.tree.len() / 2 + place;
        self.tree[node] = number;
        while node > 1 {
            node /= 2;
            self.tree[node] = self.tree[2 * node].min(self.tree[2 * node + 1]);
        }
    }
}

/// Returns the best division that algorithm 2 finds from `start`, with the same sum. Both have one
/// entry per tenant, in the objective's units. Equal seeds give equal divisions.
pub fn anneal(objective: &dyn Objective, start: &[u64], seed: u64) -> Vec<u64> {
    let tenants = start.len();
    let mut best = start.to_vec();
    if tenants < 2 {
        return best;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let iterations = (ITERATIONS * tenants as u64).min(MAX);
    let decay = (LAST_TEMPERATURE / FIRST_TEMPERATURE).powf(1.0 / iterations as f64);
    let (step, mut now) = (objective.step(), start.to_vec());
    let each = start.iter().enumerate().map(|(place, &units)| objective.performance(place, units));
    let mut performances = Tournament::new(each);
    let mut value = performances.smallest();
    let (mut best_value, mut temperature) = (value, FIRST_TEMPERATURE);
    for _ in 0..iterations {
        temperature *= decay;
        // The order of the pair sets the sign of the step.
        let to = rng.random_range(0..tenants);
        let from = (to + rng.random_range(1..tenants)) % tenants;
        let moved = step.min(now[from]);
        now[from] -= moved;
        now[to] += moved;
        for place in [from, to] {
            performances.set(place, objective.performance(place, now[place]));
        }
        let changed = performances.smallest();
        let difference = changed - value;
        if difference <= 0.0 && rng.random::<f64>() >= (difference / temperature).exp() {
            now[from] += moved;
            now[to] -= moved;
            for place in [from, to] {
                performances.set(place, objective.performance(place, now[place]));
            }
            continue;
        }
        value = changed;
        if value > best_value {
            best_value = value;
            best.copy_from_slice(&now);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tierwise_core::profile::Profile;
    use tierwise_core::units::Bytes;

    use super::*;

    /// Equation 3 over profiles; a unit is a byte.
    struct Smallest(Vec<Profile>);

    impl Objective for Smallest {
        fn performance(&self, place: usize, bytes: u64) -> f64 {
            self.0[place].normalised(Bytes(bytes))
        }
        fn step(&self) -> u64 {
            1
        }
    }

    /// The best of all divisions of `left` from tenant `i` on.
    fn best(objective: &Smallest, allocation: &mut Vec<u64>, i: usize, left: u64) -> f64 {
        if i + 1 == allocation.len() {
            allocation[i] = left;
            return objective.value(allocation);
        }
        let mut found = f64::NEG_INFINITY;
        for part in 0..=left {
            allocation[i] = part;
            found = found.max(best(objective, allocation, i + 1, left - part));
        }
        found
    }

    fn profile() -> impl Strategy<Value = Profile> {
        // Profiles that rise, concave or not: three random gains.
        (1.0f64..10.0, 0.1f64..5.0, 0.0f64..5.0, 0.0f64..5.0).prop_map(|(base, a, b, c)| {
            let points = [(0, base), (8, base + a), (16, base + a + b), (24, base + a + b + c)];
            Profile::new(points.map(|(size, t)| (Bytes(size), t)).to_vec()).unwrap()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 32,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn annealing_nears_best_and_keeps_sum(
            profiles in prop::collection::vec(profile(), 2..5),
            seed in any::<u64>(),
        ) {
            let n = profiles.len();
            let objective = Smallest(profiles);
            let start = vec![32 / n as u64; n];
            let sum: u64 = start.iter().sum();
            let found = anneal(&objective, &start, seed);
            prop_assert_eq!(found.iter().sum::<u64>(), sum);
            prop_assert_eq!(&anneal(&objective, &start, seed), &found);
            let optimum = best(&objective, &mut vec![0; n], 0, sum);
            prop_assert!(objective.value(&found) >= 0.99 * optimum);
            prop_assert!(objective.value(&found) >= objective.value(&start));
        }
    }

    #[test]
    fn no_tenant_gives_more_than_it_has() {
        struct Flat;
        impl Objective for Flat {
            fn performance(&self, _: usize, _: u64) -> f64 {
                1.0
            }
            fn step(&self) -> u64 {
                100
            }
        }
        assert_eq!(anneal(&Flat, &[3, 0, 1], 5), [3, 0, 1], "nothing is better than the start");
        assert_eq!(anneal(&Flat, &[7], 5), [7]);
        assert_eq!(anneal(&Flat, &[], 5), [0; 0]);
    }
}
