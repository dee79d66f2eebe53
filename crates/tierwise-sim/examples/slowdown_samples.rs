//! Training samples of a slowdown classifier: `slowdown_samples SCENARIOS > samples.csv` runs every
//! scenario of a directory with several shares of dedicated memory in Flat Memory Mode and prints a
//! line for each ten seconds of each run.

use std::path::{Path, PathBuf};

use tierwise_sim::hardware::Colouring;
use tierwise_sim::run::{IntervalSample, Prepared, RunOptions, samples};
use tierwise_sim::scenario::{Scenario, managed};

/// Shares of dedicated memory: from everything managed to two thirds, at which Memstrata's figure
/// 12 ends.
const DEDICATED: [f64; 5] = [0.0, 1.0 / 6.0, 1.0 / 3.0, 0.5, 2.0 / 3.0];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory =
        std::env::args().nth(1).ok_or("missing argument: the directory of the scenarios")?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.sort();
    println!(
        "program,dedicated,l3_miss_ns,l2_miss_ns,dtlb_miss_ns,l2_misses,memory_requests,\
         instructions,miss_ratio,slowdown"
    );
    for file in files {
        let scenario = Scenario::parse(
            &file.to_string_lossy(),
            &std::fs::read_to_string(&file)?,
            file.parent().unwrap_or(Path::new(".")),
        )?;
        // Loaded once: the traces are most of the time.
        let scenario = managed::overlapped(scenario);
        let prepared = Prepared::load(managed::flat(&scenario, 0.0, Colouring::Isolated))?;
        for dedicated in DEDICATED {
            let prepared = prepared.resized(managed::sizes(dedicated))?;
            for sample in samples(&prepared, &RunOptions { seed: 1, ..RunOptions::default() })? {
                print(&scenario.name, dedicated, &sample);
            }
        }
    }
    Ok(())
}

fn print(program: &str, dedicated: f64, sample: &IntervalSample) {
    let c = &sample.counters;
    println!(
        "{program},{dedicated:.4},{:.3},{:.3},{:.3},{:.0},{:.0},{:.0},{:.5},{:.5}",
        c.l3_miss_ns,
        c.l2_miss_ns,
        c.dtlb_miss_ns,
        c.l2_misses,
        c.memory_requests,
        c.instructions,
        sample.miss_ratio,
        sample.slowdown
    );
}
