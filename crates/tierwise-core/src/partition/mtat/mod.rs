//! MTAT's partition policy maker (Kim et al., Middleware 2025, section 3.2): fast memory is
//! partitioned. An agent gives each latency-critical tenant the memory that its SLO needs.
//! Best-effort tenants get the rest.
//!
//! - *Latency-critical* (section 3.2.1, algorithm 1). At each action interval an agent
//!   ([`crate::learn::Agent`]) gets the tenant's usage ratio, access ratio and load, and grows or
//!   shrinks its partition by up to [`largest_step`] (equation 1). It learns from the [`reward`]
//!   (equation 2). Before its first answered requests, a tenant's partition is its resident fast
//!   memory, and may grow into free memory.
//! - *Best-effort* (section 3.2.2, algorithm 2): simulated annealing over the tenants' profiles
//!   raises the smallest normalised performance (equation 3). It starts from an even split and has
//!   steps of 1/32 of the tier (1 GB of the paper's 32) or, with many tenants, an eighth of an even
//!   part. It runs again at the partition interval, when the latency-critical tenants' total
//!   changed by more than a step, and when the set of tenants changed. Between two runs the parts
//!   keep their proportions. If a tenant lacks a profile, the split is by weight.
//!
//! Configured floors and caps hold in both; the sum leaves the high watermark free. A
//! latency-critical tenant without an SLO has no reward, and counts as a best-effort one.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_core::partition::{largest_step, reward};
//! use tierwise_core::units::{Bandwidth, Bytes, Pages};
//!
//! // 4 GB/s for a second, half of it up and half of it down: 2 GB.
//! let step = largest_step(Bandwidth(4_000_000_000), Duration::from_secs(1), Bytes(4000));
//! assert_eq!(step, Pages(500_000));
//!
//! let ms = Duration::from_millis;
//! assert_eq!(reward(ms(19), ms(20), 0.25), 0.75);
//! assert_eq!(reward(ms(20), ms(20), 0.25), 0.75);
//! assert_eq!(reward(ms(21), ms(20), 0.25), -1.0);
//! ```
//!
//! Interpretations of the paper:
//!
//! - *Equation 1* prints the bound as `M / 2t`, with `M` in bytes per second and `t` the interval,
//!   which is not an amount of memory. By its text a change must complete within the interval with
//!   promotion and demotion sharing the bandwidth, which is `M t / 2`.
//! - *The action interval.* Section 4 has partition updates once per minute, but the load of Figure
//!   7 changes every 20 s and Figure 5 has partitions that follow it. So the agents act more often
//!   than best-effort tenants are annealed: every second, the shortest time in which a service
//!   answers enough requests for a 99th percentile at its lowest load.
//! - *The access count* of the state is absolute: accesses per second, over those under the
//!   tenant's highest load, as a network's input must be about one. The scale is the tenant's
//!   [`full_load`](crate::tenant::TenantSpec::full_load), measured like a profile, so that a fifth
//!   of the highest load reads as a fifth from the first second. Without it, it is the maximum so
//!   far.
//! - *The guard.* The paper's agents meet every SLO; one that errs must not cost a service its SLO
//!   for longer than an interval. After a violation the partition grows by the largest step in each
//!   interval until ten seconds have passed without one, whatever the agent says.
//! - *The reward* of an action is for the usage ratio and the worst P99 in the interval that
//!   follows it. An interval without requests has no P99, and the agent learns nothing from it.
//!
//! Parameters: `action_interval_ms` (1000), `interval_ms` (60000), `bandwidth_mbps` (M in megabytes
//! per second; the peak of the tier next to the fastest, as every promoted page comes from there
//! and every demoted one goes there), `best_effort` ("annealing", or "free": they compete page by
//! page, MTAT (LC Only) of section 5), `model` (the trained model with which agents start),
//! `floors` (of tenants that have none of their own).

mod best_effort;
mod critical;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use best_effort::BestEffort;
use critical::{Critical, IntervalReadings};

use super::floors::{Default as DefaultFloor, Floors};
use crate::config::{ConfigError, Section};
use crate::learn::Learning;
use crate::migrate::Cap;
use crate::observe::Observation;
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::share::{Rule, Share, Shares};
use crate::stage::{Estimator, Partitioner};
use crate::tenant::{Class, DEFAULT_WEIGHT, TenantSpec};
use crate::ticker::Ticker;
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{Bandwidth, Bytes, Pages, TenantId, TierId, Timestamp};

/// Equation 1 of MTAT: the largest change of a partition, in base pages, that is completed within
/// an interval.
pub fn largest_step(bandwidth: Bandwidth, interval: Duration, page_size: Bytes) -> Pages {
    let bytes = u128::from(bandwidth.0) * interval.as_nanos() / 2 / 1_000_000_000;
    Bytes(u64::try_from(bytes).unwrap_or(u64::MAX)).in_pages(page_size)
}

/// Equation 2 of MTAT: the reward of an interval in which the 99th percentile was `p99` and this
/// share of the tenant's memory was fast.
pub fn reward(p99: Duration, slo: Duration, usage_ratio: f64) -> f64 {
    if p99 <= slo { 1.0 - usage_ratio } else { -1.0 }
}

/// The claim of one tenant to the fastest tier.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Claim {
    tenant: TenantId,
    floor: Pages,
    /// At least the floor.
    cap: Pages,
    weight: u32,
    /// The decided share.
    pages: Pages,
    rule: Rule,
}

/// The division of the remaining memory among best-effort tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Division {
    Annealing,
    Free,
}

/// MTAT's partitioner: agents for latency-critical tenants, annealing for the others.
pub struct Mtat {
    interval: Duration,
    action: Ticker,
    acted: Timestamp,
    largest: Pages,
    division: Division,
    model: Option<String>,
    learning: Arc<dyn Learning>,
    seed: u64,
    floors: Floors,
    /// The readings of each tenant since the last action.
    readings: Vec<IntervalReadings>,
    /// By tenant; `None` for a best-effort tenant.
    critical: Vec<Option<Critical>>,
    best_effort: BestEffort,
    critical_claims: Vec<Claim>,
    best_effort_claims: Vec<Claim>,
}

impl Mtat {
    /// Reads its parameters. Also reads the model once, to refuse an unreadable one here.
    ///
    /// # Errors
    /// A parameter is outside its allowed range, there is no learner, or the model cannot be read.
    pub fn build(section: &Section<'_>, build: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let Some(learning) = build.learning else {
            return Err(section.error(
                "algorithm",
                "this recipe learns, and this engine has no learner; set EngineConfig's \
                 `learning`, or choose another recipe",
            ));
        };
        let model = section.text("model")?.map(str::to_owned);
        if let Err(problem) = learning.agent(model.as_deref(), build.seed) {
            return Err(section.error("model", problem));
        }
        let second = Duration::from_secs(1);
        let interval = section.millis_or("action_interval_ms", second, 1..=3_600_000)?;
        let period = section.millis_or("interval_ms", 60 * second, 1..=86_400_000)?;
        let topology = build.topology;
        let slower = topology.slower(TierId::FASTEST).unwrap_or(TierId::FASTEST);
        let bandwidth = section
            .whole("bandwidth_mbps", 1..=100_000_000)?
            .map_or(topology.tier(slower).bandwidth, |mb| Bandwidth(mb * 1_000_000));
        let divisions = [("annealing", Division::Annealing), ("free", Division::Free)];
        let capacity = topology.tier(TierId::FASTEST).capacity;
        Ok(Self {
            interval,
            action: Ticker::new(Some(interval)),
            acted: Timestamp::ZERO,
            largest: largest_step(bandwidth, interval, topology.page_size).min(capacity),
            division: section.choice_or("best_effort", Division::Annealing, &divisions)?,
            model,
            learning: Arc::clone(learning),
            seed: build.seed,
            floors: Floors::read(section, DefaultFloor::None)?,
            readings: Vec::new(),
            critical: Vec::new(),
            best_effort: BestEffort::new(period, build.seed),
            critical_claims: Vec::new(),
            best_effort_claims: Vec::new(),
        })
    }

    /// Makes the claim of every present tenant. At an action interval, agents act first.
    fn claim(&mut self, now: Timestamp, ctx: &PlanContext<'_>) {
        self.critical_claims.clear();
        self.best_effort_claims.clear();
        let due = self.action.take(now);
        let elapsed = now.since(self.acted);
        for index in 0..ctx.tenants.len() {
            let tenant = TenantId(index as u16);
            if !is_present(tenant, ctx) {
                continue;
            }
            let mut claim = self.open_claim(tenant, ctx);
            let Some(slo) = slo(tenant, ctx) else {
                self.best_effort_claims.push(claim);
                continue;
            };
            if self.critical.len() <= index {
                self.critical.resize_with(index + 1, || None);
            }
            let (learning, model, seed) = (&self.learning, self.model.as_deref(), self.seed);
            let known = self.critical[index].get_or_insert_with(|| {
                // The model was read when the partitioner was made. If its file was removed since,
                // an untrained agent is better than none.
                let agent = learning.agent(model, seed ^ index as u64);
                let full_load = ctx.specs.get(index).and_then(|spec| spec.full_load);
                Critical::new(
                    agent.or_else(|_| learning.agent(None, seed ^ index as u64)).ok(),
                    slo,
                    full_load.filter(|rate| rate.is_finite()).unwrap_or(0.0),
                )
            });
            let (held, resident) = (ctx.usage(tenant, TierId::FASTEST), ctx.resident(tenant));
            if due {
                let readings = self.readings.get(index).copied().unwrap_or_default();
                known.act(&readings, elapsed, held, resident, self.largest);
            }
            let (pages, rule) = known.claim(held, resident, claim.floor, claim.cap);
            (claim.pages, claim.rule) = (pages, rule);
            self.critical_claims.push(claim);
        }
        if due {
            self.acted = now;
            self.readings.fill(IntervalReadings::default());
        }
    }

    fn open_claim(&self, tenant: TenantId, ctx: &PlanContext<'_>) -> Claim {
        let floor = self.floors.of(tenant);
        let cap = super::floors::cap(tenant, TierId::FASTEST, ctx).max(floor);
        let weight = ctx.specs.get(tenant.index()).map_or(DEFAULT_WEIGHT, |spec| spec.weight);
        Claim { tenant, floor, cap, weight, pages: floor, rule: self.floors.rule() }
    }

    /// Cuts the latency-critical tenants' claims to the memory beside the others' floors, all in
    /// proportion to their claims beyond their own floors. Returns the memory for the others,
    /// floors included.
    fn fit(&mut self, available: Pages) -> Pages {
        let sum = |claims: &[Claim], of: fn(&Claim) -> Pages| claims.iter().map(of).sum::<Pages>();
        let floors = sum(&self.best_effort_claims, |c| c.floor);
        let own = sum(&self.critical_claims, |c| c.floor);
        let wanted = sum(&self.critical_claims, |c| c.pages);
        let allowed = available.saturating_sub(floors);
        if wanted > allowed {
            let (beyond, limit) = (wanted.saturating_sub(own), allowed.saturating_sub(own));
            for claim in &mut self.critical_claims {
                let part = u128::from(claim.pages.saturating_sub(claim.floor).0);
                let part = part * u128::from(limit.0) / u128::from(beyond.0.max(1));
                claim.pages = claim.floor + Pages(part as u64);
            }
        }
        available.saturating_sub(sum(&self.critical_claims, |c| c.pages))
    }

    fn share_of(&self, claim: &Claim) -> Share {
        let critical = self.critical.get(claim.tenant.index()).and_then(Option::as_ref);
        let partitioned = match critical {
            Some(critical) => critical.acts(),
            None => self.division == Division::Annealing,
        };
        if partitioned {
            return Share { cap: claim.cap, ..Share::partition(claim.pages) };
        }
        Share { floor: claim.pages, cap: claim.cap, ..Share::FREE }
    }
}

/// Returns true if a tenant runs or still holds memory.
fn is_present(tenant: TenantId, ctx: &PlanContext<'_>) -> bool {
    let running = ctx.tenants.get(tenant.index()).is_some_and(|reading| reading.running);
    running || ctx.resident(tenant) > Pages(0)
}

/// The SLO of a latency-critical tenant.
fn slo(tenant: TenantId, ctx: &PlanContext<'_>) -> Option<Duration> {
    let spec = ctx.specs.get(tenant.index())?;
    spec.slo.filter(|_| spec.class == Class::LatencyCritical)
}

impl Partitioner for Mtat {
    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, _: &PageTable) {
        if self.readings.len() < obs.tenants.len() {
            self.readings.resize(obs.tenants.len(), IntervalReadings::default());
        }
        self.readings.iter_mut().zip(&obs.tenants).for_each(|(sum, reading)| sum.add(reading));
    }

    fn partition(
        &mut self,
        now: Timestamp,
        ctx: &PlanContext<'_>,
        _: &dyn Estimator,
        shares: &mut Shares,
    ) {
        let fast = TierId::FASTEST;
        let tier = ctx.topology.tier(fast);
        let available = tier.capacity.saturating_sub(tier.watermarks.at(WatermarkLevel::High));
        self.floors.resolve(fast, ctx);
        self.claim(now, ctx);
        let rest = self.fit(available);
        if self.division == Division::Annealing {
            let claims = &mut self.best_effort_claims;
            self.best_effort.divide(now, rest, claims, ctx, self.learning.as_ref());
        }
        for claim in self.critical_claims.iter().chain(&self.best_effort_claims) {
            shares.set(now, claim.tenant, fast, self.share_of(claim), claim.rule);
        }
        for tenant in (0..ctx.tenants.len()).map(|index| TenantId(index as u16)) {
            if !is_present(tenant, ctx) {
                shares.set(now, tenant, fast, Share::FREE, Rule::Configured);
            }
        }
    }

    fn first_caps(&self, specs: &[TenantSpec], topology: &Topology) -> Vec<Cap> {
        super::floors::first_caps(specs, topology)
    }
}
