//! The cheapest machine that meets every limit, and those beside it.

use rayon::prelude::*;
use serde::Serialize;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;

use super::catalogue::FittedMachine;
use super::measure::{HostFigures, Measurer};
use crate::failure::Failure;
use crate::progress::RunProgress;

/// More machines than this differ in ways that no plan needs, and their runs would take hours.
pub const MAX_MACHINES: usize = 512;

/// A machine of the catalogue and what became of the programs on it.
#[derive(Debug, Clone, Serialize)]
pub struct JudgedMachine {
    pub machine: String,
    pub price: f64,
    pub fast_bytes: u64,
    pub slow_bytes: u64,
    /// `None`: the programs do not fit into its memory.
    pub best: Option<HostFigures>,
    pub meets: bool,
    /// The reason why it does not meet the limits.
    pub why: Option<String>,
}

/// Judges machines, cheapest first, until `alternatives` that meet all limits follow the first that
/// does. No machine that is cheaper than the first is left out.
pub fn judge(
    machines: &[FittedMachine],
    measurer: &Measurer<'_>,
    recipes: &[Recipe],
    alternatives: usize,
) -> Result<Vec<JudgedMachine>, Failure> {
    let progress = RunProgress::new(machines.len());
    walk(machines, alternatives, |machine| {
        let job = progress.job("machines", &machine.words());
        let judged = judge_one(machine, measurer, recipes)?;
        job.done();
        Ok(judged)
    })
}

fn walk<M>(
    machines: &[M],
    alternatives: usize,
    mut judge: impl FnMut(&M) -> Result<JudgedMachine, Failure>,
) -> Result<Vec<JudgedMachine>, Failure> {
    let mut judged: Vec<JudgedMachine> = Vec::new();
    for machine in machines {
        judged.push(judge(machine)?);
        if judged.iter().filter(|one| one.meets).count() > alternatives {
            break;
        }
    }
    Ok(judged)
}

/// Returns the index of the recommended machine: the first that meets all limits, because machines
/// stand cheapest first.
pub fn recommended(judged: &[JudgedMachine]) -> Option<usize> {
    judged.iter().position(|one| one.meets)
}

fn judge_one(
    machine: &FittedMachine,
    measurer: &Measurer<'_>,
    recipes: &[Recipe],
) -> Result<JudgedMachine, Failure> {
    let who = measurer.everyone();
    let (needed, there) = (measurer.resident(&who), machine.fast_bytes() + machine.slow_bytes());
    let mut judged = JudgedMachine {
        machine: machine.words(),
        price: machine.price,
        fast_bytes: machine.fast_bytes(),
        slow_bytes: machine.slow_bytes(),
        best: None,
        meets: false,
        why: None,
    };
    if needed > there {
        let (needed, there) = (Bytes(needed), Bytes(there));
        judged.why = Some(format!("the programs need {needed}, and it holds {there}"));
        return Ok(judged);
    }
    let prepared = measurer.prepared(&machine.tiers(), &who)?;
    let under = |recipe: &Recipe| measurer.measure(&prepared, &who, recipe, true);
    let each = recipes.par_iter().map(under).collect::<Result<Vec<_>, _>>()?;
    judged.best = best(each);
    judged.meets = judged.best.as_ref().is_some_and(|best| best.meets);
    judged.why = judged.best.as_ref().filter(|best| !best.meets).map(|best| broken(best, measurer));
    Ok(judged)
}

/// Returns the figures of the best policy: first by the limits, then by the nearest limit. Of
/// equals the first.
pub fn best(each: Vec<HostFigures>) -> Option<HostFigures> {
    let tightest = |one: &HostFigures| one.tightest().map_or(0.0, |program| program.of_limit);
    each.into_iter().min_by(|a, b| b.meets.cmp(&a.meets).then(tightest(a).total_cmp(&tightest(b))))
}

/// Describes the limit that is broken most.
fn broken(figures: &HostFigures, measurer: &Measurer<'_>) -> String {
    let Some(worst) = figures.tightest() else { return String::new() };
    if let Some(why) = &worst.failure {
        return format!("{} fails under {}: {why}", worst.program, figures.policy);
    }
    let limits = measurer.host.programs.iter().find(|p| p.name == worst.program);
    let slo = limits.and_then(|p| p.slo_ms).zip(worst.p99_ms);
    match slo.filter(|(slo, p99)| p99.high > *slo) {
        Some((slo, p99)) => format!(
            "{} has a P99 of {:.3} ms under {}, above its {slo} ms",
            worst.program, p99.high, figures.policy
        ),
        None => format!(
            "{} takes {:.3} times as long under {}",
            worst.program, worst.slowdown.high, figures.policy
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::measure::{ProgramFigure, RunSpread};

    fn judged(price: f64, meets: bool) -> JudgedMachine {
        let (fast_bytes, slow_bytes, best, why) = (1, 1, None, None);
        let machine = price.to_string();
        JudgedMachine { machine, price, fast_bytes, slow_bytes, best, meets, why }
    }

    /// Every pattern of eight machines that meet the limits or do not.
    #[test]
    fn no_cheaper_machine_meets_all_limits() {
        for pattern in 0..256u32 {
            let meets = |price: &u32| pattern >> price & 1 == 1;
            let machines: Vec<u32> = (0..8).collect();
            let walked =
                walk(&machines, 2, |price| Ok(judged(f64::from(*price), meets(price)))).unwrap();
            let found = recommended(&walked).map(|i| walked[i].price as u32);
            assert_eq!(found, machines.iter().copied().find(meets), "{pattern:08b}");
            let met = walked.iter().filter(|one| one.meets).count();
            assert_eq!(met, 3.min(pattern.count_ones() as usize), "{pattern:08b}");
        }
    }

    fn figures(policy: &str, of_limit: f64) -> HostFigures {
        let slowdown = RunSpread { low: 1.0, mean: 1.0, high: of_limit };
        let (p99_ms, failure, meets) = (None, None, of_limit <= 1.0);
        let program = "p".to_owned();
        let programs = vec![ProgramFigure { program, slowdown, p99_ms, meets, of_limit, failure }];
        HostFigures { policy: policy.to_owned(), slowdown: 1.0, meets, programs }
    }

    #[test]
    fn policy_with_most_margin_wins() {
        let by = |each| best(each).unwrap().policy;
        assert_eq!(by(vec![figures("a", 0.9), figures("b", 0.8)]), "b");
        assert_eq!(by(vec![figures("a", 0.9), figures("b", 0.9)]), "a");
        assert_eq!(by(vec![figures("a", 1.1), figures("b", 1.0)]), "b");
        assert!(best(Vec::new()).is_none());
    }
}
