//! Tierwise's own partitioner: floors, caps and SLOs together, without parameters to tune.
//!
//! Every second, with the estimator's hotness of each tenant's pages:
//!
//! 1. Every tenant gets its floor ([`crate::tenant`]), up to its resident memory.
//! 2. Each service with an SLO gets the memory that its requests need at the load that may come
//!    next, by its own counters and its learned properties ([`super::need`]), less what can be
//!    copied in time. At its present load it needs no more than it holds while its P99 is at most
//!    half of the SLO. After a violation the
//!    guard takes over within the interval and keeps all its memory fast for ten seconds. A service
//!    whose CPU time or CPUs are not known gets all the memory that it has, and so does one of
//!    which no latency was measured within ten seconds; until then it keeps the memory that it
//!    holds. One that answered before and is silent keeps its last share. A tenant whose accesses
//!    were not monitored yet keeps the memory that it holds, as far as floors and services leave
//!    it: nothing says that another would use it more.
//! 3. The remaining memory goes, piece by piece, to the tenants that it helps most. Services that
//!    step 2 provided for are as fast as they have to be. They get what helps no other tenant, and
//!    what none of the others had lately.
//!
//! A tenant's slowdown is its time over its time with all memory fast, and its speed the inverse.
//! The value of a piece is the speed that it gives its tenant, times the tenant's weight, and times
//! the 25th power of the slowdown by which the tenant is judged. So a slow tenant comes before a
//! fast one (alpha-fairness of speeds with alpha 25, near max-min fairness: Mo and Walrand,
//! IEEE/ACM Transactions on Networking 8(5), 2000). A tenant is judged by its mean speed of the
//! last two minutes, the present second being half of it: programs have phases, and who waits for
//! memory in one gets it in another. When a tenant arrives all means start again: no tenant waits
//! because it was fast while there was memory for all. Each second the memory goes where it raises
//! the utility of mean speeds most (the gradient rule: Stolyar, Operations Research 53(1), 2005).
//!
//! Slowdown follows from the tenant's own counters ([`super::speed`]). For a share the estimator's
//! histogram predicts it.
//!
//! A share is an entitlement: no tenant's pages displace those to which another is entitled. It is
//! at most the memory that was resident when it was computed, and a workload may have grown since.
//! So any tenant may allocate free memory, and returns it when another lacks its entitlement.
//! Memory that helps no tenant is divided by weight. Only the configured cap is a limit.
//!
//! Where samples do not tell what a move saves (checks of DAMON), a tenant that thrashes within its
//! share changes its pages more slowly ([`super::thrash`]), and so does one whose promotions do not
//! pay ([`super::profit`]). Where they do, a move pays for its copies or follows a share, and
//! neither rule slows it. Memory that a tenant has is worth more to it than memory that it would
//! have to get, so that chance moves nothing. What it keeps in this way comes to what it would get
//! without, within some seconds.
//!
//! A sample interrupts a request. At the knee a few hundred nanoseconds in each thousand requests
//! are a queue that grows without end. So a service that needs all of its memory, and has held it
//! for two ageing intervals, is sampled at the estimator's longest period.
//!
//! The decision for each tenant has its rule and the rule's numbers.

use std::collections::BinaryHeap;
use std::time::Duration;

use super::curve::HotnessCurve;
use super::floors::{Default as DefaultFloor, Floors, cap};
use super::need::{ServiceNeed, ServiceReading};
use super::profit::Profit;
use super::speed::TenantSpeed;
use super::thrash::ThrashControl;
use crate::config::{ConfigError, Section};
use crate::migrate::{Cap, MoveOutcome};
use crate::observe::Observation;
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::share::{Rule, Share, Shares};
use crate::stage::{Estimator, Partitioner};
use crate::tenant::{Class, DEFAULT_WEIGHT, TenantSpec};
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{Pages, TenantId, TierId, Timestamp};

/// The time between two decisions: a second's 99th percentile is that of thousands of requests, and
/// the guard is at most a second late.
const INTERVAL: Duration = Duration::from_secs(1);

/// The value of a piece that a tenant has, relative to a piece that it would have to get. Without
/// it, memory would move back and forth between tenants with equal needs, and memory that is being
/// copied serves no tenant. So a tenant may be 9 % slower than an equal one (8 to the power of 1 /
/// [`ALPHA`]) before it gets what that one has. A smaller one lets needs that differ by the chance
/// of a second's samples exchange memory (docs/tenants.md).
const HAVING: f64 = 8.0;

/// The part by which memory that a tenant has comes to what it would get if it had nothing, per
/// interval: half of it in 7 s. Without it the first to get memory stays the faster one. Chosen of
/// 0.02, 0.05 and 0.1: of two programs the slower is 1 % faster with the second than with the
/// first, and 0.4 % faster again with the third (docs/tenants.md).
const DRIFT: f64 = 0.1;

/// Alpha of alpha-fairness: 0 for the greatest sum of speeds, infinite for max-min fairness. At 15
/// the slowest of MTAT's programs is slower than under MTAT: XSBench gains 17 times as much from a
/// piece as SSSP, and keeps it though it is 11 % faster. A larger one costs the programs throughput
/// (docs/tenants.md). It magnifies the error of counters: a slowdown that is off by 3 % doubles a
/// value.
const ALPHA: i32 = 25;

/// Pieces into which the fast tier is divided, unless a class of pages is smaller. Chosen, not
/// measured: shares are exact to 0.4 % of the tier. More pieces take more time for each decision;
/// fewer make coarser shares.
const PIECES: u64 = 256;

/// The time in which a service is expected to report its first latency. Until then it keeps what it
/// holds: its memory moves only when something is known of its need. Services report every second,
/// and some operators' scripts more rarely. After it a service is taken for one that does not
/// report. Chosen, not measured: as long as the guard's time, which gives all memory as well.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// The time in which a histogram becomes that of the present accesses: before sparse sampling, for
/// which the hottest pages have to be fast, and after it, when it has too few samples. Chosen, not
/// measured: two ageing intervals of the recipe, after which three quarters of its counts are new.
const RELEARNING: Duration = Duration::from_secs(8);

/// The state of one tenant.
#[derive(Debug, Clone, Default)]
struct Tenant {
    curve: HotnessCurve,
    /// What its pages have to expect; without classes before that is learned.
    expected: HotnessCurve,
    need: ServiceNeed,
    speed: TenantSpeed,
    /// CPU time in seconds since the last decision, and requests answered.
    busy: f64,
    requests: f64,
    cpus: f64,
    /// The worst 99th percentile since the last decision.
    p99: Option<Duration>,
    /// The first decision without a 99th percentile.
    found: Option<Timestamp>,
    /// True after the first 99th percentile.
    measured: bool,
    /// Its last need that was computed, which the guard's share is not.
    needed: Option<Pages>,
    /// The time since which it needs all of its memory and holds its share.
    filled: Option<Timestamp>,
    /// True while few samples of it suffice.
    sparse: bool,
    /// The time until which its histogram has too few samples, as it was sparsely sampled.
    sparse_until: Timestamp,
    share: Pages,
    /// Its share by steps 1 and 2.
    entitled: Pages,
    /// Its share by the last decision.
    last_share: Option<Pages>,
    /// Memory that counts as its own ([`HAVING`]).
    kept: Pages,
    rule: Option<Rule>,
    /// True for a service whose need for its SLO is in its share.
    is_provided: bool,
    limit: Pages,
}

impl Tenant {
    /// What its pages have to expect, once that is learned, and their counts before. Counts name
    /// too few pages: those that have the most of them have them by chance, too. So a page counts
    /// by what became of pages like it.
    fn judged(&self) -> &HotnessCurve {
        if self.expected.accesses() > 0.0 { &self.expected } else { &self.curve }
    }

    /// Extends the share to `pages`, within its limit and by at most `left`. Returns the pages that
    /// were added.
    fn extend(&mut self, pages: Pages, left: Pages) -> Pages {
        let extra = pages.min(self.limit).saturating_sub(self.share).min(left);
        self.share += extra;
        extra
    }

    /// Decides whether few samples suffice: the service needs all of its memory, and has held its
    /// share long enough for its hottest pages to be in it. Samples then find nothing to move.
    fn follow_fill(&mut self, now: Timestamp, held: Pages, needs_all: bool) {
        let share = self.last_share.unwrap_or_default();
        let is_filled = needs_all && share > Pages(0) && held.0 + share.0 / PIECES >= share.0;
        self.filled = is_filled.then(|| self.filled.unwrap_or(now));
        self.sparse = self.filled.is_some_and(|filled| now.since(filled) >= RELEARNING);
        if self.sparse {
            self.sparse_until = now + RELEARNING;
        }
    }

    /// The pages that serve a share of the accesses. A histogram of few samples does not tell;
    /// all pages alike is the most that a share can need.
    fn pages_for(&self, share: f64, now: Timestamp, resident: Pages) -> Pages {
        if now < self.sparse_until {
            return Pages((share * resident.0 as f64).ceil() as u64).min(resident);
        }
        self.judged().pages_for(share, resident)
    }
}

/// The next piece of memory of a tenant.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Offer {
    /// Gain per page.
    worth: f64,
    tenant: u16,
    pages: Pages,
    next: f64,
}

impl Eq for Offer {}

impl Ord for Offer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Of equal gains the smaller id first: the order must not depend on the heap.
        self.worth.total_cmp(&other.worth).then(other.tenant.cmp(&self.tenant))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Tierwise's partitioner. It decides once per second.
#[derive(Debug, Clone)]
pub struct Tierwise {
    floors: Floors,
    thrash: ThrashControl,
    profit: Profit,
    tenants: Vec<Tenant>,
    offers: BinaryHeap<Offer>,
    decided: Timestamp,
}

impl Tierwise {
    /// Reads `floors` ("none"), the floor of tenants that have none of their own, and
    /// the parameters of thrash control.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            floors: Floors::read(section, DefaultFloor::None)?,
            thrash: ThrashControl::read(section)?,
            profit: Profit::default(),
            tenants: Vec::new(),
            offers: BinaryHeap::new(),
            decided: Timestamp::ZERO,
        })
    }

    fn spec<'a>(ctx: &PlanContext<'a>, tenant: TenantId) -> Option<&'a TenantSpec> {
        ctx.specs.get(tenant.index())
    }

    /// The need of a service with an SLO, and its rule; `None` for every other tenant.
    fn needed(
        &mut self,
        now: Timestamp,
        tenant: TenantId,
        seconds: f64,
        ctx: &PlanContext<'_>,
    ) -> Option<(Pages, Rule)> {
        let spec = Self::spec(ctx, tenant).filter(|s| s.class == Class::LatencyCritical)?;
        let slo = spec.slo?;
        let resident = ctx.resident(tenant);
        let t = &mut self.tenants[tenant.index()];
        let Some(p99) = t.p99 else {
            // The shares before the first answer say how much memory it had, not how much it needs.
            // Reports and decisions are not in step, so that some decisions have none. Those after
            // the guard's time must not keep its share for good.
            let last =
                if t.need.is_guarded(now) { t.last_share } else { t.needed.or(t.last_share) };
            let is_new = now.since(*t.found.get_or_insert(now)) < FIRST_ANSWER;
            let unknown = if is_new { ctx.usage(tenant, TierId::FASTEST) } else { resident };
            let kept = last.filter(|_| t.measured).unwrap_or(unknown);
            return Some((kept.min(resident), Rule::Unmeasured { slo }));
        };
        t.measured = true;
        let (fast, slow) = latencies(ctx.topology);
        let service = ServiceReading {
            busy: t.busy / seconds,
            servers: t.cpus,
            misses: t.speed.misses() / seconds,
            access_ratio: t.speed.access_ratio().unwrap_or(1.0),
            added_ns: slow - fast,
            requests: t.requests / seconds,
            full_load: spec.full_load.filter(|load| *load > 0.0).unwrap_or(f64::INFINITY),
        };
        let guard = t.need.learn(now, &service, p99, slo);
        // A service that answered used some CPU time, so none means that it is not known.
        let unknown = service.servers <= 0.0 || service.busy <= 0.0;
        let access_ratio =
            if guard || unknown { 1.0 } else { t.need.access_ratio(now, &service, slo) };
        let mut pages = t.pages_for(access_ratio, now, resident);
        let held = ctx.usage(tenant, TierId::FASTEST);
        if !guard && !unknown {
            // A page that comes needs one that goes: two copies.
            let each = ctx.move_cost.map_or(f64::INFINITY, |cost| 2.0 * cost.as_secs_f64());
            let without =
                |missing: f64| t.pages_for((access_ratio - missing).max(0.0), now, resident);
            let copying = |missing| pages.saturating_sub(without(missing)).0 as f64 * each;
            let later = t.need.deferrable(now, &service, slo, access_ratio, copying);
            let present = t.pages_for(t.need.present_ratio(&service, slo), now, resident);
            // What holds half of the SLO suffices, whatever the counters say.
            let present = if p99 <= slo / 2 { present.min(held) } else { present };
            pages = present.max(without(later));
        }
        t.follow_fill(now, held, pages >= resident);
        if !guard && !unknown {
            t.needed = Some(pages);
        }
        let rule =
            if guard { Rule::Guard { p99, slo } } else { Rule::Needed { p99, slo, access_ratio } };
        Some((pages, rule))
    }

    /// Steps 1 and 2. Returns the remaining memory.
    fn entitle(&mut self, now: Timestamp, seconds: f64, ctx: &PlanContext<'_>) -> Pages {
        let tier = ctx.topology.tier(TierId::FASTEST);
        let mut left = tier.capacity.saturating_sub(tier.watermarks.at(WatermarkLevel::High));
        for i in 0..ctx.tenants.len() {
            let id = TenantId(i as u16);
            let limit = cap(id, TierId::FASTEST, ctx).min(ctx.resident(id));
            let floor = self.floors.of(id).min(limit);
            let t = &mut self.tenants[i];
            (t.limit, t.share) = (limit, floor);
            left = left.saturating_sub(floor);
        }
        for i in 0..ctx.tenants.len() {
            let needed = self.needed(now, TenantId(i as u16), seconds, ctx);
            let t = &mut self.tenants[i];
            t.is_provided = needed.is_some();
            t.rule = needed.map(|(_, rule)| rule);
            if let Some((pages, _)) = needed {
                left -= t.extend(pages, left);
            }
        }
        for i in 0..ctx.tenants.len() {
            let t = &mut self.tenants[i];
            if ctx.tenants[i].unmonitored && t.rule.is_none() {
                left -= t.extend(ctx.usage(TenantId(i as u16), TierId::FASTEST), left);
                t.rule = Some(Rule::Unmonitored);
            }
        }
        left
    }

    /// The next piece of a tenant and its value.
    fn offer(&self, tenant: usize, piece: Pages, ctx: &PlanContext<'_>) -> Option<Offer> {
        let t = &self.tenants[tenant];
        let curve = t.judged();
        let (run, each) = curve.next(t.share)?;
        let old = t.kept.saturating_sub(t.share);
        let having = old > Pages(0);
        let pages = run.min(piece).min(t.limit.saturating_sub(t.share));
        let pages = if having { pages.min(old) } else { pages };
        if pages == Pages(0) || curve.accesses() <= 0.0 {
            return None;
        }
        let weight = Self::spec(ctx, TenantId(tenant as u16)).map_or(DEFAULT_WEIGHT, |s| s.weight);
        let latency = latencies(ctx.topology);
        let trust = t.speed.trust();
        let served = trust * curve.served(t.share);
        let more = served + trust * pages.0 as f64 * each / curve.accesses();
        let slowdown = |served| t.speed.slowdown(served, latency);
        let (without, with) = (slowdown(served), slowdown(more));
        let gained = 1.0 / with - 1.0 / without;
        let need = t.speed.judged(without).powi(ALPHA);
        let worth = f64::from(weight) * gained * need / pages.0 as f64;
        let worth = if having { HAVING * worth } else { worth };
        (worth > 0.0).then_some(Offer { worth, tenant: tenant as u16, pages, next: each })
    }

    /// Step 3, among the services that step 2 provided for or among the other tenants. Returns the
    /// memory that helps none of them.
    fn distribute(&mut self, services: bool, mut left: Pages, ctx: &PlanContext<'_>) -> Pages {
        let capacity = ctx.topology.tier(TierId::FASTEST).capacity;
        let piece = Pages((capacity.0 / PIECES).max(1));
        let mut offers = std::mem::take(&mut self.offers);
        offers.clear();
        let taking = (0..ctx.tenants.len()).filter(|&i| self.tenants[i].is_provided == services);
        offers.extend(taking.filter_map(|i| self.offer(i, piece, ctx)));
        while let Some(offer) = offers.pop().filter(|_| left > Pages(0)) {
            let i = usize::from(offer.tenant);
            let pages = offer.pages.min(left);
            let t = &mut self.tenants[i];
            t.share += pages;
            left -= pages;
            if matches!(t.rule, None | Some(Rule::Hottest { .. })) {
                let served = t.judged().served(t.share);
                t.rule = Some(Rule::Hottest { served, next: offer.next });
            }
            offers.extend(self.offer(i, piece, ctx));
        }
        self.offers = offers;
        left
    }

    /// Step 3 for all tenants. Returns the memory that helps none.
    fn distribute_all(&mut self, left: Pages, ctx: &PlanContext<'_>) -> Pages {
        let left = self.distribute(false, left, ctx);
        let left = self.retain(left);
        self.distribute(true, left, ctx)
    }

    /// Where services could take what helps no other tenant, the others first keep what is their
    /// own: a program between two phases uses it again. Returns the remaining memory.
    fn retain(&mut self, mut left: Pages) -> Pages {
        if self.tenants.iter().any(|t| t.is_provided) {
            for t in self.tenants.iter_mut().filter(|t| !t.is_provided) {
                left -= t.extend(t.kept, left);
            }
        }
        left
    }

    /// Computes what counts as each tenant's own: its last share, and a little of what it would get
    /// if no tenant had any memory.
    fn keep(&mut self, left: Pages, ctx: &PlanContext<'_>) {
        for t in &mut self.tenants {
            (t.kept, t.entitled) = (Pages(0), t.share);
        }
        self.distribute_all(left, ctx);
        for t in &mut self.tenants {
            let last = t.last_share.unwrap_or_default().0 as f64;
            t.kept = Pages((last + (t.share.0 as f64 - last) * DRIFT).round() as u64);
            t.share = t.entitled;
            t.rule = t.rule.filter(|rule| !matches!(rule, Rule::Hottest { .. }));
        }
    }

    /// Divides the remaining memory by weight among the tenants that can hold more.
    fn give_away(&mut self, mut left: Pages, ctx: &PlanContext<'_>) {
        // Each round fills at least one tenant or gives all memory away.
        for _ in 0..ctx.tenants.len() {
            let can_take = |t: &Tenant| t.limit.saturating_sub(t.share) > Pages(0);
            let weight =
                |i: usize| Self::spec(ctx, TenantId(i as u16)).map_or(DEFAULT_WEIGHT, |s| s.weight);
            let all: u64 = (0..ctx.tenants.len())
                .filter(|&i| can_take(&self.tenants[i]))
                .map(|i| u64::from(weight(i)))
                .sum();
            if all == 0 {
                return;
            }
            let whole = left;
            for i in 0..ctx.tenants.len() {
                let t = &mut self.tenants[i];
                // Rounded down, so that equal weights get equal parts.
                let part = u128::from(whole.0) * u128::from(weight(i)) / u128::from(all);
                let more = Pages(part as u64).min(t.limit.saturating_sub(t.share));
                t.share += more;
                left -= more;
            }
            if left == whole {
                return;
            }
        }
    }
}

/// Latency of the fastest and of the slowest tier in nanoseconds.
fn latencies(topology: &Topology) -> (f64, f64) {
    let ns = |tier: Option<&crate::topology::Tier>| {
        tier.map_or(1.0, |t| t.load_latency.as_nanos() as f64)
    };
    (ns(topology.tiers.first()), ns(topology.tiers.last()))
}

impl Partitioner for Tierwise {
    fn interval(&self) -> Option<Duration> {
        Some(INTERVAL)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &PageTable) {
        self.thrash.on_observation(obs, pages);
        self.profit.on_observation(obs);
        if self.tenants.len() < obs.tenants.len() {
            self.tenants.resize_with(obs.tenants.len(), Tenant::default);
        }
        for (t, reading) in self.tenants.iter_mut().zip(&obs.tenants) {
            t.speed.add(reading);
            t.busy += reading.busy.as_secs_f64();
            t.requests += reading.operations as f64;
            t.cpus = reading.cpus;
            t.p99 = t.p99.max(reading.p99);
        }
    }

    fn on_outcomes(&mut self, now: Timestamp, outcomes: &[MoveOutcome], pages: &PageTable) {
        self.thrash.on_outcomes(now, outcomes, pages);
        self.profit.on_outcomes(now, outcomes, pages);
    }

    /// A sample interrupts a request. A service that needs all of its memory has no time to spare,
    /// and once its hottest pages are fast its samples change nothing.
    fn is_sparse(&self, tenant: TenantId) -> bool {
        self.tenants.get(tenant.index()).is_some_and(|t| t.sparse)
    }

    fn thrash_events(&self, tenant: TenantId) -> u64 {
        self.thrash.events(tenant)
    }

    fn first_caps(&self, specs: &[TenantSpec], topology: &Topology) -> Vec<Cap> {
        super::floors::first_caps(specs, topology)
    }

    fn partition(
        &mut self,
        now: Timestamp,
        ctx: &PlanContext<'_>,
        estimator: &dyn Estimator,
        shares: &mut Shares,
    ) {
        if self.tenants.len() < ctx.tenants.len() {
            self.tenants.resize_with(ctx.tenants.len(), Tenant::default);
        }
        self.thrash.judge(now, ctx, estimator);
        self.profit.judge(now);
        let seconds = now.since(self.decided).as_secs_f64().max(1e-3);
        self.decided = now;
        let latency = latencies(ctx.topology);
        let arrivals = self.tenants.iter_mut().map(|t| t.speed.arrives()).filter(|&is_new| is_new);
        if arrivals.count() > 0 {
            self.tenants.iter_mut().for_each(|t| t.speed.forget_mean());
        }
        for (i, t) in self.tenants.iter_mut().enumerate() {
            let id = TenantId(i as u16);
            t.curve.read(id, estimator);
            t.expected.read_expected(id, estimator);
            t.speed.learn(t.curve.served(ctx.usage(id, TierId::FASTEST)), latency);
        }
        self.floors.resolve(TierId::FASTEST, ctx);
        let left = self.entitle(now, seconds, ctx);
        self.keep(left, ctx);
        let left = self.distribute_all(left, ctx);
        self.give_away(left, ctx);
        // What is not moved needs no judgement afterwards.
        let foresees = ctx.move_cost.is_some() && estimator.foresees();
        for i in 0..ctx.tenants.len() {
            let id = TenantId(i as u16);
            let (promotion, thrashing) = if foresees || estimator.in_bursts(id) {
                (1.0, None)
            } else {
                self.thrash.promotion(id)
            };
            let paying = if foresees { 1.0 } else { self.profit.promotion(id) };
            let fruitless = (paying < promotion).then_some(Rule::Fruitless { promotion: paying });
            let promotion = promotion.min(paying);
            let t = &mut self.tenants[i];
            let rule = fruitless.or(thrashing).or(t.rule).unwrap_or(self.floors.rule());
            let cap = cap(id, TierId::FASTEST, ctx);
            let share = Share { cap, promotion, ..Share::partition(t.share) };
            shares.set(now, id, TierId::FASTEST, share, rule);
            t.last_share = Some(t.share);
            t.speed.restart();
            (t.busy, t.requests, t.p99) = (0.0, 0.0, None);
        }
    }
}
