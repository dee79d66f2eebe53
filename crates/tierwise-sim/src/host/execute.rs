//! Executes plans: poisons pages, moves pages, and charges the costs of both and of the scans.
//!
//! A migration takes a fixed time of the kernel for each page and for each batch (which shares one
//! TLB shootdown), and the copy, which uses bandwidth of both tiers. A thread that touches the page
//! while it is unmapped waits for the rest of that time.

use std::time::Duration;

use tierwise_core::migrate::{ChargeTo, FailReason, MigrationPlan, Move, MoveOutcome};
use tierwise_core::observe::{KernelCosts, Signals};
use tierwise_core::page::ScanCost;
use tierwise_core::units::{PageId, TierId};

use super::SimulatedHost;
use crate::workload::{WorkloadKind, WorkloadState};

/// The copies in flight, by the thread that makes them.
#[derive(Debug)]
pub(crate) struct InFlightCopies {
    threads: Vec<MigrationThread>,
}

/// Copies out of one tier, one after another. There is a kernel thread for each node, as kswapd and
/// the promotion threads of MULTI-CLOCK (section IV) and MEMTIS (`kmigraterd`) are; it moves pages
/// out of its tier.
#[derive(Debug, Clone)]
struct MigrationThread {
    /// Bytes still to be read and written, by tier.
    left: Vec<(f64, f64)>,
    until: u64,
    /// The time until which background work keeps the thread busy.
    busy_until: u64,
}

impl InFlightCopies {
    /// Starts without copies.
    pub(crate) fn new(tiers: usize) -> Self {
        let thread = MigrationThread { left: vec![(0.0, 0.0); tiers], until: 0, busy_until: 0 };
        Self { threads: vec![thread; tiers] }
    }

    /// The time until which background threads are busy.
    pub(crate) fn busy_until(&self) -> u64 {
        self.threads.iter().map(|thread| thread.busy_until).max().unwrap_or(0)
    }

    fn add(
        &mut self,
        now: u64,
        from: TierId,
        to: TierId,
        bytes: f64,
        took_ns: f64,
        charge_to: ChargeTo,
    ) {
        let thread = &mut self.threads[from.index()];
        thread.left[from.index()].0 += bytes;
        thread.left[to.index()].1 += bytes;
        thread.until = thread.until.max(now) + took_ns as u64;
        if charge_to == ChargeTo::Background {
            self.work(now, from, took_ns);
        }
    }

    /// Keeps a tier's background thread busy.
    fn work(&mut self, now: u64, tier: TierId, ns: f64) {
        let busy = &mut self.threads[tier.index()].busy_until;
        *busy = (*busy).max(now) + ns as u64;
    }

    /// Bytes per nanosecond read from and written to each tier.
    pub(crate) fn rates(&self, now: u64) -> Vec<(f64, f64)> {
        let mut rates = vec![(0.0, 0.0); self.threads.len()];
        for thread in self.threads.iter().filter(|thread| thread.until > now) {
            let time = (thread.until - now) as f64;
            for ((read, write), left) in rates.iter_mut().zip(&thread.left) {
                *read += left.0 / time;
                *write += left.1 / time;
            }
        }
        rates
    }

    /// Subtracts the bytes that are copied from `before` to `now`.
    pub(crate) fn drain(&mut self, before: u64, now: u64) {
        for thread in &mut self.threads {
            let left = thread.until.saturating_sub(before) as f64;
            let kept = if left > 0.0 { (1.0 - (now - before) as f64 / left).max(0.0) } else { 0.0 };
            for (read, write) in &mut thread.left {
                *read *= kept;
                *write *= kept;
            }
        }
    }
}

/// The old objects for each new one at which CPython's collector looks at all (`gc_should_collect`,
/// `long_lived_pending` against `long_lived_total / 4`).
const NEW_PART: u64 = 4;
/// Rest of a process after a survey, as a multiple of the survey's time (`REST` in
/// `world/survey.rs` of tierwise-linux).
const SURVEY_REST: f64 = 100.0;

impl SimulatedHost {
    pub(super) fn execute(&mut self, plan: &MigrationPlan, out: &mut Vec<MoveOutcome>) {
        self.signals = plan.signals;
        self.placement = plan.placement;
        self.memory.set_caps(&plan.caps);
        self.sparse.clone_from(&plan.sparse);
        self.charge_scan(plan.scan);
        for range in &plan.poison {
            for page in range.first.0..range.first.0 + range.count {
                self.poison(PageId(page));
            }
        }
        // Moves that one kernel thread makes one after another share a shootdown by the batch.
        let mut in_batch = 0;
        for m in &plan.moves {
            let from = self.memory.frame(m.page).tier();
            let result = self.movable(m, plan.in_place);
            if let (Ok(()), Some(from)) = (result, from) {
                let first = m.charge_to == ChargeTo::FaultingThread
                    || in_batch % self.costs.batch_pages == 0;
                in_batch += u32::from(m.charge_to == ChargeTo::Background);
                self.relocate(m, from, first);
            }
            out.push(MoveOutcome { page: m.page, from, to: m.to, result });
        }
        if !plan.moves.is_empty() {
            self.split_all();
        }
    }

    fn movable(&mut self, m: &Move, in_place: bool) -> Result<(), FailReason> {
        let frame = self.memory.frame(m.page);
        let Some(from) = frame.tier() else { return Err(FailReason::NotPresent) };
        if from == m.to {
            return Err(FailReason::Already);
        }
        if m.to.index() >= self.topology.tiers.len()
            || !self.memory.can_receive(m.to, frame.frames(), in_place)
            || !self.has_frame(frame.workload, m.to)
        {
            return Err(FailReason::TargetFull);
        }
        let lot = self.monitors.lot(u64::from(m.page.0) << 32 ^ self.now);
        if lot < self.injection.busy_moves {
            return Err(FailReason::Busy);
        }
        Ok(())
    }

    fn relocate(&mut self, m: &Move, from: TierId, shootdown: bool) {
        let frame = *self.memory.frame(m.page);
        let bytes = (frame.frames() * self.topology.page_size.0) as f64;
        let copy_ns = bytes / self.copy_speed(from, m.to);
        let fixed_ns =
            self.costs.migrate_page_ns + if shootdown { self.costs.shootdown_ns } else { 0.0 };
        let workload = usize::from(frame.workload);
        self.copies.add(self.now, from, m.to, bytes, copy_ns + fixed_ns, m.charge_to);
        self.stats.moved(workload, m.to < from, bytes);
        let accessed = self.reaccess.moved(workload, frame.local, m.to < from, &self.workloads);
        self.stats.accounts[workload].reaccessed += u64::from(accessed);
        match m.charge_to {
            ChargeTo::Background => {
                let taken = self.background(copy_ns + fixed_ns);
                // A program that waits for its CPU does not touch the page meanwhile.
                let away = (copy_ns + self.costs.migrate_page_ns) * (1.0 - taken);
                self.stall(workload, frame.local, away);
            }
            ChargeTo::FaultingThread => self.charge_stall(workload, copy_ns + fixed_ns),
        }
        self.workloads[workload].leave_tier(frame.local, from);
        self.quit_tier(frame.workload, m.page, true);
        self.memory.relocate(m.page, m.to);
        self.enter_tier(frame.workload, m.page, m.to);
        self.workloads[workload].join_tier(frame.local, m.to);
    }

    /// CPU time of migrating one page out of the slowest tier, one of a batch.
    pub(super) fn move_cost(&self) -> Option<Duration> {
        let (from, to) = (self.topology.slowest(), TierId::FASTEST);
        let copy_ns = self.topology.page_size.0 as f64 / self.copy_speed(from, to);
        let batch = f64::from(self.costs.batch_pages);
        // The fixed costs are those of a granule, and the copy is that of one of its pages.
        let granule = f64::from(1u32 << self.machine.granule_order);
        let fixed_ns = (self.costs.migrate_page_ns + self.costs.shootdown_ns / batch) / granule;
        Some(Duration::from_secs_f64((copy_ns + fixed_ns) / 1e9))
    }

    /// CPU time of the kernel's work on a base page. A granule's pages are moved and read together,
    /// so the costs of a granule are divided by their number.
    pub(super) fn kernel_costs(&self) -> KernelCosts {
        let pages = f64::from(1u32 << self.machine.granule_order);
        let of = |ns: f64| Duration::from_secs_f64(ns / pages / 1e9);
        KernelCosts {
            move_page: self.move_cost().unwrap_or_default(),
            poison: of(self.costs.poison_ns),
            scan_entry: of(self.costs.scan_pte_ns),
        }
    }

    /// Bytes per nanosecond: the core's own speed, or the slower of the two tiers.
    fn copy_speed(&self, from: TierId, to: TierId) -> f64 {
        let read = self.machine.tiers[from.index()].read_gbps;
        let write = self.machine.tiers[to.index()].write_gbps;
        self.costs.copy_bytes_per_ns.min(read).min(write)
    }

    /// Charges the application's expected wait, because it may touch the page while it is
    /// unmapped: with accesses every T and the page away for t, one falls into that time with
    /// probability min(1, t / T), and then waits t / 2.
    fn stall(&mut self, workload: usize, local: u32, away_ns: f64) {
        let p = &self.workloads[workload];
        if p.state != WorkloadState::Running {
            return;
        }
        let Some(row) = p.row(local) else { return };
        let window_ns = self.stats.recent_window_ns(workload).max(1.0);
        let hit = (away_ns * p.accesses(row) / window_ns).min(1.0);
        self.charge_stall(workload, hit * away_ns / 2.0);
    }

    /// Charges the application's own path.
    pub(super) fn charge_stall(&mut self, workload: usize, ns: f64) {
        self.workloads[workload].charge_stall(ns);
        self.stats.application(workload, ns);
    }

    /// Charges the time of a thread that works beside the workloads. Returns the share of it that
    /// it takes from them, because all CPUs that it may use are in use: nothing if one is idle.
    fn background(&mut self, ns: f64) -> f64 {
        self.stats.background(ns);
        let Some(cpus) = self.shared_cpus() else { return 0.0 };
        let threads = self.threads();
        let taken = (threads + 1.0 - cpus).clamp(0.0, 1.0);
        if taken > 0.0 && threads > 0.0 {
            let each = taken * ns / threads.min(cpus);
            let all = self.workloads.iter_mut().zip(&self.schedules).zip(&mut self.stolen_ns);
            for ((workload, schedule), stolen) in all {
                if workload.state == WorkloadState::Running && !schedule.own_cpus {
                    // All its threads wait, each for its part.
                    let all = each * workload.cpus();
                    workload.charge_stall(all);
                    *stolen += all;
                }
            }
        }
        taken
    }

    fn charge_scan(&mut self, scan: ScanCost) {
        // The bits are DAMON's, whose checks are charged.
        if self.machine.damon.is_some() {
            return;
        }
        let shootdowns = scan.cleared.div_ceil(u64::from(self.costs.batch_pages)) as f64;
        let tiers = self.topology.tiers.len() as f64;
        // A scan of lists is made by one kernel thread for each tier, which its timer wakes.
        let wakes = if scan.listed > 0 { tiers } else { 0.0 };
        let background = wakes * self.costs.wake_ns
            + scan.scanned as f64 * self.costs.scan_pte_ns
            + scan.listed as f64 * self.costs.list_page_ns
            + shootdowns * self.costs.shootdown_ns;
        self.background(background);
        // The scan does not report the tiers that it read: every tier's thread scans an equal part.
        let each = background / tiers;
        self.topology.ids().for_each(|tier| self.copies.work(self.now, tier, each));
        let running: Vec<usize> = (0..self.workloads.len())
            .filter(|&i| self.workloads[i].state == WorkloadState::Running)
            .collect();
        // The scan does not report whose pages it cleared: every running workload is charged an
        // equal part.
        let each = (scan.cleared as f64 * self.costs.clear_bit_ns
            + shootdowns * self.costs.shootdown_ns)
            / running.len().max(1) as f64;
        running.into_iter().for_each(|i| self.charge_stall(i, each));
    }

    fn poison(&mut self, page: PageId) {
        let frame = *self.memory.frame(page);
        if frame.tier().is_none() || frame.is_poisoned() {
            return;
        }
        self.memory.set_poisoned(page, true);
        let workload = usize::from(frame.workload);
        // change_prot_numa runs as task work: on the application's own time.
        self.charge_stall(workload, self.costs.poison_ns);
        if let Some(service) = self.workloads[workload].service_mut() {
            service.watcher.poison(frame.local);
            service.poisoned_at[frame.local as usize] = self.now;
            return;
        }
        self.monitors.poison(workload, &self.workloads[workload], frame.local, self.now);
    }

    /// Reports and charges the hint faults of the progress made. `at` converts a share of the
    /// window to a time.
    pub(super) fn take_hint_faults(&mut self, i: usize, at: impl Fn(f64) -> u64) {
        let before = self.observation.hint_faults.len();
        self.monitors.take_hint_faults(
            i,
            &self.workloads[i],
            &mut self.memory,
            &mut self.observation,
            at,
        );
        let faults = &self.observation.hint_faults[before..];
        if faults.is_empty() {
            return;
        }
        // A granule has a fault for each of its pages that is touched, and no more than accesses.
        let granule = f64::from(1u32 << self.machine.granule_order);
        let workload = &self.workloads[i];
        let pages = faults.iter().map(|fault| {
            let row = workload.row(self.memory.frame(fault.page).local);
            row.map_or(1.0, |row| workload.accesses(row).min(granule).max(1.0))
        });
        let pages: f64 = pages.sum();
        self.charge_stall(i, pages * self.costs.hint_fault_ns);
        self.faulted |= self.signals.hint_faults;
    }

    /// The misses per sample of a workload.
    pub(super) fn sample_period(&self, i: usize) -> u32 {
        let longer = self.sparse.iter().find(|(tenant, _)| tenant.index() == i);
        longer.map_or(self.signals.sample_period, |(_, period)| *period)
    }

    /// Converts the accesses since the last report into the policy's signals, and charges samples.
    pub(super) fn report(&mut self, i: usize) {
        match self.workloads[i].kind {
            WorkloadKind::Service(_) => self.report_service(i),
            WorkloadKind::Windows { .. } => self.report_windows(i),
        }
    }

    fn report_windows(&mut self, i: usize) {
        self.warm(i);
        let signals = Signals { sample_period: self.sample_period(i), ..self.signals };
        let before = self.observation.samples.len();
        let stale = self.injection.stale_reports;
        self.monitors.set_time(self.now);
        self.monitors.report(
            i,
            &mut self.workloads[i],
            &self.memory,
            &signals,
            stale,
            &mut self.observation,
        );
        let samples = (self.observation.samples.len() - before) as f64;
        if samples > 0.0 {
            self.charge_stall(i, samples * self.costs.sample_ns);
            self.background(samples * self.costs.sample_read_ns);
        }
        if self.signals.objects && self.workloads[i].done >= 1.0 {
            self.charge_objects(i);
        }
    }

    /// Charges the sample of a workload's objects, and their marking while it finds many new ones:
    /// CPython's collector looks at all objects once those that survived since the last time are a
    /// quarter of them, and EMT marks when the collector does (section 5.1).
    fn charge_objects(&mut self, i: usize) {
        let objects = self.workloads[i].window.objects;
        // The thread that takes the sample decides at once.
        self.attention = true;
        self.background(objects as f64 * self.costs.sample_object_ns);
        let marked = self.workloads[i].marked_objects;
        if objects > 0 && objects >= marked + marked / NEW_PART {
            self.workloads[i].marked_objects = objects;
            self.charge_stall(i, objects as f64 * self.costs.mark_object_ns);
        }
    }

    /// Reports what DAMON found, if it stands for bits and samples, and charges a round of the
    /// daemon that reads it.
    pub(super) fn report_damon(&mut self) {
        // The daemon, and DAMON with it, starts with the policy.
        if self.undecided {
            self.monitors.restart_damon(self.now);
            return;
        }
        let work = self.monitors.report_damon(
            self.now,
            &self.workloads,
            &self.memory,
            &self.signals,
            &mut self.observation,
        );
        let Some(work) = work else { return };
        let costs = self.costs;
        let monitoring_ns = work.checks as f64 * costs.damon_check_ns
            + work.wakes as f64 * costs.damon_wake_ns
            + work.regions as f64 * costs.damon_region_ns;
        let start_ns = if self.survey_due.is_empty() { costs.daemon_start_ns } else { 0.0 };
        let surveys_ns = self.survey();
        self.background(start_ns + monitoring_ns + costs.daemon_round_ns + surveys_ns);
    }

    /// Returns the time of the daemon's surveys of processes, each of which rests after its survey
    /// (`world/survey.rs` of tierwise-linux). A running workload is a process of a tenant.
    fn survey(&mut self) -> f64 {
        self.survey_due.resize(self.workloads.len(), 0);
        let mut all_ns = 0.0;
        for (i, due) in self.survey_due.iter_mut().enumerate() {
            if self.workloads[i].state != WorkloadState::Running || self.now < *due {
                continue;
            }
            // A simulated page is a block of the daemon's.
            let pages: u64 = self.memory.usage(i).iter().map(|pages| pages.0).sum();
            let blocks = (pages >> self.machine.granule_order) as f64;
            let ns = self.costs.daemon_process_ns + blocks * self.costs.daemon_block_ns;
            *due = self.now + (SURVEY_REST * ns) as u64;
            all_ns += ns;
        }
        all_ns
    }

    /// Adds the misses of the next report to the heat map.
    fn warm(&mut self, i: usize) {
        let workload = &self.workloads[i];
        let (from, to) = (workload.reported, workload.done);
        if to > from
            && let Some(heat) = self.stats.heat_mut()
        {
            heat.add((i, workload), &self.memory, (from, to), self.now);
        }
    }
}
