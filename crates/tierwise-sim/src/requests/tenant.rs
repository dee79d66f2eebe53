//! A latency-critical service: arrivals, touched pages, servers, response times.
//!
//! Requests are simulated one by one, in the order in which they start. A request that has arrived
//! and not started takes no memory: arrivals are drawn again from their seed, so the queue may grow
//! without limit. The seed chooses the arrival times and the touched pages, independently of each
//! other; everything else is arithmetic on the units' tiers.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_sim::requests::arrival::Arrivals;
//! use tierwise_sim::requests::mix::{UnitGroup, RequestKind, Mix, Popularity};
//! use tierwise_sim::requests::tenant::{RequestTenant, RequestService};
//! use tierwise_sim::requests::tier::{TierCosts, Unwatched};
//!
//! let items = UnitGroup { name: "items", touches: 1.0, loads: 10.0, stores: 0.0,
//!                     prefetched: 0.0,
//!                     units: Popularity::Even { first: 0, count: 4 } };
//! let get = RequestKind { name: "get", share: 1.0, cpu_ns: 500.0, groups: vec![items] };
//! let service = RequestService { arrivals: Arrivals::Poisson { per_second: 1000.0 },
//!                         mix: Mix { units: 4, kinds: vec![get], cached: vec![] },
//!                         servers: 1, slo: Duration::from_micros(2), seed: 1 };
//! let mut tenant = RequestTenant::new(&service, 0)?;
//! let costs = TierCosts { load_ns: &[100.0, 300.0], store_ns: &[100.0, 300.0] };
//! // Three units of four are fast: ten misses of 100 ns there, of 300 ns in the fourth.
//! let served = tenant.advance(1_000_000_000, &costs, &[0, 0, 0, 1], &mut Unwatched);
//! assert!(served.started > 900 && served.tiers[0].loads > served.tiers[1].loads);
//! let latency = tenant.latencies().total();
//! assert_eq!(latency.p50.as_nanos() / 10, 150);          // 500 + 10 * 100 ns
//! assert!(latency.violations > 0);                       // 500 + 10 * 300 ns, and queueing
//! # Ok::<(), tierwise_sim::requests::error::RequestError>(())
//! ```

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::arrival::{ArrivalStream, Arrivals};
use super::error::RequestError;
use super::latency::Latencies;
use super::mix::{Mix, Popularity, UnitGroup};
use super::queue::{Ahead, Waiting};
use super::server::Servers;
use super::tier::{TIERS, TierCosts, Touch, Touches};
use crate::hash::mix as scramble;

/// The description of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestService {
    /// The process by which requests arrive.
    pub arrivals: Arrivals,
    /// The memory that they touch.
    pub mix: Mix,
    /// Server threads.
    pub servers: usize,
    /// Objective: a request that takes longer is a violation.
    pub slo: Duration,
    /// The seed of arrivals and touches.
    pub seed: u64,
}

/// Misses that a tier served.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TierMisses {
    /// Loads.
    pub loads: f64,
    /// Stores.
    pub stores: f64,
    /// Prefetched lines.
    pub prefetched: f64,
}

/// The work of a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepWork {
    /// Requests that arrived. Counted when they start, or when the step ends before that.
    pub arrived: u64,
    /// Requests that started; each runs to its end from there on.
    pub started: u64,
    /// Misses by the tier that served them.
    pub tiers: Vec<TierMisses>,
    /// Servers' time: the sum of the following four.
    pub busy_ns: f64,
    /// CPU time of the requests themselves.
    pub cpu_ns: f64,
    /// Time waited for misses.
    pub memory_ns: f64,
    /// Time that monitoring took from requests (hint faults, samples).
    pub watched_ns: f64,
    /// Stalls paid.
    pub stalled_ns: f64,
}

impl StepWork {
    /// Servers' time of the same requests with all memory in the fastest tier, at these idle
    /// latencies, without monitoring and stalls.
    pub fn all_fast_ns(&self, load_ns: f64, store_ns: f64) -> f64 {
        let memory = |m: &TierMisses| m.loads * load_ns + m.stores * store_ns;
        self.cpu_ns + self.tiers.iter().map(memory).sum::<f64>()
    }

    fn clear(&mut self, tiers: usize) {
        let mut misses = std::mem::take(&mut self.tiers);
        misses.clear();
        misses.resize(tiers, TierMisses::default());
        *self = Self { tiers: misses, ..Self::default() };
    }
}

/// Shares of a touch or of the draws are counted in 2^-32.
const ONE: f64 = 4_294_967_296.0;

/// Units drawn at a time: that many lookups in an alias table overlap in the CPU. One by one, each
/// would wait for its cache line. 64 take a kilobyte or two with all groups.
const BATCH: usize = 64;

/// A group as a run uses it.
#[derive(Debug, Clone)]
struct Drawn {
    units: Popularity,
    /// The next units, those from `next` on.
    batch: [u32; BATCH],
    next: usize,
    loads: f64,
    stores: f64,
    prefetched: f64,
    /// Touches per request, in 2^-32.
    step: u64,
    /// The part of a touch that is due, in 2^-32.
    due: u64,
    /// Cost of a touch in each tier, this step.
    cost_ns: [f64; TIERS],
    /// Touches in each tier, this step.
    touches: [u64; TIERS],
}

impl Drawn {
    fn new(group: &UnitGroup) -> Self {
        Self {
            units: group.units.clone(),
            batch: [0; BATCH],
            next: BATCH,
            loads: group.loads,
            stores: group.stores,
            prefetched: group.prefetched,
            step: (group.touches * ONE).round() as u64,
            due: 0,
            cost_ns: [0.0; TIERS],
            touches: [0; TIERS],
        }
    }

    #[inline]
    fn unit(&mut self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        if self.next == BATCH {
            self.batch = std::array::from_fn(|_| self.units.choose(rng.next_u64()));
            self.next = 0;
        }
        self.next += 1;
        self.batch[self.next - 1]
    }

    /// Touches that the next request makes.
    #[inline]
    fn due(&mut self) -> u64 {
        self.due += self.step;
        let due = self.due >> 32;
        self.due &= u64::from(u32::MAX);
        due
    }
}

#[derive(Debug, Clone)]
struct DrawnKind {
    /// Upper end of its share of the draws, in 2^-32.
    up_to: u64,
    cpu_ns: f64,
    groups: Vec<Drawn>,
    started: u64,
}

/// A running service.
#[derive(Debug, Clone)]
pub struct RequestTenant {
    stream: ArrivalStream,
    ahead: Option<Ahead>,
    kinds: Vec<DrawnKind>,
    cached: Vec<u32>,
    servers: Servers,
    latencies: Latencies,
    /// Small and fast: each request draws from it several times. Its sequence is fixed, unlike that
    /// of `SmallRng`.
    rng: Xoshiro256PlusPlus,
    pending_stall_ns: f64,
    now_ns: u64,
    served: StepWork,
}

impl RequestTenant {
    /// Makes a service that starts at `start_ns`.
    ///
    /// # Errors
    /// Arrivals or servers are out of their ranges, or the mix's shares or units do not fit
    /// together.
    pub fn new(service: &RequestService, start_ns: u64) -> Result<Self, RequestError> {
        service.arrivals.check()?;
        if !service.mix.is_sound() {
            return Err(RequestError::Mix);
        }
        let mut up_to = 0.0;
        let kinds = service.mix.kinds.iter().map(|kind| {
            up_to += kind.share;
            DrawnKind {
                up_to: (up_to * ONE).round() as u64,
                cpu_ns: kind.cpu_ns,
                groups: kind.groups.iter().map(Drawn::new).collect(),
                started: 0,
            }
        });
        Ok(Self {
            stream: service.arrivals.stream(scramble(service.seed), start_ns),
            ahead: None,
            kinds: kinds.collect(),
            cached: service.mix.cached.clone(),
            servers: Servers::new(service.servers, start_ns)?,
            latencies: Latencies::new(service.slo)?,
            // Arrivals and touches are independent: runs of different policies have the same
            // requests.
            rng: Xoshiro256PlusPlus::seed_from_u64(scramble(!service.seed)),
            pending_stall_ns: 0.0,
            now_ns: start_ns,
            served: StepWork::default(),
        })
    }

    /// Number of its servers.
    pub fn servers(&self) -> usize {
        self.servers.count()
    }

    /// Response times.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Response times, to end an interval or start measuring.
    pub fn latencies_mut(&mut self) -> &mut Latencies {
        &mut self.latencies
    }

    /// Charges a stall to the next request that starts.
    pub fn charge_stall(&mut self, ns: f64) {
        self.pending_stall_ns += ns;
    }

    /// Requests that have arrived and not started, and the number of them that have already waited
    /// for longer than the objective.
    pub fn waiting(&self) -> Waiting {
        Waiting::count(&self.stream, self.now_ns, self.latencies.slo_ns())
    }

    /// Work started and not finished, of all servers together.
    pub fn backlog_ns(&self) -> u64 {
        self.servers.backlog_ns(self.now_ns)
    }

    /// Starts all requests that can start before `to_ns`, with units in the tiers that `tier_of`
    /// gives and misses at `costs`. `tier_of` must have an entry for every unit of the mix, each a
    /// tier of `costs`.
    pub fn advance<T: Touches>(
        &mut self,
        to_ns: u64,
        costs: &TierCosts<'_>,
        tier_of: &[u8],
        touches: &mut T,
    ) -> &StepWork {
        self.start_step(costs);
        while let Some(arrival) = self.stream.peek() {
            let start = self.servers.start(arrival);
            if start >= to_ns {
                break;
            }
            self.stream.advance();
            let service = self.request(start, tier_of, touches);
            let done = self.servers.serve(arrival, service);
            self.latencies.note(done - arrival);
        }
        self.end_step(to_ns, tier_of, touches);
        &self.served
    }

    fn start_step(&mut self, costs: &TierCosts<'_>) {
        self.served.clear(costs.load_ns.len());
        for kind in &mut self.kinds {
            kind.started = 0;
            for group in &mut kind.groups {
                group.touches = [0; TIERS];
                let tiers = costs.load_ns.iter().zip(costs.store_ns);
                for (cost, (load_ns, store_ns)) in group.cost_ns.iter_mut().zip(tiers) {
                    *cost = group.loads * load_ns + group.stores * store_ns;
                }
            }
        }
    }

    /// Serves one request. Returns its time in whole nanoseconds.
    #[inline]
    fn request<T: Touches>(&mut self, at_ns: u64, tier_of: &[u8], touches: &mut T) -> u64 {
        let kind = if self.kinds.len() == 1 {
            &mut self.kinds[0]
        } else {
            let draw = self.rng.next_u64() >> 32;
            let last = self.kinds.len() - 1;
            let chosen = self.kinds.iter().position(|k| draw < k.up_to).unwrap_or(last);
            &mut self.kinds[chosen]
        };
        kind.started += 1;
        let (mut memory, mut watched) = (0.0, 0.0);
        for group in &mut kind.groups {
            for _ in 0..group.due() {
                let local = group.unit(&mut self.rng);
                let tier = tier_of[local as usize];
                let slot = usize::from(tier) % TIERS;
                memory += group.cost_ns[slot];
                group.touches[slot] += 1;
                let (loads, stores) = (group.loads, group.stores);
                watched += touches.touch(&Touch { local, tier, at_ns, loads, stores });
            }
        }
        let stalled = std::mem::take(&mut self.pending_stall_ns);
        self.served.memory_ns += memory;
        self.served.watched_ns += watched;
        self.served.stalled_ns += stalled;
        (kind.cpu_ns + memory + watched + stalled + 0.5) as u64
    }

    fn end_step<T: Touches>(&mut self, to_ns: u64, tier_of: &[u8], touches: &mut T) {
        let served = &mut self.served;
        for kind in &self.kinds {
            served.started += kind.started;
            served.cpu_ns += kind.started as f64 * kind.cpu_ns;
            for group in &kind.groups {
                for (tier, &n) in served.tiers.iter_mut().zip(&group.touches) {
                    tier.loads += n as f64 * group.loads;
                    tier.stores += n as f64 * group.stores;
                    tier.prefetched += n as f64 * group.prefetched;
                }
            }
        }
        served.busy_ns = served.cpu_ns + served.memory_ns + served.watched_ns + served.stalled_ns;
        served.arrived = Ahead::arrived(&mut self.ahead, &self.stream, served.started, to_ns);
        if served.started > 0 {
            for &local in &self.cached {
                let tier = tier_of[local as usize];
                let touch = Touch { local, tier, at_ns: self.now_ns, loads: 0.0, stores: 0.0 };
                let watched = touches.touch(&touch);
                self.pending_stall_ns += watched;
            }
        }
        self.now_ns = to_ns;
    }
}
