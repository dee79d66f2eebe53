//! Runs a program at every size of fast memory.

use rayon::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::{Bytes, Pages};
use tierwise_sim::result::TenantResult;
use tierwise_sim::run::{Prepared, ProfileFile, ProfilePoint, RunOptions, alone, enough_slow, run};

use super::ProfileCommand;
use crate::failure::Failure;
use crate::progress::RunProgress;

/// A workload's profile, with the other measurements of each point.
#[derive(Debug)]
pub struct Profiled {
    pub file: ProfileFile,
    pub measured: Vec<TenantResult>,
}

impl Profiled {
    /// Throughput with the whole tier.
    pub fn full(&self) -> f64 {
        self.file.points.last().map_or(1.0, |point| point.throughput)
    }
}

/// Profiles workloads, in their order.
pub fn measure(
    command: &ProfileCommand,
    prepared: &Prepared,
    chosen: &[usize],
    recipe: &Recipe,
) -> Result<Vec<Profiled>, Failure> {
    let sizes = sizes(prepared, command.points);
    let pool = command.run.jobs.pool()?;
    let progress = RunProgress::new(chosen.len() * sizes.len());
    let one = |&workload: &usize| {
        let prepared = Prepared::load(alone(prepared, workload))?;
        let at = |&fast: &Bytes| at(&prepared, fast, recipe, command.run.seed, &progress);
        let measured = sizes.par_iter().map(at).collect::<Result<Vec<_>, Failure>>()?;
        let name = prepared.scenario().workloads[0].name.clone();
        let source = format!(
            "{}, alone under {}, seed {}",
            command.scenario.display(),
            recipe.name(),
            command.run.seed
        );
        let points = sizes.iter().zip(&measured);
        let points =
            points.map(|(&fast, m)| ProfilePoint { fast_bytes: fast.0, throughput: m.throughput });
        let file = ProfileFile { name, source, points: points.collect() };
        // A profile that the engine would refuse is not written.
        file.profile().map_err(|e| Failure::User(format!("\"{}\": {e}", file.name)))?;
        Ok(Profiled { file, measured })
    };
    pool.install(|| chosen.par_iter().map(one).collect())
}

/// Returns sizes in whole pages, evenly spaced from none to the whole tier.
fn sizes(prepared: &Prepared, points: u32) -> Vec<Bytes> {
    let machine = prepared.machine();
    let whole = machine.tiers.first().map_or(Bytes(0), |t| t.capacity).in_pages(machine.page_size);
    let steps = u64::from(points - 1);
    let mut sizes: Vec<Bytes> =
        (0..=steps).map(|i| Pages(whole.0 * i / steps).in_bytes(machine.page_size)).collect();
    // A tier with fewer pages than points has one point per page.
    sizes.dedup();
    sizes
}

fn at(
    prepared: &Prepared,
    fast: Bytes,
    recipe: &Recipe,
    seed: u64,
    progress: &RunProgress,
) -> Result<TenantResult, Failure> {
    let mut job = progress.job(&prepared.scenario().workloads[0].name, &fast.to_string());
    let options = RunOptions { seed, ..RunOptions::default() };
    // Without fast memory there is nothing to decide.
    let all_slow = Recipe::named("smem-all")?;
    let (fast, recipe) =
        if fast == Bytes(0) { (prepared.machine().page_size, &all_slow) } else { (fast, recipe) };
    let sized = prepared.resized(enough_slow(prepared, fast))?;
    let output = run(&sized, recipe, &options, &mut |share| job.reached(share))?;
    job.done();
    output
        .result
        .tenants
        .into_iter()
        .next()
        .ok_or_else(|| Failure::Internal("a run of one workload came back without it".to_owned()))
}
