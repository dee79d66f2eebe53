//! The common part of the partitioners that lend dedicated memory: the tenants that take part,
//! their estimated slowdowns, and the memory of newcomers (Memstrata, section 4.3).
//!
//! A machine in mixed mode has dedicated fast memory, its first tier, beside the tier that the CPU
//! manages. A share's floor in the first tier is the dedicated memory of its tenant.

use std::time::Duration;

use crate::config::{ConfigError, Section};
use crate::estimate::slowdown::{Classifier, LatencyFit, RatioOnly, Slowdown, SlowdownEstimate};
use crate::observe::{CpuCounters, Observation, Signals};
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::share::{Rule, Share, Shares};
use crate::topology::Topology;
use crate::units::{Pages, TenantId, TierId, Timestamp};

/// The forest that ships (models/README.md).
const MODEL: &str = "memstrata-slowdown-5";

/// The relative difference of idle latencies above which a model is another machine's: latencies of
/// one kind of memory differ by less between servers, those of two kinds by more. Chosen, not
/// measured: a larger one uses a model on memory of another kind; a smaller one refuses it on a
/// server of the same kind with other clocks.
const SAME_MACHINE: f64 = 0.25;

/// A tenant that takes part in the lending of dedicated memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DedicatedTenant {
    /// The tenant.
    pub tenant: TenantId,
    /// Its memory, in base pages.
    pub pages: u64,
    /// The dedicated part of its memory, in base pages. A decision replaces the present part by the
    /// decided one.
    pub dedicated: u64,
    /// Its estimated slowdown.
    pub estimate: SlowdownEstimate,
}

/// The state of the lending partitioners between decisions.
pub(super) struct Dedicated {
    pub(super) interval: Duration,
    pub(super) step_ratio: f64,
    slowdown: Slowdown,
    /// By tenant: the counters since the last decision.
    counted: Vec<Option<CpuCounters>>,
    /// By tenant: true if it took part in the last decision, or takes part in the present one.
    known: Vec<bool>,
    pub(super) members: Vec<DedicatedTenant>,
}

impl Dedicated {
    /// Reads the parameters `interval_ms` (10,000), `step_ratio` (0.1), `ewma` (0.2), `model` and
    /// `fallback` ("ratio-only", or "refuse"), the alternative to a model that cannot run or is
    /// another machine's. Of a tenant unlike those of the model's training the ratio judges in both
    /// cases: it is known only when it runs.
    pub(super) fn read(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let interval = section.millis_or("interval_ms", Duration::from_secs(10), 1..=3_600_000)?;
        let step_ratio = section.number_or("step_ratio", 0.1, 0.001..=1.0)?;
        let ewma = section.number_or("ewma", 0.2, 0.001..=1.0)?;
        let model = section.text("model")?.unwrap_or(MODEL);
        let may_fall_back =
            section.choice_or("fallback", true, &[("ratio-only", true), ("refuse", false)])?;
        let slowdown = match classifier(model, ctx) {
            Ok(classifier) => classifier,
            Err(_) if may_fall_back => Box::new(RatioOnly::new(memories(ctx.topology))),
            Err(why) => {
                let advice = "train one for this machine, or set fallback = \"ratio-only\"";
                return Err(section.error("model", format!("found \"{model}\": {why}; {advice}")));
            }
        };
        Ok(Self {
            interval,
            step_ratio,
            slowdown: Slowdown::new(slowdown, ewma),
            counted: Vec::new(),
            known: Vec::new(),
            members: Vec::new(),
        })
    }

    pub(super) fn signals() -> Signals {
        Signals { counters: true, flat_memory: true, ..Signals::default() }
    }

    /// Adds up the counters since the last decision.
    pub(super) fn on_observation(&mut self, obs: &Observation) {
        self.counted.resize(obs.tenants.len().max(self.counted.len()), None);
        for (sum, reading) in self.counted.iter_mut().zip(&obs.tenants) {
            if let Some(new) = reading.counters {
                *sum = Some(sum.map_or(new, |old| old.and(&new)));
            }
        }
    }

    /// Lists the tenants that take part in this decision, with their estimates, and gives newcomers
    /// their memory. Tenants that have ended are left out.
    pub(super) fn start(&mut self, ctx: &PlanContext<'_>) {
        self.members.clear();
        self.known.resize(ctx.tenants.len().max(self.known.len()), false);
        let mut newcomers = Vec::new();
        for (i, reading) in ctx.tenants.iter().enumerate() {
            let tenant = TenantId(i as u16);
            let pages = ctx.resident(tenant).0;
            if !reading.running || pages == 0 {
                self.slowdown.forget(i);
                self.known[i] = false;
                continue;
            }
            let dedicated = ctx.usage(tenant, TierId::FASTEST).0;
            let counted = self.counted.get_mut(i).and_then(Option::take).unwrap_or_default();
            let estimate = self.slowdown.update(i, &counted, pages - dedicated).unwrap_or_default();
            if !std::mem::replace(&mut self.known[i], true) {
                newcomers.push(self.members.len());
            }
            self.members.push(DedicatedTenant { tenant, pages, dedicated, estimate });
        }
        // The tenants of the first decision found the machine empty, and keep what they allocated.
        if newcomers.len() < self.members.len() {
            let share = dedicated_share(ctx.topology);
            newcomers.into_iter().for_each(|new| welcome(&mut self.members, new, share));
        }
    }

    /// Writes the members' shares, and frees those of the other tenants.
    pub(super) fn end(
        &self,
        now: Timestamp,
        shares: &mut Shares,
        rule: impl Fn(&DedicatedTenant) -> Rule,
    ) {
        let free = Share::FREE;
        for (i, _) in self.known.iter().enumerate().filter(|&(_, &takes_part)| !takes_part) {
            shares.set(now, TenantId(i as u16), TierId::FASTEST, free, Rule::Configured);
        }
        for member in &self.members {
            let share = Share { floor: Pages(member.dedicated), ..free };
            shares.set(now, member.tenant, TierId::FASTEST, share, rule(member));
        }
    }

    /// Returns the rule that set a member's share.
    pub(super) fn lent(&self, member: &DedicatedTenant) -> Rule {
        Rule::Lent {
            by: self.slowdown.classifier().name(),
            outlier: member.estimate.is_outlier,
            mpki: member.estimate.mpki,
            pages: Pages(member.pages),
            strange: member.estimate.strange,
        }
    }
}

/// The line through the two memories' latencies: a miss reads fast memory first.
fn memories(topology: &Topology) -> LatencyFit {
    let ns = |tier: TierId| topology.tier(tier).load_latency.as_nanos() as f64;
    LatencyFit { intercept: ns(TierId::FASTEST), slope: ns(topology.slowest()) }
}

fn classifier(model: &str, ctx: &BuildContext<'_>) -> Result<Box<dyn Classifier>, String> {
    let learning = ctx.learning.ok_or("no learner of this program can run a model")?;
    let classifier = learning.classifier(model)?;
    let (its, ours) = (classifier.fit(), memories(ctx.topology));
    let differ = |its: f64, ours: f64| (its - ours).abs() > SAME_MACHINE * ours;
    if differ(its.intercept, ours.intercept) || differ(its.slope, ours.slope) {
        return Err(format!(
            "it was trained where fast memory takes {:.0} ns and a miss {:.0} ns more; here it is \
             {:.0} and {:.0} ns",
            its.intercept, its.slope, ours.intercept, ours.slope
        ));
    }
    Ok(classifier)
}

/// The system's share of dedicated memory.
fn dedicated_share(topology: &Topology) -> f64 {
    let dedicated = topology.tier(TierId::FASTEST).capacity.0 as f64;
    dedicated / (topology.capacity().0 as f64).max(1.0)
}

/// Gives a newcomer the system's share of dedicated memory. The others give, or take, the same
/// number of pages each. If one of them has too few, the rest give or take more.
pub(super) fn welcome(members: &mut [DedicatedTenant], new: usize, share: f64) {
    let wanted = (members[new].pages as f64 * share) as u64;
    let gives = wanted > members[new].dedicated;
    let mut left = wanted.abs_diff(members[new].dedicated);
    loop {
        let can = |m: &DedicatedTenant| if gives { m.dedicated } else { m.pages - m.dedicated };
        let able: Vec<usize> =
            (0..members.len()).filter(|&i| i != new && can(&members[i]) > 0).collect();
        let Some(count) = u64::try_from(able.len()).ok().filter(|&count| count > 0 && left > 0)
        else {
            return;
        };
        // The last pages are fewer than the tenants, and come from the first tenants.
        let each = (left / count).max(1);
        for i in able {
            let part = each.min(left).min(can(&members[i]));
            left -= part;
            let (other, newcomer) = if gives { (i, new) } else { (new, i) };
            members[other].dedicated -= part;
            members[newcomer].dedicated += part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(tenant: u16, pages: u64, dedicated: u64) -> DedicatedTenant {
        DedicatedTenant {
            tenant: TenantId(tenant),
            pages,
            dedicated,
            estimate: SlowdownEstimate::default(),
        }
    }

    fn dedicated(members: &[DedicatedTenant]) -> Vec<u64> {
        members.iter().map(|m| m.dedicated).collect()
    }

    #[test]
    fn newcomer_gets_equal_parts_from_all() {
        let mut members = [member(0, 300, 100), member(1, 900, 300), member(2, 300, 0)];
        welcome(&mut members, 2, 1.0 / 3.0);
        assert_eq!(dedicated(&members), [50, 250, 100]);
    }

    #[test]
    fn others_make_up_for_poor_members() {
        let mut members = [member(0, 300, 10), member(1, 900, 300), member(2, 300, 0)];
        welcome(&mut members, 2, 1.0 / 3.0);
        assert_eq!(dedicated(&members), [0, 210, 100]);
        let mut all_empty = [member(0, 300, 0), member(1, 300, 0)];
        welcome(&mut all_empty, 1, 0.5);
        assert_eq!(dedicated(&all_empty), [0, 0]);
    }

    #[test]
    fn newcomers_surplus_goes_to_all_equally() {
        let mut members = [member(0, 300, 100), member(1, 900, 300), member(2, 300, 201)];
        welcome(&mut members, 2, 1.0 / 3.0);
        assert_eq!(dedicated(&members), [151, 350, 100]);
    }
}
