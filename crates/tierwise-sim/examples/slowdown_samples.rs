//! Training samples of a slowdown classifier: `slowdown_samples SCENARIOS > samples.csv` runs every
//! scenario of a directory in Flat Memory Mode, with several numbers of misses in flight, shares of
//! dedicated memory and sizes of the program, and prints a line for each ten seconds of each run.
//! It uses all CPUs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tierwise_sim::hardware::Colouring;
use tierwise_sim::run::{IntervalSample, Prepared, RunOptions, samples};
use tierwise_sim::scenario::{Scenario, managed};

/// Misses in flight of the training: from a pointer chase to what the ten to sixteen line fill
/// buffers of a current core hold.
const TRAINED: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

/// Misses in flight that the training does not see, between those that it does.
const TESTED: [f64; 2] = [1.5, 6.0];

/// Shares of dedicated memory: from everything managed to almost nothing, where lending may end.
const DEDICATED: [f64; 4] = [0.0, 1.0 / 3.0, 2.0 / 3.0, 5.0 / 6.0];

/// A program larger by this factor: each page's accesses spread over so many.
const LARGER: u32 = 2;

/// Factor by which runs are shorter than the scenarios': 150 s become three or four intervals of
/// ten, which still cover a program's whole course.
const SHORTER: u32 = 4;

/// The runs of one program in one size.
struct Job {
    scenario: Scenario,
    scale: u32,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let directory =
        std::env::args().nth(1).ok_or("missing argument: the directory of the scenarios")?;
    let jobs = jobs(Path::new(&directory))?;
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(i) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < jobs.len())
                {
                    let lines = sample(&jobs[i]);
                    eprintln!("{} at {} times its size", jobs[i].scenario.name, jobs[i].scale);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((i, lines));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    println!(
        "program,scale,dedicated,l3_miss_ns,l2_miss_ns,dtlb_miss_ns,l2_misses,memory_requests,\
         misses_in_flight,instructions,miss_ratio,slowdown"
    );
    for (_, lines) in done {
        print!("{}", lines?);
    }
    Ok(())
}

fn jobs(directory: &Path) -> Result<Vec<Job>, Failure> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let mut jobs = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let base = file.parent().unwrap_or(Path::new("."));
        let mut scenario = Scenario::parse(&file.to_string_lossy(), &text, base)?;
        for workload in &mut scenario.workloads {
            let length =
                if workload.loops > 1 { &mut workload.loops } else { &mut workload.dilation };
            *length = length.div_ceil(SHORTER);
        }
        for scale in [1, LARGER] {
            let mut scenario = scenario.clone();
            scenario.workloads.iter_mut().for_each(|workload| workload.scale = scale);
            jobs.push(Job { scenario, scale });
        }
    }
    Ok(jobs)
}

/// The samples of a program, a line each. The larger program and the misses in flight of the test
/// have every second share and number: enough to show whether they matter.
fn sample(job: &Job) -> Result<String, Failure> {
    // Loaded once: the traces are most of the time.
    let loaded = Prepared::load(managed::flat(&job.scenario, 0.0, Colouring::Isolated))?;
    let mut lines = String::new();
    let is_larger = job.scale > 1;
    let trained = TRAINED.into_iter().step_by(if is_larger { 2 } else { 1 });
    for in_flight in trained.chain(TESTED.into_iter().filter(|_| !is_larger)) {
        let loaded = loaded.overlapped(in_flight)?;
        let coarse = is_larger || TESTED.contains(&in_flight);
        for dedicated in DEDICATED.into_iter().step_by(if coarse { 2 } else { 1 }) {
            let prepared = loaded.resized(managed::sizes(dedicated))?;
            let options = RunOptions { seed: 1, ..RunOptions::default() };
            match samples(&prepared, &options) {
                Ok(samples) => samples.iter().for_each(|sample| {
                    lines += &line(&job.scenario.name, job.scale, dedicated, sample);
                }),
                // A small managed tier may lack the colours of a program that frees and allocates.
                Err(why) => eprintln!("{}, {dedicated:.2} dedicated: {why}", job.scenario.name),
            }
        }
    }
    Ok(lines)
}

fn line(program: &str, scale: u32, dedicated: f64, sample: &IntervalSample) -> String {
    let c = &sample.counters;
    format!(
        "{program},{scale},{dedicated:.4},{:.2},{:.2},{:.2},{:.0},{:.0},{:.2},{:.0},{:.5},{:.5}\n",
        c.l3_miss_ns,
        c.l2_miss_ns,
        c.dtlb_miss_ns,
        c.l2_misses,
        c.memory_requests,
        c.misses_in_flight,
        c.instructions,
        sample.miss_ratio,
        sample.slowdown
    )
}
