//! The reports of a world: data only, no behaviour. The world fills an [`Observation`] whose
//! buffers are reused; the engine reads it.
//!
//! [`Capabilities`] are the signals that a world can report. [`Signals`] are the signals that a
//! policy requires and pays for.

use std::time::Duration;

use crate::bits::PageBits;
use crate::page::Attributes;
use crate::units::{PageId, Pages, TenantId, TierId, Timestamp};

/// A run of pages that were allocated together with the same attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// The first page; the others follow it without a gap.
    pub first: PageId,
    /// Number of pages (not base pages).
    pub count: u32,
    /// Their common attributes.
    pub attributes: Attributes,
}

impl Allocated {
    /// The pages of the run.
    pub fn pages(&self) -> impl Iterator<Item = PageId> + use<> {
        (self.first.0..self.first.0.saturating_add(self.count)).map(PageId)
    }
}

/// A page that is in another tier than the engine's plans put it: the kernel or another program
/// migrated it, or a move ended differently from its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalMigration {
    /// The page.
    pub page: PageId,
    /// The tier where it was found.
    pub tier: TierId,
}

/// A hint fault: the first access to a page after it was poisoned (`PROT_NONE`), on the
/// application's own path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HintFault {
    /// The page.
    pub page: PageId,
    /// The time when it was poisoned.
    pub poisoned_at: Timestamp,
    /// The time of the access. `at - poisoned_at` is the kernel's hint fault latency.
    pub at: Timestamp,
    /// The access was a store.
    pub write: bool,
}

/// One hardware sample (PEBS, IBS): an access that missed the last-level cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The page.
    pub page: PageId,
    /// The tier that served it.
    pub tier: TierId,
    /// The access was a store.
    pub write: bool,
}

/// A DAMON region: pages `first..first + pages` and the number of the aggregation interval's
/// samples in which its sampled page had been accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First page.
    pub first: PageId,
    /// Number of pages.
    pub pages: u32,
    /// Samples found accessed, of `aggregation / sampling` taken.
    pub nr_accesses: u32,
    /// Aggregation intervals for which `nr_accesses` has not changed much.
    pub age: u32,
}

/// A page that is in a page frame of this colour from now on. Pages of one colour share a place in
/// a fast memory that the CPU manages ([`crate::colour`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coloured {
    /// The page.
    pub page: PageId,
    /// The colour.
    pub colour: u32,
}

/// The heat of a page that an earlier engine had counted ([`crate::engine::Engine::heat`]). The
/// page is allocated in the same observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remembered {
    /// The page.
    pub page: PageId,
    /// Its sampled accesses, aged by the world for the time in which none were counted.
    pub heat: u16,
}

/// The hotness of the objects on a page, as a runtime that follows them predicts it (EMT, section
/// 6); only a simulator of such a program has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ObjectHotness {
    /// The page.
    pub page: PageId,
    /// The sum of its objects' hotness.
    pub hotness: f64,
}

/// Exact counts of one page since the last observation; only a simulator has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCount {
    /// The page.
    pub page: PageId,
    /// Loads and stores.
    pub accesses: u64,
    /// Accesses that missed the last-level cache.
    pub misses: u64,
}

/// The present state of one tier.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TierReading {
    /// Base pages not in use.
    pub free: Pages,
    /// Share of the peak bandwidth in use since the last observation, 0 to 1.
    pub utilisation: f64,
    /// Unmanaged base pages, of the kernel and of processes of no tenant. Tenants share the rest of
    /// the tier. Zero if every process belongs to a tenant.
    pub unmanaged: Pages,
}

/// Counts of the CPU on a tenant's cores since the last observation (Memstrata, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuCounters {
    /// Demand loads that missed the L3 cache: mean time until memory answered, in nanoseconds.
    pub l3_miss_ns: f64,
    /// Demand loads that missed the L2 cache: mean time until the L3 cache or memory answered, in
    /// nanoseconds.
    pub l2_miss_ns: f64,
    /// Loads that missed the data TLB: mean time of the page walk, in nanoseconds.
    pub dtlb_miss_ns: f64,
    /// Demand loads that missed the L2 cache.
    pub l2_misses: f64,
    /// Requests to main memory.
    pub memory_requests: f64,
    /// Demand loads that wait for memory at once, on average while one does: outstanding loads,
    /// added up each cycle, over the cycles with one. 0 where it is not counted.
    pub misses_in_flight: f64,
    /// Instructions in the same time.
    pub instructions: f64,
}

impl CpuCounters {
    /// Joins two periods. Each latency is weighted by the number of its events. The latency and the
    /// number in flight of L3 misses are weighted by the memory requests, most of which are L3
    /// misses.
    #[must_use]
    pub fn and(&self, later: &Self) -> Self {
        let mean = |x: f64, y: f64, wx: f64, wy: f64| {
            if wx + wy > 0.0 { (x * wx + y * wy) / (wx + wy) } else { 0.0 }
        };
        let (requests, l2) =
            ((self.memory_requests, later.memory_requests), (self.l2_misses, later.l2_misses));
        Self {
            l3_miss_ns: mean(self.l3_miss_ns, later.l3_miss_ns, requests.0, requests.1),
            l2_miss_ns: mean(self.l2_miss_ns, later.l2_miss_ns, l2.0, l2.1),
            dtlb_miss_ns: mean(self.dtlb_miss_ns, later.dtlb_miss_ns, l2.0, l2.1),
            l2_misses: l2.0 + l2.1,
            memory_requests: requests.0 + requests.1,
            misses_in_flight: mean(
                self.misses_in_flight,
                later.misses_in_flight,
                requests.0,
                requests.1,
            ),
            instructions: self.instructions + later.instructions,
        }
    }
}

/// The present state of one tenant.
#[derive(Debug, PartialEq, Default)]
pub struct TenantReading {
    /// Base pages resident, by tier.
    pub usage: Vec<Pages>,
    /// Last-level misses served by each tier since the last observation.
    pub misses: Vec<u64>,
    /// Application operations completed since the last observation, if the tenant counts them.
    pub operations: u64,
    /// Instructions executed since the last observation.
    pub instructions: u64,
    /// CPU time used since the last observation (`cpu.stat`), if the world knows it.
    pub busy: Duration,
    /// CPU time that its clients used on its CPUs meanwhile, if the world knows it.
    pub clients: Duration,
    /// CPUs that it may use (`cpuset.cpus`, `cpu.max`); zero if the world does not know.
    pub cpus: f64,
    /// 99th percentile latency of its requests in the last whole interval of the world, if it
    /// reports one.
    pub p99: Option<Duration>,
    /// Counts of the CPU on its cores, if the world reads them.
    pub counters: Option<CpuCounters>,
    /// False once the tenant has ended.
    pub running: bool,
    /// True until the world has looked for accesses of its memory: pages without an access are then
    /// unknown, and not cold.
    pub unmonitored: bool,
}

/// Written by hand for [`Clone::clone_from`], which runs every second and keeps the lists' memory.
impl Clone for TenantReading {
    fn clone(&self) -> Self {
        let mut fresh = Self::default();
        fresh.clone_from(self);
        fresh
    }

    fn clone_from(&mut self, from: &Self) {
        let Self {
            usage,
            misses,
            operations,
            instructions,
            busy,
            clients,
            cpus,
            p99,
            counters,
            running,
            unmonitored,
        } = from;
        self.usage.clone_from(usage);
        self.misses.clone_from(misses);
        (self.operations, self.instructions) = (*operations, *instructions);
        (self.busy, self.clients, self.cpus, self.p99) = (*busy, *clients, *cpus, *p99);
        (self.counters, self.running, self.unmonitored) = (*counters, *running, *unmonitored);
    }
}

/// CPU time of the kernel's own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelCosts {
    /// Migrating one base page, one of a batch.
    pub move_page: Duration,
    /// Poisoning one base page of a range.
    pub poison: Duration,
    /// Reading one page table entry's reference bit.
    pub scan_entry: Duration,
}

impl KernelCosts {
    /// CPU time of moving base pages and reading reference bits.
    pub fn of(&self, moved: u64, read: u64) -> Duration {
        let times = |cost: Duration, n: u64| {
            Duration::from_nanos((cost.as_nanos() as u64).saturating_mul(n))
        };
        times(self.move_page, moved) + times(self.scan_entry, read)
    }
}

/// Everything that a world reports since the last report. Lists are in the order of the events.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// New pages, in the tiers where they were allocated.
    pub allocated: Vec<Allocated>,
    /// The heat of allocated pages that an earlier engine had counted.
    pub remembered: Vec<Remembered>,
    /// Freed pages. A page number is not used again before the next observation.
    pub freed: Vec<PageId>,
    /// Pages found in another tier than the one where the engine's moves left them.
    pub external_migrations: Vec<ExternalMigration>,
    /// Pages that are now in a page frame of another colour, on machines whose CPU manages a tier.
    pub coloured: Vec<Coloured>,
    /// Pages with the reference bit set since the last observation.
    pub referenced: PageBits,
    /// Pages with the dirty bit set since the last observation.
    pub written: PageBits,
    /// True if the world has not read the bits since the last observation. Empty `referenced` and
    /// `written` then do not mean that no page was accessed.
    pub bits_unread: bool,
    /// Pages accessed through system calls, once per call (MULTI-CLOCK's supervised accesses).
    pub supervised: Vec<PageId>,
    /// Hint faults.
    pub hint_faults: Vec<HintFault>,
    /// Hardware samples, or a substitute for them.
    pub samples: Vec<Sample>,
    /// True if a sample, or a sample of the remembered heat, means that a page was used in a tick
    /// of a clock, and not that a load missed. Pages that are used alike differ in ticks by chance,
    /// and pages that are used more often than there are ticks have equal counts.
    pub samples_are_ticks: bool,
    /// If samples are ticks: checks made of each monitored page in this observation, so that a page
    /// has at most as many samples. Zero if the world does not count them.
    pub checks: u32,
    /// CPU time of migrating one base page on this machine, unmapping and copying included; `None`
    /// if the world does not know it.
    pub move_cost: Option<Duration>,
    /// CPU time of the kernel's own work, for policies that stand for kernel code. Zero where the
    /// world does not know it.
    pub kernel_costs: KernelCosts,
    /// DAMON's regions, if an aggregation interval ended; all of them, ascending.
    pub regions: Vec<Region>,
    /// Exact counts, ascending by page.
    pub counts: Vec<PageCount>,
    /// Pages with objects that changed lately, by samples one after the other.
    pub object_heat: Vec<ObjectHotness>,
    /// Samples of objects since the last observation.
    pub object_samples: u32,
    /// One reading per tier, fastest first.
    pub tiers: Vec<TierReading>,
    /// One reading per tenant, by [`TenantId`].
    pub tenants: Vec<TenantReading>,
}

impl Observation {
    /// Empties every list and keeps its memory.
    pub fn clear(&mut self) {
        self.allocated.clear();
        self.remembered.clear();
        self.freed.clear();
        self.external_migrations.clear();
        self.coloured.clear();
        self.referenced.clear();
        self.written.clear();
        self.bits_unread = false;
        self.supervised.clear();
        self.hint_faults.clear();
        self.samples.clear();
        self.samples_are_ticks = false;
        self.checks = 0;
        self.move_cost = None;
        self.kernel_costs = KernelCosts::default();
        self.regions.clear();
        self.counts.clear();
        self.object_heat.clear();
        self.object_samples = 0;
        // Every world overwrites readings in place, which keeps their inner lists.
    }

    /// Free pages of a tier; zero for a tier that was not reported.
    pub fn free(&self, tier: TierId) -> Pages {
        self.tiers.get(tier.index()).map_or(Pages(0), |t| t.free)
    }
}

/// DAMON's intervals and bounds (`Documentation/mm/damon/design.rst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamonAttrs {
    /// Time between two checks of one page of each region.
    pub sampling: Duration,
    /// Time over which checks are summed up before regions are merged and split.
    pub aggregation: Duration,
    /// Minimum number of regions.
    pub min_regions: u32,
    /// Maximum number of regions.
    pub max_regions: u32,
}

impl Default for DamonAttrs {
    /// The kernel's defaults: 5 ms, 100 ms, 10 to 1000 regions.
    fn default() -> Self {
        Self {
            sampling: Duration::from_millis(5),
            aggregation: Duration::from_millis(100),
            min_regions: 10,
            max_regions: 1000,
        }
    }
}

impl DamonAttrs {
    /// Checks in an aggregation interval, at least one: the maximum of `nr_accesses`
    /// (`damon_max_nr_accesses` in `mm/damon/core.c`).
    pub fn max_accesses(&self) -> u32 {
        let checks = self.aggregation.as_nanos() / self.sampling.as_nanos().max(1);
        u32::try_from(checks).unwrap_or(u32::MAX).max(1)
    }
}

/// The access signals that a policy requires. Each one costs time of the application or of a
/// background core; none is on by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    /// Reference bits (and the supervised accesses, which cost nothing more).
    pub reference_bits: bool,
    /// Dirty bits.
    pub dirty_bits: bool,
    /// Hint faults of the pages that plans poison. The world reports each when it occurs, not at
    /// the next tick.
    pub hint_faults: bool,
    /// Hint faults after which the world reports at the latest, so that the policy can act between
    /// faults that follow each other closely; zero for no such limit. Worlds that report each
    /// fault by itself need not read it.
    pub faults_per_report: u32,
    /// Last-level misses per hardware sample; zero for no samples.
    pub sample_period: u32,
    /// DAMON regions.
    pub regions: Option<DamonAttrs>,
    /// Exact counts: a perfect tracker, for experiments in the simulator.
    pub exact_counts: bool,
    /// The hotness of objects, in programs whose runtime follows them.
    pub objects: bool,
    /// The CPU's counters of each tenant.
    pub counters: bool,
    /// True if the CPU must manage a tier in Flat Memory Mode.
    pub flat_memory: bool,
    /// True if the CPU must manage a tier as 2LM.
    pub two_level: bool,
}

impl Signals {
    /// Joins two requirements. Takes the shorter of two sample periods, the smaller of two numbers
    /// of faults, and `self`'s of two intervals of DAMON.
    pub fn and(self, other: Self) -> Self {
        Self {
            reference_bits: self.reference_bits | other.reference_bits,
            dirty_bits: self.dirty_bits | other.dirty_bits,
            hint_faults: self.hint_faults | other.hint_faults,
            faults_per_report: match (self.faults_per_report, other.faults_per_report) {
                (0, n) | (n, 0) => n,
                (a, b) => a.min(b),
            },
            sample_period: match (self.sample_period, other.sample_period) {
                (0, n) | (n, 0) => n,
                (a, b) => a.min(b),
            },
            regions: self.regions.or(other.regions),
            exact_counts: self.exact_counts | other.exact_counts,
            objects: self.objects | other.objects,
            counters: self.counters | other.counters,
            flat_memory: self.flat_memory | other.flat_memory,
            two_level: self.two_level | other.two_level,
        }
    }

    /// The first required signal that the world cannot report, in words.
    pub fn missing_from(&self, has: &Capabilities) -> Option<&'static str> {
        let wants = [
            (self.flat_memory, has.flat_memory, "a memory tier in Flat Memory Mode"),
            (self.two_level, has.two_level, "a memory tier in 2LM (memory mode)"),
            (self.counters, has.counters, "the CPU's counters of each tenant"),
            (self.reference_bits, has.reference_bits, "reference bits"),
            (self.dirty_bits, has.dirty_bits, "dirty bits"),
            (self.hint_faults, has.hint_faults, "hint faults"),
            (self.sample_period > 0, has.samples, "hardware samples (PEBS or IBS)"),
            (self.regions.is_some(), has.regions, "DAMON regions"),
            (self.exact_counts, has.exact_counts, "exact access counts"),
            (self.objects, has.objects, "the hotness of a program's objects"),
        ];
        wants.into_iter().find(|&(wanted, given, _)| wanted && !given).map(|(_, _, name)| name)
    }
}

/// The signals that a world can report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Reference bits.
    pub reference_bits: bool,
    /// Dirty bits.
    pub dirty_bits: bool,
    /// Hint faults.
    pub hint_faults: bool,
    /// Hardware samples.
    pub samples: bool,
    /// DAMON regions.
    pub regions: bool,
    /// Exact counts.
    pub exact_counts: bool,
    /// The hotness of objects.
    pub objects: bool,
    /// The CPU's counters of each tenant.
    pub counters: bool,
    /// The CPU manages the last tier in Flat Memory Mode.
    pub flat_memory: bool,
    /// The CPU manages the last tier as 2LM.
    pub two_level: bool,
}

impl Capabilities {
    /// All of them, on a machine with every kind of tier. No world has them all; tests assume them.
    pub const ALL: Self = Self {
        reference_bits: true,
        dirty_bits: true,
        hint_faults: true,
        samples: true,
        regions: true,
        exact_counts: true,
        objects: true,
        counters: true,
        flat_memory: true,
        two_level: true,
    };

    /// All signals of pages, on a machine whose pages only software places: the simulator's
    /// ordinary machines.
    pub const PAGES: Self =
        Self { counters: false, flat_memory: false, two_level: false, ..Self::ALL };
}

/// Returns the tenants' readings with the tenants' numbers.
pub fn tenants(observation: &Observation) -> impl Iterator<Item = (TenantId, &TenantReading)> {
    observation.tenants.iter().enumerate().map(|(i, t)| (TenantId(i as u16), t))
}
