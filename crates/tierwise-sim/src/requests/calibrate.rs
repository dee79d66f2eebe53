//! The CPU time of a request with which the service has its published maximum load.
//!
//! MTAT, section 5, defines a service's objective by the maximum load that it serves with all
//! memory fast: the knee of its curve of latency by load. So the time of a request follows from the
//! load. Near saturation the wait in an M/G/k queue is exponentially distributed with mean
//! `E[S] (1 + c²) / (2 k (1 - ρ))` (Kingman 1962; Köllerström 1974 for k servers), c the
//! coefficient of variation of the service time. Its 99th percentile, ln 100 means, plus the
//! service itself is the objective T at the maximum load λ when
//!
//! `ρ = 1 / (1 + ln 100 (1 + c²) / (2 λ (T - E[S])))`, `E[S] = k ρ / λ`.
//!
//! The misses' part of `E[S]` comes from the mix and stays; the rest is CPU time.

use std::time::Duration;

use super::error::{RequestError, within};
use super::mix::Mix;
use super::tier::TierCosts;

/// Published figures of a service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadKnee {
    /// Load, in requests per second, at which the 99th percentile reaches the objective.
    pub per_second: f64,
    /// The objective for the 99th percentile.
    pub slo: Duration,
    /// Server threads.
    pub servers: usize,
}

/// c² and `E[S]` depend on each other and on ρ, but weakly: each round shrinks the error by the few
/// percent that ρ is away from one.
const ROUNDS: usize = 16;

impl LoadKnee {
    /// Sets the CPU times of a mix, whose proportions to each other stay (all alike, if they are
    /// zero), so that the knee is at its load with every miss in the first tier of `costs`.
    ///
    /// # Errors
    /// A figure is out of its range, or the misses alone take longer than a request may.
    pub fn calibrate(&self, mix: &mut Mix, costs: &TierCosts<'_>) -> Result<(), RequestError> {
        within("maximum load", self.per_second, 1e-3..=1e9, "0.001 to 1e9 requests per second")?;
        within("objective in seconds", self.slo.as_secs_f64(), 1e-9..=1e6, "1 ns to 1e6 s")?;
        let work: f64 = mix.kinds.iter().map(|k| k.share * k.cpu_ns).sum();
        let weights: Vec<f64> = if work > 0.0 {
            mix.kinds.iter().map(|k| k.cpu_ns / work).collect()
        } else {
            vec![1.0; mix.kinds.len()]
        };
        let set = |mix: &mut Mix, cpu_ns: f64| {
            mix.kinds.iter_mut().zip(&weights).for_each(|(k, w)| k.cpu_ns = w * cpu_ns);
        };
        set(mix, 0.0);
        let (memory_ns, _) = mix.all_fast(costs);
        for _ in 0..ROUNDS {
            let service_ns = self.service_ns(mix.all_fast(costs));
            if service_ns <= memory_ns {
                return Err(RequestError::TooManyMisses {
                    memory_ns,
                    service_ns,
                    servers: self.servers,
                    per_second: self.per_second,
                });
            }
            set(mix, service_ns - memory_ns);
        }
        Ok(())
    }

    /// Mean service time in nanoseconds for a knee at the load, given mean and variance of the last
    /// guess.
    fn service_ns(&self, (mean, variance): (f64, f64)) -> f64 {
        let lambda = self.per_second * 1e-9;
        let square = if mean > 0.0 { variance / (mean * mean) } else { 0.0 };
        let wait_ns = (self.slo.as_nanos() as f64 - mean).max(1.0);
        let rho = 1.0 / (1.0 + 100f64.ln() * (1.0 + square) / (2.0 * lambda * wait_ns));
        self.servers as f64 * rho / lambda
    }
}
