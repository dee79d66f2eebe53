//! The victims without adversaries.

use tierwise_core::recipe::Recipe;

use super::ADVERSARIES;
use super::judge::outcome;
use crate::error::SimError;
use crate::scenario::WorkloadSpec;

/// The throughput of every victim alone on the suite's machine, in instructions per second.
#[derive(Debug, Clone)]
pub struct AloneThroughput(Vec<(WorkloadSpec, f64)>);

impl AloneThroughput {
    /// Measures every victim's throughput under a recipe.
    ///
    /// # Errors
    /// The recipe cannot run on the suite's machine.
    pub fn measure(recipe: &Recipe, seed: u64) -> Result<Self, SimError> {
        let mut alone = Self(Vec::new());
        for victim in ADVERSARIES.iter().flat_map(|adversary| (adversary.setting)().victims) {
            if alone.find(&victim).is_none() {
                let run = outcome(vec![victim.clone()], recipe, seed, &mut |_| ())?;
                alone.0.push((victim, run.result.tenants[0].throughput));
            }
        }
        Ok(alone)
    }

    fn find(&self, victim: &WorkloadSpec) -> Option<f64> {
        self.0.iter().find(|(known, _)| known == victim).map(|(_, throughput)| *throughput)
    }

    /// A victim's instructions per second.
    pub(super) fn throughput(&self, victim: &WorkloadSpec) -> f64 {
        self.find(victim).unwrap_or(f64::NAN)
    }
}
