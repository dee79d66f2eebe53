//! Runs a plan's units without the engine of sweeps, for `scripts/bench/sweep.sh`: `bare PLAN
//! JOBS` prints the seconds that JOBS processes take for them.
//!
//! Each process reads the plan before the clock starts, and then only simulates its part: no keys,
//! no pipe, no log, no table. Results are dropped.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use tierwise_core::recipe::Recipe;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::Scenario;
use tierwise_sweep::{SweepPlan, Unit};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [plan, jobs] => measure(plan, jobs),
        [plan, jobs, part] => simulate(plan, jobs.parse()?, part.parse()?),
        _ => Err("usage: bare PLAN JOBS".into()),
    }
}

/// Starts the processes, lets all go at once, and waits for the last.
fn measure(plan: &str, jobs: &str) -> Result<(), Box<dyn Error>> {
    let mut children = Vec::new();
    for part in 0..jobs.parse::<usize>()? {
        let mut command = Command::new("/proc/self/exe");
        command.args([plan, jobs, &part.to_string()]);
        children.push(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    }
    for child in &mut children {
        let output = child.stdout.as_mut().ok_or("a process has no output")?;
        BufReader::new(output).read_line(&mut String::new())?;
    }
    let start = Instant::now();
    for child in &mut children {
        // The end of its input is the sign.
        drop(child.stdin.take());
    }
    for mut child in children {
        if !child.wait()?.success() {
            return Err("a process failed".into());
        }
    }
    println!("{:.3}", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs every unit of one part.
fn simulate(plan: &str, jobs: usize, part: usize) -> Result<(), Box<dyn Error>> {
    let plan = SweepPlan::read(Path::new(plan))?;
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    let mut loaded: Option<(&str, Prepared)> = None;
    for unit in plan.units.iter().skip(part).step_by(jobs) {
        // A scenario is loaded once for all its units, as a script of one's own would do it.
        let prepared = match loaded.take() {
            Some((text, prepared)) if text == unit.scenario.text => prepared,
            _ => prepare(unit)?,
        };
        let recipe = Recipe::parse(&unit.recipe.file, &unit.recipe.text)?;
        let options = RunOptions { seed: unit.seed, ..RunOptions::default() };
        run(&prepared, &recipe, &options, &mut |_| ())?;
        loaded = Some((&unit.scenario.text, prepared));
    }
    Ok(())
}

fn prepare(unit: &Unit) -> Result<Prepared, Box<dyn Error>> {
    let of = &unit.scenario;
    Ok(Prepared::load(Scenario::parse(&of.file, &of.text, &of.base)?)?)
}
