//! Linux's memory tiering as its code has it: `kernel.numa_balancing = 2` with demotion enabled and
//! the multi-gen LRU, in 6.12 and 7.3.
//!
//! [`super::autonuma`] follows the same idea in coarser steps. Here each hint fault checks the free
//! memory that the faults before it left, kswapd works beside the program in batches of 64 pages,
//! victims are those of the multi-gen LRU, and scans follow the program's run time.
//!
//! - [`task_scan`]: which pages are poisoned, and when.
//! - A hint fault (`do_numa_page`, `numa_migrate_check`, `should_numa_migrate_memory`): the page is
//!   a candidate if its fault came soon after its poisoning ([`super::hot_threshold`], in whole
//!   jiffies), or at any time while more than the promo watermark and `max(free_enough, capacity /
//!   16)` are free (`pgdat_free_space_enough`).
//! - `migrate_misplaced_folio_prepare`, `migrate_balanced_pgdat`: a candidate is promoted if more
//!   than the high watermark and itself are free. Otherwise it stays, and kswapd wakes.
//! - [`kswapd`]: demotion. [`generations`]: its victims.
//!
//! - [`zones`]: the fast node's free memory by zone.
//!
//! The kernel does not migrate dirty file pages; this policy does,
//! because a world without writeback would never clean them.

mod generations;
mod kswapd;
mod release;
mod task_scan;
mod zones;

use std::time::Duration;

use super::hot_threshold::HotThreshold;
use crate::bits::PageBits;
use crate::config::{ConfigError, Section};
use crate::migrate::{MigrationPlan, MoveOutcome, PageRange};
use crate::observe::{HintFault, KernelCosts, Observation, Signals};
use crate::page::PageTable;
use crate::policy::{PlanContext, Policy};
use crate::registry::BuildContext;
use crate::select::FreePages;
use crate::topology::{Topology, Watermarks};
use crate::units::{Bytes, PageId, Pages, TenantId, TierId, Timestamp};

use generations::{Folios, Generations};
use kswapd::{KswapdStep, Node};
use release::Release;
use task_scan::{ScanSettings, ScannedProcess, TICK, TaskScan};
use zones::Zones;

/// Hint faults after which the world reports. kswapd can wake only then, so a batch must take less
/// time than kswapd's own step, 64 pages. Each of these faults takes less than moving a page.
const FAULTS_PER_REPORT: u32 = 32;

/// The policy.
#[derive(Debug)]
pub(super) struct KernelTiering {
    release: Release,
    settings: ScanSettings,
    hot: HotThreshold,
    free_enough: Bytes,
    /// By tenant.
    tasks: Vec<TaskScan>,
    /// By tier.
    nodes: Vec<Node>,
    folios: Folios,
    zones: Zones,
    /// The fast tier's watermarks.
    marks: Watermarks,
    /// Pages that are poisoned.
    poisoned: PageBits,
    faults: Vec<HintFault>,
    costs: KernelCosts,
    /// Mean run time of a program's thread and its client, which take turns with kswapd together;
    /// `None` if the world knows no run times.
    run_time: Option<Duration>,
    /// The run time at kswapd's last step, by tier.
    stepped_at: Vec<Duration>,
    /// The time of the last plan.
    now: Timestamp,
    started: bool,
}

impl KernelTiering {
    /// Reads `kernel`, `free_enough` (1 GiB, the constant in `pgdat_free_space_enough`; scale it
    /// with a machine that is scaled down), and the parameters of the scanner and the hot
    /// threshold.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn build(
        section: &Section<'_>,
        build: &BuildContext<'_>,
    ) -> Result<Self, ConfigError> {
        let settings = ScanSettings::read(section)?;
        let page_size = build.topology.page_size;
        let tiers = build.topology.tiers.len();
        Ok(Self {
            release: Release::read(section)?,
            settings,
            hot: HotThreshold::of_kernel(section, page_size, settings.period_max())?,
            free_enough: section.bytes_or("free_enough", Bytes(1 << 30))?,
            tasks: Vec::new(),
            nodes: build.topology.ids().map(Node::new).collect(),
            folios: Folios::default(),
            marks: build.topology.tier(TierId::FASTEST).watermarks,
            zones: Zones::read(section, build.topology.tier(TierId::FASTEST), page_size)?,
            poisoned: PageBits::default(),
            faults: Vec::new(),
            costs: KernelCosts::default(),
            run_time: None,
            stepped_at: vec![Duration::ZERO; tiers],
            now: Timestamp::ZERO,
            started: false,
        })
    }

    /// Takes over the pages that were allocated before the first plan, in the order of their
    /// numbers: the last of the fast ones are in the lower zone. What they leave of it is in use by
    /// others, who were there before.
    fn start(&mut self, now: Timestamp, ctx: &PlanContext<'_>) {
        self.started = true;
        self.hot.start(now);
        let mut lower = self.zones.filled(ctx.free(TierId::FASTEST), &self.marks);
        let all = || (0..ctx.pages.len() as u32).map(PageId);
        for page in all().rev().filter(|&page| ctx.pages.tier(page) == Some(TierId::FASTEST)) {
            let frames = Pages(ctx.pages.frames(page));
            if lower < frames {
                break;
            }
            lower -= frames;
            self.zones.take_lower(frames.0);
            self.folios.set_lower(page, true);
        }
        self.zones.take_lower(lower.0);
        all().for_each(|page| self.add(page, true, ctx.pages));
    }

    fn add(&mut self, page: PageId, faulted: bool, pages: &PageTable) {
        let Some(tier) = pages.tier(page) else { return };
        let (release, tenant) = (self.release, pages.tenant(page));
        let lruvec = self.lruvec(tier, tenant);
        self.nodes[tier.index()].lruvecs[lruvec].add(
            page,
            faulted,
            release,
            &mut self.folios,
            pages,
        );
    }

    fn remove(&mut self, page: PageId, tier: TierId, pages: &PageTable) {
        let lruvec = self.lruvec(tier, pages.tenant(page));
        self.nodes[tier.index()].lruvecs[lruvec].remove(page, &mut self.folios, pages);
    }

    /// The place of a tenant's generations in a tier.
    fn lruvec(&mut self, tier: TierId, tenant: TenantId) -> usize {
        let tiers = self.nodes.len();
        let lruvecs = &mut self.nodes[tier.index()].lruvecs;
        while lruvecs.len() <= tenant.index() {
            let index = (lruvecs.len() * tiers + tier.index()) as u32;
            lruvecs.push(Generations::new(TenantId(lruvecs.len() as u16), tier, index));
        }
        tenant.index()
    }

    fn count_run_time(&mut self, now: Timestamp, obs: &Observation) {
        for (i, reading) in obs.tenants.iter().enumerate() {
            let is_new = i >= self.tasks.len();
            let given = if self.started { Duration::ZERO } else { self.settings.ran() };
            if is_new {
                self.tasks.push(TaskScan::new(TenantId(i as u16), &self.settings, given, now));
            }
            if reading.cpus > 0.0 {
                let busy = reading.busy.div_f64(reading.cpus);
                if given.is_zero() {
                    self.tasks[i].ran(busy);
                } else if !is_new {
                    // The given run time is that of the start and stands for the readings until
                    // then. The first plan's reading is of the time after it.
                    self.tasks[i].set_run_time(given + busy);
                }
            }
        }
        let running = || obs.tenants.iter().filter(|tenant| tenant.running);
        let busy: Duration = running().map(|tenant| tenant.busy + tenant.clients).sum();
        let cpus: f64 = running().map(|tenant| tenant.cpus).sum();
        if cpus > 0.0 && (self.run_time.is_some() || busy > Duration::ZERO) {
            *self.run_time.get_or_insert_default() += busy.div_f64(cpus);
        }
    }

    /// Run time of a program's thread since kswapd's last step.
    fn ran(&self, tier: usize) -> Option<Duration> {
        self.run_time.map(|time| time.saturating_sub(self.stepped_at[tier]))
    }

    fn scan(&mut self, now: Timestamp, ctx: &PlanContext<'_>, plan: &mut MigrationPlan) {
        let page_size = ctx.topology.page_size;
        for (i, task) in self.tasks.iter_mut().enumerate() {
            if !ctx.tenants.get(i).is_some_and(|tenant| tenant.running) {
                continue;
            }
            let process = ScannedProcess {
                settings: &self.settings,
                resident: ctx.resident(TenantId(i as u16)).in_bytes(page_size),
                pages: ctx.pages,
                poison_cost: self.costs.poison,
                page_size,
            };
            let poisoned = &mut self.poisoned;
            task.tick(now, &process, |page| {
                let fresh = !poisoned.contains(page);
                if fresh {
                    poisoned.set(page);
                    append(&mut plan.poison, page);
                }
                fresh
            });
        }
    }

    /// `do_numa_page`
    fn handle_fault(
        &mut self,
        now: Timestamp,
        fault: &HintFault,
        ctx: &PlanContext<'_>,
        free: &mut FreePages,
        plan: &mut MigrationPlan,
    ) {
        let slow = ctx.pages.tier(fault.page).filter(|&tier| tier != TierId::FASTEST);
        let Some(from) = slow else { return };
        let fast = ctx.topology.tier(TierId::FASTEST);
        let frames = Pages(ctx.pages.frames(fault.page));
        let enough = self.free_enough.in_pages(ctx.topology.page_size);
        let enough = enough.max(Pages(fast.capacity.0 / 16));
        if free.of(TierId::FASTEST) > fast.watermarks.promo + enough {
            self.hot.reset();
        } else {
            let latency = jiffy(fault.at).since(jiffy(fault.poisoned_at));
            if !self.hot.admits(fault.at, latency, frames) {
                return;
            }
        }
        if !self.zones.any_above(free.of(TierId::FASTEST), fast.watermarks.high, frames.0) {
            self.wake(now, TierId::FASTEST, free, ctx.topology);
            return;
        }
        plan.on_fault(fault.page, TierId::FASTEST);
        let lower = self.zones.allocate(free.of(TierId::FASTEST), &fast.watermarks, frames.0);
        free.record(frames, from, TierId::FASTEST);
        let tenant = ctx.pages.tenant(fault.page);
        let resident = ctx.resident(tenant).in_bytes(ctx.topology.page_size);
        if let Some(task) = self.tasks.get_mut(tenant.index()) {
            task.on_promoted(fault.at, &self.settings, resident);
        }
        self.remove(fault.page, from, ctx.pages);
        self.folios.set_lower(fault.page, lower);
    }

    fn wake(&mut self, now: Timestamp, tier: TierId, free: &FreePages, topology: &Topology) {
        if !self.nodes[tier.index()].is_awake() {
            self.stepped_at[tier.index()] = self.run_time.unwrap_or_default();
        }
        self.nodes[tier.index()].wake(now, free, &self.zones, topology);
    }

    fn run_kswapds(
        &mut self,
        now: Timestamp,
        ctx: &mut PlanContext<'_>,
        free: &mut FreePages,
        plan: &mut MigrationPlan,
    ) {
        // An allocation wakes every kswapd when it found no zone above its low watermark anywhere
        // (`wake_all_kswapds`).
        let is_short = !ctx.topology.ids().any(|tier| {
            let low = ctx.topology.tier(tier).watermarks.low;
            match tier {
                TierId::FASTEST => self.zones.any_above(free.of(tier), low, 0),
                _ => free.of(tier) > low,
            }
        });
        // The slowest first, so that faster tiers find free pages.
        for tier in ctx.topology.ids().rev() {
            if is_short {
                self.wake(now, tier, free, ctx.topology);
            }
            let i = tier.index();
            if self.nodes[i].due(now, self.ran(i)).is_none_or(|due| now < due) {
                continue;
            }
            let mut step = KswapdStep {
                release: self.release,
                folios: &mut self.folios,
                pages: ctx.pages,
                topology: ctx.topology,
                free,
                zones: &mut self.zones,
                plan,
                costs: self.costs,
            };
            self.nodes[i].step(now, &mut step);
            self.stepped_at[i] = self.run_time.unwrap_or_default();
        }
    }

    /// Finds the zone of a new page.
    fn place_new(&mut self, page: PageId, free: Pages, pages: &PageTable) {
        if pages.tier(page) == Some(TierId::FASTEST) {
            let lower = self.zones.allocate(free, &self.marks, pages.frames(page));
            self.folios.set_lower(page, lower);
        }
    }

    /// A page is no longer in the lower zone.
    fn leave_lower(&mut self, page: PageId, pages: &PageTable) {
        if self.folios.is_lower(page) {
            self.zones.free_lower(pages.frames(page));
            self.folios.set_lower(page, false);
        }
    }

    fn unpoison(&mut self, page: PageId) {
        self.poisoned.unset(page);
    }
}

impl Policy for KernelTiering {
    fn signals(&self) -> Signals {
        Signals {
            reference_bits: true,
            hint_faults: true,
            faults_per_report: FAULTS_PER_REPORT,
            ..Signals::default()
        }
    }

    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable) {
        for page in obs.allocated.iter().flat_map(|allocated| allocated.pages()) {
            self.unpoison(page);
            self.folios.forget(page);
            if self.started {
                self.place_new(page, obs.free(TierId::FASTEST), pages);
                self.add(page, true, pages);
            }
        }
        for &page in &obs.freed {
            self.unpoison(page);
            if let Some(tier) = pages.tier(page) {
                self.remove(page, tier, pages);
            }
            self.leave_lower(page, pages);
        }
        for fault in &obs.hint_faults {
            self.unpoison(fault.page);
            self.faults.push(*fault);
        }
        self.costs = obs.kernel_costs;
        self.count_run_time(now, obs);
    }

    fn on_outcomes(&mut self, _: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        for outcome in outcomes {
            if outcome.result.is_ok() {
                self.unpoison(outcome.page);
            }
            if let Some(from) = outcome.from.filter(|_| outcome.result.is_ok()) {
                // A move that this policy did not plan: the page is still on its old list.
                self.remove(outcome.page, from, pages);
            }
            if pages.tier(outcome.page) != Some(TierId::FASTEST) {
                self.leave_lower(outcome.page, pages);
            }
            let promoted = outcome.from.is_some_and(|from| outcome.to < from);
            if !self.folios.is_listed(outcome.page) {
                self.add(outcome.page, promoted, pages);
            }
        }
    }

    fn next_wake(&self) -> Option<Timestamp> {
        let now = self.now;
        if self.tasks.is_empty() {
            // No process is known before the first observation, which may bring no event.
            return Some(now + TICK);
        }
        let scans = self.tasks.iter().map(|task| task.due(now));
        let kswapds = self.nodes.iter().enumerate().filter_map(|(i, n)| n.due(now, self.ran(i)));
        scans.chain(kswapds).min()
    }

    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan) {
        if !self.started {
            self.start(now, ctx);
        }
        self.now = now;
        let mut free = FreePages::new(ctx.free);
        let faults = std::mem::take(&mut self.faults);
        for fault in &faults {
            self.handle_fault(now, fault, ctx, &mut free, plan);
        }
        self.faults = faults;
        self.faults.clear();
        self.scan(now, ctx, plan);
        self.run_kswapds(now, ctx, &mut free, plan);
    }
}

/// The kernel's clock in these rules.
fn jiffy(at: Timestamp) -> Timestamp {
    let tick = TICK.as_nanos() as u64;
    Timestamp(at.0 / tick * tick)
}

/// Adds a page to the last range if the page follows that range, else as a new range.
fn append(ranges: &mut Vec<PageRange>, page: PageId) {
    match ranges.last_mut() {
        Some(last) if last.first.0 + last.count == page.0 => last.count += 1,
        _ => ranges.push(PageRange { first: page, count: 1 }),
    }
}

#[cfg(test)]
mod tests;
