//! Runs of programs on a machine, repeated with other seeds and phases.

use std::time::Duration;

use serde::Serialize;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Pages;
use tierwise_sim::machine::TierModel;
use tierwise_sim::result::{RunOutput, TenantResult};
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, WorkloadSpec};

use super::programs::{PlannedHost, PlannedProgram, scenario};
use crate::failure::Failure;

/// Programs start within this time of each other: policies decide once a second, and the programs
/// of a host have no common phase.
const PHASES: Duration = Duration::from_secs(1);

/// The lowest, mean and highest value of all runs and instances.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RunSpread {
    pub low: f64,
    pub mean: f64,
    pub high: f64,
}

impl RunSpread {
    /// Returns `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        // Rounding must not put the mean outside.
        let mean = (values.iter().sum::<f64>() / values.len() as f64).clamp(low, high);
        Some(Self { low, mean, high })
    }

    /// Returns true if all of its values lie above all of the other's.
    pub fn is_above(&self, other: &Self) -> bool {
        self.low > other.high
    }

    /// "1.052 x (1.049 to 1.055)".
    pub fn words(&self) -> String {
        let [low, mean, high] = [self.low, self.mean, self.high].map(|v| format!("{v:.3}"));
        if low == high { format!("{mean} x") } else { format!("{mean} x ({low} to {high})") }
    }
}

/// What became of a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramFigure {
    pub program: String,
    /// Its time over that in the catalogue's fastest memory, alone.
    pub slowdown: RunSpread,
    /// The 99th percentile of its response times.
    pub p99_ms: Option<RunSpread>,
    /// True if all runs of all instances kept its limits.
    pub meets: bool,
    /// The highest value over the limit, of the slowdown or the percentile: above 1 is too much.
    pub of_limit: f64,
    pub failure: Option<String>,
}

/// A measurement: programs on a machine under a policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostFigures {
    pub policy: String,
    /// Geometric mean of the programs' slowdowns.
    pub slowdown: f64,
    pub meets: bool,
    pub programs: Vec<ProgramFigure>,
}

impl HostFigures {
    /// The program that is nearest to its limit, or farthest beyond it.
    pub fn tightest(&self) -> Option<&ProgramFigure> {
        self.programs.iter().max_by(|a, b| a.of_limit.total_cmp(&b.of_limit))
    }
}

/// What all measurements of a plan share.
#[derive(Debug)]
pub struct Measurer<'a> {
    pub host: &'a PlannedHost,
    pub seed: u64,
    pub repeats: u64,
    /// For each latency of DRAM in the catalogue and each program, the factor that turns the
    /// simulator's slowdown, against the same machine's fast memory, into one against the
    /// catalogue's fastest.
    pub references: Vec<(f64, Vec<f64>)>,
}

/// Some programs of the plan, by index; a program may stand several times.
pub type Residents = Vec<usize>;

impl Measurer<'_> {
    /// Every program with all of its instances.
    pub fn everyone(&self) -> Residents {
        let all = self.host.programs.iter().enumerate();
        all.flat_map(|(i, p)| std::iter::repeat_n(i, p.count as usize)).collect()
    }

    /// Resident bytes of programs together.
    pub fn resident(&self, who: &[usize]) -> u64 {
        who.iter().map(|&i| self.host.programs[i].resident).sum()
    }

    /// Returns the scenario of a repetition: each program begins at its own time.
    pub fn scenario(&self, tiers: &[TierModel], who: &[usize], repeat: u64) -> Scenario {
        let host = self.host;
        let workload = |(tenant, &i): (usize, &usize)| {
            let program = &host.programs[i];
            let before = who[..tenant].iter().filter(|&&other| other == i).count();
            let several = who.iter().filter(|&&other| other == i).count() > 1;
            let name = &program.name;
            let name = if several { format!("{name}-{}", before + 1) } else { name.clone() };
            let start = if who.len() > 1 { phase(self.seed + repeat, tenant) } else { 0.0 };
            let start = PHASES.min(host.duration.map_or(PHASES, |all| all / 10)).mul_f64(start);
            WorkloadSpec { name, start, ..program.workload.clone() }
        };
        let workloads = who.iter().enumerate().map(workload).collect();
        scenario(tiers.to_vec(), host.granule_order, workloads, host.duration)
    }

    /// Loads every repetition.
    pub fn prepared(&self, tiers: &[TierModel], who: &[usize]) -> Result<Vec<Prepared>, Failure> {
        let load = |repeat| Ok(Prepared::load(self.scenario(tiers, who, repeat))?);
        (0..self.repeats).map(load).collect()
    }

    /// Runs all repetitions, or with `early` only those up to the first that breaks a limit.
    pub fn measure(
        &self,
        prepared: &[Prepared],
        who: &[usize],
        recipe: &Recipe,
        early: bool,
    ) -> Result<HostFigures, Failure> {
        let mut runs: Vec<RunOutput> = Vec::new();
        for (repeat, prepared) in prepared.iter().enumerate() {
            let options = RunOptions { seed: self.seed + repeat as u64, ..RunOptions::default() };
            runs.push(run(prepared, recipe, &options, &mut |_| ())?);
            if early && !self.figures(prepared, recipe.name(), who, &runs).meets {
                break;
            }
        }
        let first = prepared.first().ok_or_else(|| Failure::Internal("no run".to_owned()))?;
        Ok(self.figures(first, recipe.name(), who, &runs))
    }

    fn figures(
        &self,
        on: &Prepared,
        policy: &str,
        who: &[usize],
        runs: &[RunOutput],
    ) -> HostFigures {
        let fast_ns = on.machine().tiers.first().map_or(0.0, |tier| tier.load_ns);
        let reference = self.references.iter().find(|(ns, _)| *ns == fast_ns);
        let mut programs = Vec::new();
        for (i, program) in self.host.programs.iter().enumerate().filter(|(i, _)| who.contains(i)) {
            let factor = reference.map_or(1.0, |(_, factors)| factors[i]);
            let results: Vec<&TenantResult> = runs
                .iter()
                .flat_map(|run| run.result.tenants.iter().zip(who))
                .filter(|&(_, &of)| of == i)
                .map(|(tenant, _)| tenant)
                .collect();
            programs.extend(figure(program, &results, factor));
        }
        let logs: f64 = programs.iter().map(|p| p.slowdown.mean.ln()).sum();
        HostFigures {
            policy: policy.to_owned(),
            slowdown: (logs / programs.len().max(1) as f64).exp(),
            meets: programs.iter().all(|program| program.meets),
            programs,
        }
    }
}

fn figure(
    program: &PlannedProgram,
    results: &[&TenantResult],
    factor: f64,
) -> Option<ProgramFigure> {
    let slowdowns: Vec<f64> = results.iter().map(|r| r.slowdown * factor).collect();
    let p99: Vec<f64> = results.iter().filter_map(|r| Some(r.latency.as_ref()?.p99_ms)).collect();
    let (slowdown, p99_ms) = (RunSpread::of(&slowdowns)?, RunSpread::of(&p99));
    let failure = results.iter().find_map(|r| failure(r));
    let of_slowdown = program.slowdown.map(|most| slowdown.high / most);
    let of_slo = program.slo_ms.map(|slo| p99_ms.map_or(f64::INFINITY, |p99| p99.high / slo));
    let of_limit = [of_slowdown, of_slo].into_iter().flatten().fold(0.0, f64::max);
    let meets = failure.is_none() && of_limit <= 1.0;
    let program = program.name.clone();
    Some(ProgramFigure { program, slowdown, p99_ms, meets, of_limit, failure })
}

/// Returns why a tenant has no figure. A program that did not come to its measured part would
/// otherwise be as fast as in the fastest memory.
fn failure(result: &TenantResult) -> Option<String> {
    let unmeasured = (result.seconds == 0.0).then(|| {
        "not measured: the run ended before its measured part; raise duration_s".to_owned()
    });
    result.failure.clone().or(unmeasured)
}

/// Returns a tenant's place in the phase, 0 to 1, by a seed.
fn phase(seed: u64, tenant: usize) -> f64 {
    let mixed = tierwise_sim::hash::mix(seed ^ (tenant as u64 + 1) << 40);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns nanoseconds per instruction of a program whose memory is all fast.
pub fn all_fast_ns(
    measurer: &Measurer<'_>,
    tiers: &[TierModel],
    program: usize,
) -> Result<f64, Failure> {
    let scenario = measurer.scenario(tiers, &[program], 0);
    let options = RunOptions { seed: measurer.seed, ..RunOptions::default() };
    let recipe = Recipe::named("fmem-all")?;
    let result = run(&Prepared::load(scenario)?, &recipe, &options, &mut |_| ())?.result;
    let tenant = &result.tenants[0];
    Ok(1e9 / (tenant.throughput.max(1e-9) * tenant.slowdown.max(1e-9)))
}

/// Returns the size of a simulated page.
pub fn granule_bytes(host: &PlannedHost) -> u64 {
    Pages(1 << host.granule_order).in_bytes(tierwise_core::units::Bytes(4096)).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_holds_all_of_its_values() {
        let spread = RunSpread::of(&[1.1, 1.0, 1.3]).unwrap();
        assert_eq!((spread.low, spread.high), (1.0, 1.3));
        assert!((spread.mean - 3.4 / 3.0).abs() < 1e-12);
        assert_eq!(spread.words(), "1.133 x (1.000 to 1.300)");
        assert!(RunSpread::of(&[]).is_none());
        let one = RunSpread::of(&[0.1 + 0.2]).unwrap();
        assert!(one.low <= one.mean && one.mean <= one.high);
    }

    #[test]
    fn overlapping_runs_are_no_difference() {
        let spread = |low, high| RunSpread { low, mean: (low + high) / 2.0, high };
        assert!(spread(1.2, 1.3).is_above(&spread(1.0, 1.1)));
        assert!(!spread(1.05, 1.3).is_above(&spread(1.0, 1.1)));
    }

    #[test]
    fn phases_differ_and_stay_within() {
        let phases: Vec<f64> = (0..64).map(|tenant| phase(7, tenant)).collect();
        assert!(phases.iter().all(|phase| (0.0..1.0).contains(phase)));
        assert!(phases.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(phase(7, 3), phase(7, 3));
        assert_ne!(phase(7, 3), phase(8, 3));
    }
}
