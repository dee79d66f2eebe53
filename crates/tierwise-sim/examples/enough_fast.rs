//! Slowdown of every recipe against `static` on recorded programs, with enough fast memory for all
//! of their memory, worst first.
//!
//! `enough_fast SHARE LOOPS TRACE...`: each trace repeated LOOPS times, on a machine whose fast
//! memory is this share of the resident memory (1.1: a tenth more).

use std::path::PathBuf;

use tierwise_core::migrate::Budget;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;
use tierwise_sim::costs::Costs;
use tierwise_sim::machine::Machine;
use tierwise_sim::result::PolicyResult;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, TierSize, WorkloadSource, WorkloadSpec};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("missing argument: {what}"));
    let (share, loops) = (next("SHARE")?.parse()?, next("LOOPS")?.parse()?);
    let mut rows = Vec::new();
    for trace in arguments {
        let prepared = prepare(PathBuf::from(trace), share, loops)?;
        let untouched = outcome(&prepared, &Recipe::named("static")?)?;
        for recipe in Recipe::shipped().filter(|r| r.bound().is_none() && prepared.can_run(r)) {
            let result = outcome(&prepared, &recipe)?;
            rows.push((
                result.slowdown / untouched.slowdown,
                prepared.scenario().name.clone(),
                result,
            ));
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("against static, its own overhead, promotions, demotions, policy, program");
    for (ratio, program, result) in rows {
        let own = result.tenants.first().map_or(0.0, |t| t.overhead_seconds / t.seconds);
        let (up, down, policy) = (result.promotions, result.demotions, result.policy);
        println!("{ratio:.4} {own:.4} {up:8} {down:8} {policy:24} {program}");
    }
    Ok(())
}

fn prepare(trace: PathBuf, share: f64, loops: u32) -> Result<Prepared, Failure> {
    let name = trace.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    // The sizes are shares of the resident memory; these have the right form.
    let machine =
        Machine::preset("dram-cxl", Bytes(1 << 30), Bytes(1 << 30)).ok_or("no machine")?;
    let scenario = Scenario {
        name: name.clone(),
        summary: String::new(),
        machine,
        sizes: vec![TierSize::ShareOfResident(share), TierSize::ShareOfResident(2.0)],
        costs: Costs::default(),
        budget: Budget::default(),
        workloads: vec![WorkloadSpec {
            loops,
            ..WorkloadSpec::new(name, WorkloadSource::Trace(trace))
        }],
        duration: None,
    };
    Ok(Prepared::load(scenario)?)
}

fn outcome(prepared: &Prepared, recipe: &Recipe) -> Result<PolicyResult, Failure> {
    let options = RunOptions { seed: 1, ..RunOptions::default() };
    Ok(run(prepared, recipe, &options, &mut |_| ())?.result)
}
