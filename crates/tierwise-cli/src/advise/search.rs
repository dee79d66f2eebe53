//! Runs at sizes of fast memory, and the answers that follow from them.

use rayon::ThreadPool;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::{Bytes, Pages};
use tierwise_sim::result::TenantResult;
use tierwise_sim::run::{Prepared, RunOptions, enough_slow, run};

use super::limits::{TenantLimit, meets_limits};
use super::point::{
    FastMemoryKnee, PolicyAlone, PolicyPoint, SizePoint, SufficientSize, TenantSizePoint,
};
use crate::failure::Failure;
use crate::progress::RunProgress;
use crate::sizes::SizeSearch;

/// The search ends when the smallest size that suffices is known to this share of the resident
/// memory.
const PRECISION: f64 = 0.01;

/// The parameters of a search.
pub struct Search<'a> {
    pub prepared: &'a Prepared,
    /// The policies considered; of equals the first is preferred.
    pub recipes: &'a [Recipe],
    pub limits: &'a [TenantLimit],
    pub seed: u64,
    pub pool: ThreadPool,
}

impl Search<'_> {
    /// Runs a sweep of this many sizes, and a bisection where the limits start to be met. Returns
    /// the points, ascending.
    pub fn points(&self, sweep: u32) -> Result<Vec<SizePoint>, Failure> {
        let page = self.prepared.machine().page_size;
        let resident = self.prepared.resident_pages();
        // A tenth more than the resident memory: the kernel keeps a part of each tier free.
        let most = resident + resident.div_ceil(10);
        let precision = ((resident as f64 * PRECISION) as u64).max(1);
        let sizes = SizeSearch { most, sweep, precision };
        let progress = RunProgress::new(sizes.runs());
        let at = |pages: u64| self.at(Pages(pages).in_bytes(page), &progress);
        let points = self.pool.install(|| sizes.run(at, |point| point.meets))?;
        Ok(points.into_iter().map(|(_, point)| point).collect())
    }

    fn at(&self, fast: Bytes, progress: &RunProgress) -> Result<SizePoint, Failure> {
        let mut job = progress.job(&self.prepared.scenario().name, &fast.to_string());
        // Without fast memory there is nothing to decide.
        if fast == Bytes(0) {
            let sized = self.prepared.resized(enough_slow(self.prepared, self.page()))?;
            let point = self.under(&Recipe::named("smem-all")?, &sized, fast, |share| {
                job.reached(share);
            })?;
            job.done();
            return Ok(point);
        }
        let sized = self.prepared.resized(enough_slow(self.prepared, fast))?;
        let all = self.recipes.len() as f64;
        let each = self.recipes.iter().enumerate().map(|(i, recipe)| {
            self.under(recipe, &sized, fast, |share| job.reached((i as f64 + share) / all))
        });
        let each: Vec<SizePoint> = each.collect::<Result<_, _>>()?;
        job.done();
        best(each).ok_or_else(|| Failure::Internal("no policy was considered".to_owned()))
    }

    fn page(&self) -> Bytes {
        self.prepared.machine().page_size
    }

    /// Runs one size under one policy.
    fn under(
        &self,
        recipe: &Recipe,
        sized: &Prepared,
        fast: Bytes,
        mut progress: impl FnMut(f64),
    ) -> Result<SizePoint, Failure> {
        let options = RunOptions { seed: self.seed, ..RunOptions::default() };
        let result = run(sized, recipe, &options, &mut progress)?.result;
        let tenants = result.tenants.iter().zip(self.limits);
        let tenants: Vec<TenantSizePoint> =
            tenants.map(|(t, limit)| tenant_point(t, limit)).collect();
        Ok(SizePoint {
            fast_bytes: fast.0,
            policy: recipe.name().to_owned(),
            slowdown: result.slowdown,
            meets: tenants.iter().all(|tenant| tenant.meets),
            tenants,
            considered: Vec::new(),
        })
    }
}

/// Returns the point of the policy that served a size best: first by the limits, then by speed. Of
/// equals the first, which moves nothing.
fn best(points: Vec<SizePoint>) -> Option<SizePoint> {
    let considered = points.iter().map(|point| PolicyPoint {
        policy: point.policy.clone(),
        slowdown: point.slowdown,
        meets: point.meets,
    });
    let considered: Vec<PolicyPoint> = considered.collect();
    let better = |a: &SizePoint, b: &SizePoint| {
        b.meets.cmp(&a.meets).then(a.slowdown.total_cmp(&b.slowdown))
    };
    let best = points.into_iter().min_by(better)?;
    Some(SizePoint { considered, ..best })
}

/// Returns the answer of each policy considered by itself, in their order.
pub fn alone(points: &[SizePoint], policies: &[Recipe]) -> Vec<PolicyAlone> {
    let under = |point: &SizePoint, policy: &str| {
        point
            .considered
            .iter()
            .find(|its| its.policy == policy)
            .map_or(point.meets, |its| its.meets)
    };
    let of = |policy: &str| {
        let broken = points.iter().rposition(|point| !under(point, policy));
        let enough = points.get(broken.map_or(0, |broken| broken + 1));
        PolicyAlone { policy: policy.to_owned(), fast_bytes: enough.map(|point| point.fast_bytes) }
    };
    policies.iter().map(|recipe| of(recipe.name())).collect()
}

fn tenant_point(result: &TenantResult, limit: &TenantLimit) -> TenantSizePoint {
    TenantSizePoint {
        tenant: result.name.clone(),
        slowdown: result.slowdown,
        p99_ms: result.latency.as_ref().map(|latency| latency.p99_ms),
        meets: meets_limits(result, limit),
        failure: result.failure.clone(),
    }
}

/// Returns the smallest size from which on every size tried met the limits.
pub fn answer(points: &[SizePoint], resident: u64) -> Option<SufficientSize> {
    let broken = points.iter().rposition(|point| !point.meets);
    let enough = points.get(broken.map_or(0, |broken| broken + 1))?;
    Some(SufficientSize {
        fast_bytes: enough.fast_bytes,
        policy: enough.policy.clone(),
        share_of_resident: enough.fast_bytes as f64 / resident.max(1) as f64,
        too_small_bytes: broken.map(|broken| points[broken].fast_bytes),
    })
}

/// Returns the point farthest below the chord from the first to the last, both axes taken from 0 to
/// 1 (Kneedle, for a falling curve). `None` if no point lies below it.
pub fn knee(points: &[SizePoint]) -> Option<FastMemoryKnee> {
    let (first, last) = (points.first()?, points.last()?);
    let width = (last.fast_bytes - first.fast_bytes) as f64;
    let height = first.slowdown - last.slowdown;
    if width <= 0.0 || height <= 0.0 {
        return None;
    }
    let below = |point: &SizePoint| {
        let across = (point.fast_bytes - first.fast_bytes) as f64 / width;
        let up = (point.slowdown - last.slowdown) / height;
        1.0 - across - up
    };
    let farthest = points.iter().max_by(|a, b| below(a).total_cmp(&below(b)))?;
    (below(farthest) > 0.0)
        .then_some(FastMemoryKnee { fast_bytes: farthest.fast_bytes, slowdown: farthest.slowdown })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(slowdowns: &[f64], limit: f64) -> Vec<SizePoint> {
        let point = |(i, &slowdown): (usize, &f64)| SizePoint {
            fast_bytes: 10 * i as u64,
            policy: "p".to_owned(),
            slowdown,
            meets: slowdown <= limit,
            tenants: Vec::new(),
            considered: Vec::new(),
        };
        slowdowns.iter().enumerate().map(point).collect()
    }

    #[test]
    fn answer_lies_above_the_last_failing_size() {
        let dented = points(&[3.0, 1.0, 1.2, 1.0, 1.0], 1.05);
        let answer = answer(&dented, 40).unwrap();
        assert_eq!((answer.fast_bytes, answer.too_small_bytes), (30, Some(20)));
        assert_eq!(answer.share_of_resident, 0.75);
    }

    #[test]
    fn search_handles_no_answer_and_no_question() {
        assert!(answer(&points(&[3.0, 2.0, 1.5], 1.05), 20).is_none());
        let answer = answer(&points(&[1.0, 1.0], 1.05), 20).unwrap();
        assert_eq!((answer.fast_bytes, answer.too_small_bytes), (0, None));
    }

    fn under(policy: &str, slowdown: f64, meets: bool) -> SizePoint {
        let point = points(&[slowdown], 0.0).remove(0);
        SizePoint { policy: policy.to_owned(), meets, ..point }
    }

    #[test]
    fn losing_policy_does_not_answer() {
        let by = |points| best(points).unwrap().policy;
        assert_eq!(by(vec![under("static", 1.0, true), under("harmful", 1.2, false)]), "static");
        assert_eq!(by(vec![under("static", 1.0, true), under("harmful", 1.01, true)]), "static");
        assert_eq!(by(vec![under("static", 1.0, true), under("same", 1.0, true)]), "static");
        assert_eq!(by(vec![under("static", 1.2, false), under("good", 1.01, true)]), "good");
        // A policy that keeps an SLO at the others' expense keeps the limits.
        assert_eq!(by(vec![under("static", 1.2, false), under("slo", 1.3, true)]), "slo");
        let all = best(vec![under("static", 1.2, false), under("good", 1.01, true)]).unwrap();
        assert_eq!(all.considered.len(), 2);
    }

    #[test]
    fn the_knee_is_farthest_below_the_chord() {
        // The chord falls by 0.5 per step: the distances are 0, 1.2, 1.0, 0.55, 0.
        let knee = knee(&points(&[3.0, 1.3, 1.0, 0.95, 1.0], 1.0)).unwrap();
        assert_eq!((knee.fast_bytes, knee.slowdown), (10, 1.3));
        assert!(super::knee(&points(&[2.0, 1.5, 1.0], 1.0)).is_none());
        assert!(super::knee(&points(&[1.0, 1.0], 1.0)).is_none());
    }
}
