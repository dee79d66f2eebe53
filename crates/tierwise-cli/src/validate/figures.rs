//! The figures of guest and simulator side by side, and their differences.

use serde::Serialize;
use tierwise_sim::result::RunOutput;

use super::ranking::agreement;
use super::record::{BOUND, GuestRun, Point, ProgramRecord, mean};

/// Parts of a run, of equal time, whose shares of fast misses are compared.
pub const PARTS: usize = 10;

/// The figures of a policy, of the guest or of the simulator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunFigures {
    /// Run time divided by that with fast memory only.
    pub slowdown: f64,
    /// Share of the misses that the fast tier served.
    pub fast_share: f64,
    /// Base pages moved.
    pub moved: f64,
    /// Base pages promoted and demoted; `None` where the guest does not count them apart.
    pub promoted: Option<f64>,
    pub demoted: Option<f64>,
    /// CPU seconds of tiering beside the program.
    pub own_seconds: f64,
    /// Share of fast misses in each part of the run.
    pub course: Vec<f64>,
}

/// A policy in the guest and in the simulator.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyFidelity {
    pub policy: String,
    pub recipe: String,
    pub guest: RunFigures,
    pub simulated: RunFigures,
}

impl PolicyFidelity {
    /// Relative error of the simulated slowdown.
    pub fn slowdown_error(&self) -> f64 {
        self.simulated.slowdown / self.guest.slowdown - 1.0
    }

    /// Error of the simulated share of fast misses.
    pub fn fast_error(&self) -> f64 {
        self.simulated.fast_share - self.guest.fast_share
    }

    /// Mean absolute error of the share of fast misses over the parts of the run.
    pub fn course_error(&self) -> f64 {
        let pairs = self.guest.course.iter().zip(&self.simulated.course);
        mean(pairs.map(|(guest, simulated)| (guest - simulated).abs())).unwrap_or_default()
    }
}

/// One program's policies.
#[derive(Debug, Clone, Serialize)]
pub struct ProgramFidelity {
    pub program: String,
    pub about: String,
    pub kernel: String,
    /// Misses with fast memory only, in the guest and in the recording.
    pub guest_misses: u64,
    pub recorded_misses: u64,
    pub fast_mib_at_start: f64,
    pub resident_mib: f64,
    pub policies: Vec<PolicyFidelity>,
    /// Policies of the guest that the simulator does not have.
    pub not_simulated: Vec<String>,
    pub errors: Errors,
    /// Run times that differ by no more than this share are ties.
    pub tie: f64,
    /// Kendall's tau of the rankings by run time.
    pub tau: f64,
    /// Pairs of policies in another order.
    pub disagreements: Vec<(String, String)>,
}

/// Errors over several policies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Mean and largest absolute error of the slowdown, as shares.
    pub slowdown_mean: f64,
    pub slowdown_worst: f64,
    /// The same of the share of fast misses.
    pub fast_mean: f64,
    pub fast_worst: f64,
    /// Mean absolute error of the share of fast misses over the parts of the runs.
    pub course_mean: f64,
}

impl Errors {
    pub fn of(policies: &[&PolicyFidelity]) -> Self {
        let slowdown = || policies.iter().map(|one| one.slowdown_error().abs());
        let fast = || policies.iter().map(|one| one.fast_error().abs());
        Self {
            slowdown_mean: mean(slowdown()).unwrap_or_default(),
            slowdown_worst: slowdown().fold(0.0, f64::max),
            fast_mean: mean(fast()).unwrap_or_default(),
            fast_worst: fast().fold(0.0, f64::max),
            course_mean: mean(policies.iter().map(|one| one.course_error())).unwrap_or_default(),
        }
    }
}

impl ProgramFidelity {
    pub fn new(
        record: &ProgramRecord,
        recorded_misses: u64,
        policies: Vec<PolicyFidelity>,
        not_simulated: Vec<String>,
    ) -> Self {
        let tie = record.tie();
        let pairs: Vec<(f64, f64)> =
            policies.iter().map(|one| (one.guest.slowdown, one.simulated.slowdown)).collect();
        let agreement = agreement(&pairs, tie);
        let name = |i: usize| policies[i].policy.clone();
        let bound = record.runs_of(BOUND).next();
        let limited = record.runs.iter().find(|run| run.policy != BOUND);
        Self {
            program: record.program.clone(),
            about: record.about.clone(),
            kernel: record.kernel.clone(),
            guest_misses: bound.map_or(0, |run| run.user_misses.iter().sum()),
            recorded_misses,
            fast_mib_at_start: limited.map_or(0.0, |run| run.fast_mib_at_start),
            resident_mib: limited.map_or(0.0, |run| run.resident_mib),
            errors: Errors::of(&policies.iter().collect::<Vec<_>>()),
            not_simulated,
            tie,
            tau: agreement.tau,
            disagreements: (agreement.disagreements.iter().map(|&(a, b)| (name(a), name(b))))
                .collect(),
            policies,
        }
    }
}

/// The guest's figures of a policy: means of its runs, and the course of the first.
pub fn of_guest(record: &ProgramRecord, policy: &str) -> RunFigures {
    let runs: Vec<&GuestRun> = record.runs_of(policy).collect();
    let of = |figure: &dyn Fn(&GuestRun) -> f64| {
        mean(runs.iter().map(|run| figure(run))).unwrap_or_default()
    };
    let bound = record.seconds(BOUND).unwrap_or(f64::NAN);
    let moved = of(&|run| run.migrated_pages as f64);
    let (promoted, demoted) =
        (of(&|run| run.promoted_pages as f64), of(&|run| run.demoted_pages as f64));
    // The kernel counts the promotions of its own faults only, not those of move_pages.
    let counted = moved == 0.0 || promoted > 0.0;
    RunFigures {
        slowdown: of(&|run| run.seconds) / bound,
        fast_share: of(&GuestRun::fast_share),
        moved,
        promoted: counted.then_some(promoted),
        demoted: counted.then_some(demoted),
        own_seconds: of(&GuestRun::own_seconds),
        course: runs.first().map_or_else(Vec::new, |run| guest_course(&run.course)),
    }
}

/// The simulator's figures. A simulated page stands for `granule` base pages.
pub fn of_simulation(output: &RunOutput, granule: f64) -> RunFigures {
    let result = &output.result;
    let (promoted, demoted) =
        (result.promotions as f64 * granule, result.demotions as f64 * granule);
    let on_its_path: f64 = result.tenants.iter().map(|tenant| tenant.overhead_seconds).sum();
    RunFigures {
        slowdown: result.slowdown,
        fast_share: result.fast_access_ratio,
        moved: promoted + demoted,
        promoted: Some(promoted),
        demoted: Some(demoted),
        own_seconds: result.overhead_seconds - on_its_path,
        course: simulated_course(output),
    }
}

fn guest_course(points: &[Point]) -> Vec<f64> {
    let sums = points.iter().map(|p| (p.seconds, p.user_misses.map(|misses| misses as f64)));
    parts(&sums.collect::<Vec<_>>())
}

/// The course of the measured part, which ends with the run.
fn simulated_course(output: &RunOutput) -> Vec<f64> {
    let timeline = &output.timeline;
    let end = timeline.last().map_or(0.0, |point| point.time_seconds);
    // The program follows others' page cache.
    let took = output.result.tenants.last().map_or(end, |tenant| tenant.seconds);
    let mut sums = [0.0; 2];
    let points = timeline.iter().filter(|point| point.time_seconds > end - took).map(|point| {
        let fast = point.misses * point.fast_access_ratio;
        sums = [sums[0] + fast, sums[1] + point.misses - fast];
        (point.time_seconds - (end - took), sums)
    });
    parts(&std::iter::once((0.0, [0.0; 2])).chain(points).collect::<Vec<_>>())
}

/// Share of fast misses in each part of a run, from the sums at some times. A part without misses
/// has the share of the part before it.
fn parts(sums: &[(f64, [f64; 2])]) -> Vec<f64> {
    let Some(&(end, _)) = sums.last() else { return Vec::new() };
    let at = |part: usize| sums_at(sums, end * part as f64 / PARTS as f64);
    let mut last = 0.0;
    (0..PARTS)
        .map(|part| {
            let (from, to) = (at(part), at(part + 1));
            let misses = [to[0] - from[0], to[1] - from[1]].map(|n| n.max(0.0));
            if misses[0] + misses[1] > 0.0 {
                last = misses[0] / (misses[0] + misses[1]);
            }
            last
        })
        .collect()
}

/// The sums at a time, between two known ones in proportion.
fn sums_at(sums: &[(f64, [f64; 2])], at: f64) -> [f64; 2] {
    let next = sums.partition_point(|&(time, _)| time < at).min(sums.len() - 1);
    let (time, known) = sums[next];
    let Some(&(before, earlier)) = next.checked_sub(1).and_then(|i| sums.get(i)) else {
        return known;
    };
    let part = if time > before { ((at - before) / (time - before)).clamp(0.0, 1.0) } else { 1.0 };
    [0, 1].map(|tier| earlier[tier] + part * (known[tier] - earlier[tier]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn course_follows_each_tenth() {
        // All slow for a second, then all fast for three.
        let sums = [(0.0, [0.0, 0.0]), (1.0, [0.0, 100.0]), (4.0, [300.0, 100.0])];
        let course = parts(&sums);
        assert_eq!(course.len(), PARTS);
        assert_eq!(course[..2], [0.0, 0.0]);
        // The third tenth is from 0.8 to 1.2 s.
        assert!((course[2] - 0.5).abs() < 0.01, "{course:?}");
        assert_eq!(course[3..], [1.0; 7]);
        assert!(parts(&[]).is_empty());
    }

    #[test]
    fn part_without_misses_keeps_the_share() {
        let sums = [(0.0, [0.0, 0.0]), (5.0, [10.0, 10.0]), (10.0, [10.0, 10.0])];
        assert_eq!(parts(&sums), [0.5; PARTS]);
    }
}
