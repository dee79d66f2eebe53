//! Prints the time and the gain of annealing: `cargo run --release -p tierwise-learn --example
//! annealing_speed`. The goal is 50 ms for 16 tenants.

use std::time::Instant;

use tierwise_core::learn::Objective;
use tierwise_core::profile::Profile;
use tierwise_core::units::Bytes;

/// The tenants' profiles, and the step in bytes.
struct Smallest(Vec<Profile>, u64);

impl Objective for Smallest {
    fn performance(&self, place: usize, bytes: u64) -> f64 {
        self.0[place].normalised(Bytes(bytes))
    }

    fn step(&self) -> u64 {
        self.1
    }
}

/// A profile of 33 points, one gigabyte apart (MTAT, section 4). A tenant with a higher `i` gains
/// more from fast memory.
fn profile(i: usize) -> Option<Profile> {
    let gain = 0.2 + 0.1 * (i % 8) as f64;
    let point = |gb: u64| (Bytes(gb << 30), 1.0 - gain * (1.0 - (gb as f64 / 32.0).sqrt()));
    Profile::new((0..=32).map(point).collect()).ok()
}

fn main() {
    for tenants in [2, 4, 16, 64, 256, 1000] {
        // The partitioner's step: 1 GB, or an eighth of an even part.
        let part: u64 = (64 << 30) / tenants as u64;
        let step = (part / 8).min(1 << 30);
        let objective = Smallest((0..tenants).filter_map(profile).collect(), step);
        let start = vec![part; tenants];
        let started = Instant::now();
        let found = tierwise_learn::anneal(&objective, &start, 1);
        let took = started.elapsed();
        println!(
            "{tenants:>4} tenants: {:>6.2} ms, smallest performance {:.3}, even split {:.3}",
            took.as_secs_f64() * 1e3,
            objective.value(&found),
            objective.value(&start)
        );
    }
}
