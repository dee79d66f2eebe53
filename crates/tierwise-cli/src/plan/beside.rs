//! What more memory would bring, and what programs cost each other.

use rayon::prelude::*;
use serde::Serialize;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;
use tierwise_sim::machine::TierModel;

use super::measure::{HostFigures, Measurer, RunSpread};
use crate::failure::Failure;
use crate::progress::RunProgress;

/// The next step of fast memory on the recommended machine.
#[derive(Debug, Clone, Serialize)]
pub struct NextStep {
    pub step_bytes: u64,
    /// The price of the step at that of the machine's own modules.
    pub price: f64,
    pub before: HostFigures,
    pub after: HostFigures,
    pub programs: Vec<ProgramGain>,
}

/// The gain of a program from the step.
#[derive(Debug, Clone, Serialize)]
pub struct ProgramGain {
    pub program: String,
    pub before: RunSpread,
    pub after: RunSpread,
    pub verdict: GainVerdict,
}

/// The gain in words. Runs that overlap show no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GainVerdict {
    Faster,
    None,
    Slower,
}

impl GainVerdict {
    pub fn of(before: &RunSpread, after: &RunSpread) -> Self {
        if before.is_above(after) {
            Self::Faster
        } else if after.is_above(before) {
            Self::Slower
        } else {
            Self::None
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster in every run",
            Self::None => "no difference beyond that of the runs",
            Self::Slower => "slower in every run",
        }
    }
}

/// A program beside another on the recommended machine.
#[derive(Debug, Clone, Serialize)]
pub struct PairCost {
    pub program: String,
    /// `None`: alone on the machine.
    pub beside: Option<String>,
    pub slowdown: RunSpread,
    /// The mean slowdown over the one alone.
    pub of_alone: f64,
}

/// Measures the machine with and without `step` more fast memory.
pub fn next_step(
    measurer: &Measurer<'_>,
    tiers: &[TierModel],
    recipe: &Recipe,
    step: Bytes,
    price_of_fast: f64,
) -> Result<NextStep, Failure> {
    let who = measurer.everyone();
    let mut more = tiers.to_vec();
    if let Some(fast) = more.first_mut() {
        fast.capacity = Bytes(fast.capacity.0 + step.0);
    }
    let at = |tiers: &[TierModel]| {
        measurer.measure(&measurer.prepared(tiers, &who)?, &who, recipe, false)
    };
    let (before, after) = rayon::join(|| at(tiers), || at(&more));
    let (before, after) = (before?, after?);
    let programs = before.programs.iter().zip(&after.programs).map(|(b, a)| ProgramGain {
        program: b.program.clone(),
        before: b.slowdown,
        after: a.slowdown,
        verdict: GainVerdict::of(&b.slowdown, &a.slowdown),
    });
    let fast = tiers.first().map_or(1, |tier| tier.capacity.0.max(1));
    Ok(NextStep {
        step_bytes: step.0,
        price: price_of_fast * step.0 as f64 / fast as f64,
        programs: programs.collect(),
        before,
        after,
    })
}

/// Runs every program alone and every pair on the machine, if there is a pair. Both are simulated:
/// shares, migrations and the load on each memory follow from what runs together.
pub fn pairs(
    measurer: &Measurer<'_>,
    tiers: &[TierModel],
    recipe: &Recipe,
) -> Result<Vec<PairCost>, Failure> {
    let programs = &measurer.host.programs;
    let mut groups: Vec<Vec<usize>> = (0..programs.len()).map(|i| vec![i]).collect();
    for (i, program) in programs.iter().enumerate() {
        let others = (i + 1..programs.len()).map(|j| vec![i, j]);
        // A program stands beside itself only where the host has several of it.
        groups.extend((program.count > 1).then(|| vec![i, i]).into_iter().chain(others));
    }
    let capacity: u64 = tiers.iter().map(|tier| tier.capacity.0).sum();
    groups.retain(|who| measurer.resident(who) <= capacity);
    if groups.iter().all(|who| who.len() == 1) {
        return Ok(Vec::new());
    }
    let progress = RunProgress::new(groups.len());
    let one = |who: &Vec<usize>| {
        let names: Vec<&str> = who.iter().map(|&i| programs[i].name.as_str()).collect();
        let job = progress.job("together", &names.join(" + "));
        let prepared = measurer.prepared(tiers, who)?;
        let figures = measurer.measure(&prepared, who, recipe, false)?;
        job.done();
        Ok((who.clone(), figures))
    };
    let measured = groups.par_iter().map(one).collect::<Result<Vec<_>, Failure>>()?;
    Ok(costs(measurer, &measured))
}

fn costs(measurer: &Measurer<'_>, measured: &[(Vec<usize>, HostFigures)]) -> Vec<PairCost> {
    let name = |i: usize| measurer.host.programs[i].name.clone();
    let alone = |program: &str| {
        let its = measured.iter().filter(|(who, _)| who.len() == 1);
        let mut its = its.filter_map(|(_, figures)| figures.programs.first());
        its.find(|figure| figure.program == program).map(|figure| figure.slowdown.mean)
    };
    let mut costs = Vec::new();
    for (who, figures) in measured {
        for figure in &figures.programs {
            let other = match who[..] {
                [a, b] if name(a) == figure.program => Some(name(b)),
                [a, _] => Some(name(a)),
                _ => None,
            };
            costs.push(PairCost {
                program: figure.program.clone(),
                beside: other,
                slowdown: figure.slowdown,
                of_alone: figure.slowdown.mean / alone(&figure.program).unwrap_or(1.0),
            });
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_needs_runs_that_part() {
        let spread = |low, high| RunSpread { low, mean: low, high };
        let verdict = |before, after| GainVerdict::of(&before, &after);
        assert_eq!(verdict(spread(1.2, 1.3), spread(1.0, 1.1)), GainVerdict::Faster);
        assert_eq!(verdict(spread(1.2, 1.3), spread(1.1, 1.25)), GainVerdict::None);
        assert_eq!(verdict(spread(1.0, 1.1), spread(1.2, 1.3)), GainVerdict::Slower);
    }
}
