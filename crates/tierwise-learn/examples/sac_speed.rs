//! Prints the duration of one decision and of one training step of the learner.
//!
//! `cargo run --release -p tierwise-learn --example sac_speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use tierwise_learn::sac::{Sac, SacConfig, SacError, Transition};

/// Enough runs for a stable median.
const DECISIONS: usize = 20_000;
const STEPS: usize = 1_000;

/// A state that differs from run to run.
fn state(run: usize) -> [f32; 3] {
    [0.0, 1.0, 2.0].map(|shift| ((run as f32) * 0.37 + shift).sin().abs())
}

/// The median and the 99th percentile of the duration of `work`, in microseconds.
fn measure(runs: usize, mut work: impl FnMut(usize)) -> (f64, f64) {
    let mut times: Vec<Duration> = (0..runs)
        .map(|run| {
            let start = Instant::now();
            work(run);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let at = |part: usize| times[(runs - 1) * part / 100].as_secs_f64() * 1e6;
    (at(50), at(99))
}

fn main() -> Result<(), SacError> {
    // `store` must not train: this program times each step.
    let config = SacConfig { train_every: usize::MAX, ..SacConfig::default() };
    let mut learner = Sac::new(&config, 1)?;
    for run in 0..1000 {
        let state = state(run);
        let (action, next) = (learner.act(state), self::state(run + 1));
        learner.store(Transition { state, action, reward: state[0], next, done: false });
    }
    let mut decided = 0.0;
    let act = measure(DECISIONS, |run| decided += learner.act(state(run)));
    let act_mean = measure(DECISIONS, |run| decided += learner.act_mean(state(run)));
    black_box(decided);
    let mut failure = None;
    let step = measure(STEPS, |_| failure = learner.train_once().err().or(failure.take()));
    let show = |what: &str, (median, p99): (f64, f64)| {
        println!("{what:<34} median {median:8.1} us   p99 {p99:8.1} us");
    };
    show("act", act);
    show("act_mean", act_mean);
    show(&format!("train_once, {} transitions", config.batch), step);
    failure.map_or(Ok(()), Err)
}
