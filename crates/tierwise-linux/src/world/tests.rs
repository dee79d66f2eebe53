//! The live world on a fixture machine. The tenant's memory is this test's own, and the kernel only
//! pretends to move it.

mod exchanges;
mod placed;

use std::collections::HashMap;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use tierwise_core::migrate::{FailReason, MigrationPlan};
use tierwise_core::observe::{Observation, Remembered};
use tierwise_core::units::{Bytes, PageId, Pages, TierId, Timestamp};
use tierwise_core::world::World;

use super::*;
use crate::migrate::Limits;
use crate::monitor::walk::fake;
use crate::process::Process;
use crate::topology::fixture;

const BLOCK: u64 = 64 << 10;

/// Nodes of pages by address; a page that never moved is on node 0.
#[derive(Default)]
pub(super) struct Pretender {
    nodes: HashMap<usize, i32>,
    clock: Duration,
    /// Other programs that use the CPU, each as long as this one.
    others: u32,
    full: bool,
    /// Duration of each move_pages call.
    takes: Duration,
    /// Duration of moving one page, in addition.
    page_takes: Duration,
    /// Duration of each reading of a process's memory.
    reading_takes: Duration,
    /// Number of pages that still fit on the target; `None` has no limit.
    free_memory: Option<usize>,
    /// A node that takes no page.
    full_node: Option<i32>,
    /// A node to which every page is too busy to move.
    busy_node: Option<i32>,
}

impl Calls for Pretender {
    fn now(&mut self) -> Timestamp {
        Timestamp::ZERO + self.clock
    }

    fn cpu(&mut self) -> Duration {
        self.clock / (1 + self.others)
    }

    fn is_alive(&mut self, _: &Process) -> bool {
        true
    }

    fn guarded<T: Send + 'static>(
        &mut self,
        _: i32,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.clock += self.reading_takes;
        Ok(call())
    }

    fn nodes(&mut self, _: i32, addresses: &[usize], status: &mut [i32]) -> Result<()> {
        for (address, status) in addresses.iter().zip(status) {
            *status = self.nodes.get(address).copied().unwrap_or(0);
        }
        Ok(())
    }

    fn move_pages(
        &mut self,
        _: i32,
        addresses: &[usize],
        nodes: &[i32],
        status: &mut [i32],
        _: bool,
    ) -> Result<()> {
        self.clock += (self.takes + self.page_takes * addresses.len() as u32) * (1 + self.others);
        for ((address, node), status) in addresses.iter().zip(nodes).zip(status) {
            if self.busy_node == Some(*node) {
                *status = -libc::EACCES;
                continue;
            }
            if self.full_node == Some(*node) {
                // The kernel leaves the rest of the call (`do_pages_move`, mm/migrate.c).
                *status = -libc::ENOMEM;
                return Ok(());
            }
            let full = self.full || self.free_memory == Some(0);
            *status = if full { -libc::ENOMEM } else { *node };
            if !full {
                self.free_memory = self.free_memory.map(|free_memory| free_memory - 1);
                self.nodes.insert(*address, *node);
            }
        }
        Ok(())
    }
}

/// A filled mapping of this process.
struct Memory(*mut libc::c_void, usize);

impl Memory {
    #[allow(unsafe_code)]
    fn new(bytes: usize) -> Self {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping, written only within its length.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            std::ptr::write_bytes(at.cast::<u8>(), 7, bytes);
            Self(at, bytes)
        }
    }

    fn address(&self) -> u64 {
        self.0 as u64
    }
}

impl Drop for Memory {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: mapped by new(), and no other value holds its address.
        unsafe { libc::munmap(self.0, self.1) };
    }
}

fn world() -> (tempfile::TempDir, Sender<()>, LiveWorld<Pretender>) {
    let (dir, roots) = fixture::copy("hmat-two-tier");
    let host = LinuxHost::discover(&roots, None).unwrap();
    // The fixture machine runs this test's process.
    let me = std::process::id().to_string();
    std::os::unix::fs::symlink(format!("/proc/{me}"), roots.proc.join(me)).unwrap();
    let (waker, wake) = bounded(1);
    let config = WorldConfig {
        roots,
        block: Bytes(BLOCK),
        interval: Duration::ZERO,
        limits: Limits::default(),
        dry_run: false,
        // A test must not depend on the CPU time that a busy machine leaves it.
        cpu: (f64::MAX, f64::MAX),
    };
    let mut world = LiveWorld::with_kernel(config, host, wake, Pretender::default());
    let me = TenantSelector::Pids(vec![std::process::id() as i32]);
    world.set_tenants(vec![("me".into(), me)], true);
    (dir, waker, world)
}

/// Sends the number of monitored processes.
#[derive(Debug)]
struct Listener(Sender<usize>);

impl AccessMonitor for Listener {
    fn name(&self) -> &'static str {
        "listener"
    }

    fn set_targets(&mut self, processes: &[crate::monitor::MonitorTarget]) -> Result<()> {
        // The test may have ended.
        let _ = self.0.send(processes.len());
        Ok(())
    }

    fn collect(&mut self, _: &mut crate::monitor::AccessReport) -> Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        Ok(())
    }

    fn cpu_time(&mut self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }
}

/// Otherwise DAMON's threads would continue to use scarce CPU time, and monitoring would never
/// resume.
#[test]
fn suspension_stops_monitoring_and_slows_rounds() {
    let (_dir, _waker, mut world) = world();
    let (sender, watched) = crossbeam_channel::unbounded();
    world.monitor_with(Box::new(Listener(sender))).unwrap();
    let mut report = Observation::default();
    let mut reported = |world: &mut LiveWorld<Pretender>, wanted: usize| {
        // The thread answers in its own time.
        while watched.recv_timeout(Duration::from_millis(1)) != Ok(wanted) {
            world.observe(&mut report).unwrap();
        }
    };
    reported(&mut world, 1);
    let wait = |world: &LiveWorld<Pretender>| {
        world.account.shortest_wait(world.time(), world.config.interval)
    };
    assert_eq!(wait(&world), Duration::ZERO);
    world.account.cpu_budget = CpuBudget::new(0.01, 0.03);
    let second = |n: u64| Duration::from_secs(n);
    (0..20).for_each(|n| world.account.cpu_budget.spent(Timestamp::ZERO + second(n), second(n)));
    assert!(world.account.cpu_budget.suspended());
    assert_eq!(wait(&world), account::SUSPENDED_WAIT);
    reported(&mut world, 0);
    world.account.cpu_budget = CpuBudget::new(f64::MAX, f64::MAX);
    reported(&mut world, 1);
}

/// A tenant may start any number of processes, each with as many mappings as the kernel allows.
#[test]
fn one_tenant_cannot_use_up_the_round() {
    let (_dir, _waker, mut world) = world();
    let roots = world.config.roots.clone();
    // Above any process's number (`PID_MAX_LIMIT`): one may be this test's own.
    let pids: Vec<i32> = (5_000_000..5_000_050).collect();
    for &pid in &pids {
        fake::process(&roots, pid, &[1 << 63]);
    }
    let me = TenantSelector::Pids(vec![std::process::id() as i32]);
    let tenants = vec![("many".into(), TenantSelector::Pids(pids)), ("me".into(), me)];
    world.set_tenants(tenants, true);
    world.migrator.calls().reading_takes = Duration::from_millis(30);
    let mut report = Observation::default();
    world.observe(&mut report).unwrap();
    let of = |world: &LiveWorld<Pretender>, tenant: u16| {
        world.survey.watched().iter().filter(|target| target.tenant == TenantId(tenant)).count()
    };
    // Two fill the share of 50 ms.
    assert_eq!((of(&world, 0), of(&world, 1)), (2, 1));
}

#[test]
fn lost_monitoring_is_reported_until_it_returns() {
    let (_dir, _waker, mut world) = world();
    let (release, released) = bounded(0);
    world.monitor_with(Box::new(super::monitor::tests::Waits(released))).unwrap();
    let mut report = Observation::default();
    let lost = |events: Vec<WorldEvent>| {
        events.iter().any(|event| matches!(event, WorldEvent::MonitoringLost(_)))
    };
    let mut events = Vec::new();
    while !lost(events) {
        world.observe(&mut report).unwrap();
        events = world.take_events();
    }
    assert!(!world.is_monitoring() && world.can_monitor().is_err());
    // The rest of the world continues.
    world.observe(&mut report).unwrap();
    assert!(!report.tenants.is_empty() && world.stop().is_err());
    drop(release);
    while world.can_monitor().is_err() {
        std::thread::yield_now();
    }
}

/// The page of the n-th whole block of a mapping.
fn page(world: &LiveWorld<Pretender>, memory: &Memory, n: u64) -> Option<PageId> {
    let process = world.tracker.members(TenantId(0)).next()?;
    let first = memory.address().next_multiple_of(BLOCK);
    world.blocks.page_at(process, first + n * BLOCK)
}

fn outcomes(world: &mut LiveWorld<Pretender>, pages: &[PageId], to: u8) -> Vec<MoveOutcome> {
    let mut plan = MigrationPlan::default();
    pages.iter().for_each(|&page| plan.background(page, TierId(to)));
    let mut out = Vec::new();
    world.migrate(&plan, &mut out).unwrap();
    out
}

#[test]
fn memory_lifecycle_reaches_the_engine() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(64 * BLOCK as usize);
    let mut report = Observation::default();
    world.observe(&mut report).unwrap();
    let pages: Vec<PageId> = (0..8).map(|n| page(&world, &memory, n).unwrap()).collect();
    let allocated: u32 = report.allocated.iter().map(|b| b.count).sum();
    assert_eq!(allocated as usize, world.blocks());
    assert!(report.tenants[0].running);
    assert_eq!(report.tiers.len(), 2);
    for (i, tier) in report.tiers.iter().enumerate() {
        let known = world.free_memory.free()[i] + tier.unmanaged + report.tenants[0].usage[i];
        let off = known.0.abs_diff(world.host.tiers[i].capacity.0);
        assert!(
            off <= world.host.tiers[i].capacity.0 / free_memory::STEPS,
            "tier {i} is off by {off} pages"
        );
    }

    let before = world.usage(TenantId(0)).to_vec();
    let moved = outcomes(&mut world, &pages, 1);
    assert_eq!(moved.len(), 8);
    // The next decision must know of it, even if the next reading is far.
    let pages_moved = 8 * BLOCK / crate::process::resident::PAGE_SIZE;
    assert_eq!(
        world.usage(TenantId(0)),
        [before[0] - Pages(pages_moved), before[1] + Pages(pages_moved)]
    );
    assert!(moved.iter().all(|o| o.result.is_ok() && o.from == Some(TierId(0))), "{moved:?}");
    assert_eq!(world.moved_bytes(), 8 * BLOCK);
    let again = outcomes(&mut world, &pages[..1], 1);
    assert_eq!(again[0].result, Err(FailReason::Already));

    // The kernel promotes the first page by itself.
    let first = memory.address().next_multiple_of(BLOCK) as usize;
    world.migrator.calls().nodes.insert(first, 0);
    world.next_survey = Timestamp::ZERO;
    world.observe(&mut report).unwrap();
    let migration = report.external_migrations.iter().find(|s| s.page == pages[0]).unwrap();
    assert_eq!(migration.tier, TierId(0));

    drop(memory);
    world.next_survey = Timestamp::ZERO;
    world.observe(&mut report).unwrap();
    assert!(pages.iter().all(|page| report.freed.contains(page)));
    let freed = outcomes(&mut world, &pages[..2], 0);
    assert!(
        freed.iter().all(|o| o.result == Err(FailReason::NotPresent) && o.from.is_none()),
        "{freed:?}"
    );
}

#[test]
fn full_node_and_dry_run_move_nothing() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(16 * BLOCK as usize);
    world.observe(&mut Observation::default()).unwrap();
    let pages: Vec<PageId> = (0..4).map(|n| page(&world, &memory, n).unwrap()).collect();
    world.migrator.calls().full = true;
    let full = outcomes(&mut world, &pages, 1);
    assert!(full.iter().all(|o| o.result == Err(FailReason::TargetFull)), "{full:?}");
    world.migrator.calls().full = false;
    world.set_dry_run(true);
    let dry = outcomes(&mut world, &pages, 1);
    assert!(dry.iter().all(|o| o.result == Err(FailReason::Budget)), "{dry:?}");
    assert_eq!(world.moved_bytes(), 0);
}

#[test]
fn rest_of_a_block_follows_later() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(16 * BLOCK as usize);
    let mut report = Observation::default();
    world.observe(&mut report).unwrap();
    let pages: Vec<PageId> = (0..2).map(|n| page(&world, &memory, n).unwrap()).collect();
    let per_block = (BLOCK / 4096) as usize;
    // The first block fits, and most of the second does.
    world.migrator.calls().free_memory = Some(2 * per_block - 3);
    let moved = outcomes(&mut world, &pages, 1);
    assert!(moved.iter().all(|o| o.result.is_ok()), "{moved:?}");
    assert_eq!(world.moved_bytes(), 2 * BLOCK - 3 * 4096);
    let again = |world: &mut LiveWorld<Pretender>, report: &mut Observation| {
        // Longer than a full node is left alone.
        world.migrator.calls().clock += Duration::from_secs(100);
        world.next_survey = Timestamp::ZERO;
        world.observe(report).unwrap();
    };
    world.migrator.calls().free_memory = None;
    again(&mut world, &mut report);
    assert_eq!(world.moved_bytes(), 2 * BLOCK);
    // The blocks have moved elsewhere since, so their rest stays.
    outcomes(&mut world, &pages, 0);
    let bytes = world.moved_bytes();
    again(&mut world, &mut report);
    assert_eq!(world.moved_bytes(), bytes);
}

#[test]
fn round_ends_in_time_when_slow() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(1024 * BLOCK as usize);
    let mut report = Observation::default();
    world.observe(&mut report).unwrap();
    let pages: Vec<PageId> = (0..1000).map(|n| page(&world, &memory, n).unwrap()).collect();
    // The mover keeps calls below 20 ms by itself; here each takes ten times as long.
    world.migrator.calls().takes = Duration::from_millis(200);
    let mut rounds = Vec::new();
    for round in 0..8 {
        let before = world.migrator.calls().clock;
        let moved = outcomes(&mut world, &pages, (round + 1) % 2);
        assert_eq!(moved.len(), pages.len());
        assert!(moved.iter().any(|o| o.result == Err(FailReason::Budget)), "{moved:?}");
        rounds.push(world.migrator.calls().clock - before);
    }
    // A portion of 512 pages, in calls of 8.
    let longest = Duration::from_millis(200) * (512 / 8);
    assert!(rounds.iter().all(|&round| round <= longest), "{rounds:?}");
}

#[test]
fn other_programs_do_not_end_the_round() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(1024 * BLOCK as usize);
    world.observe(&mut Observation::default()).unwrap();
    let pages: Vec<PageId> = (0..1000).map(|n| page(&world, &memory, n).unwrap()).collect();
    // 16,000 pages of 20 us take 0.32 s of a CPU, of which three others use as much each.
    world.migrator.calls().page_takes = Duration::from_micros(20);
    world.migrator.calls().others = 3;
    let moved = outcomes(&mut world, &pages, 1);
    assert!(moved.iter().all(|o| o.result.is_ok()), "{moved:?}");
    assert!(!world.is_moving());
    // Beside nine others it ends before all have moved.
    world.migrator.calls().others = 9;
    let before = world.migrator.calls().clock;
    let moved = outcomes(&mut world, &pages, 0);
    assert!(moved.iter().any(|o| o.result.is_ok()), "{moved:?}");
    assert!(moved.iter().any(|o| o.result == Err(FailReason::Budget)), "{moved:?}");
    let round = world.migrator.calls().clock - before;
    assert!((2..3).contains(&round.as_secs()), "{round:?}");
    assert!(world.is_moving());
    world.observe(&mut Observation::default()).unwrap();
    assert!(!world.is_moving(), "this round has no moves");
}

#[test]
fn slow_demotions_leave_time_for_promotions() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(1024 * BLOCK as usize);
    world.observe(&mut Observation::default()).unwrap();
    let pages: Vec<PageId> = (0..1000).map(|n| page(&world, &memory, n).unwrap()).collect();
    let (slow, fast) = pages.split_at(500);
    // 16 pages per block: a round is too short for a thousand blocks.
    world.migrator.calls().page_takes = Duration::from_micros(50);
    while outcomes(&mut world, slow, 1).iter().any(|o| o.result == Err(FailReason::Budget)) {}
    let mut plan = MigrationPlan::default();
    fast.iter().for_each(|&page| plan.background(page, TierId(1)));
    slow.iter().for_each(|&page| plan.background(page, TierId(0)));
    let mut out = Vec::new();
    world.migrate(&plan, &mut out).unwrap();
    let moved = |to| out.iter().filter(|o| o.result.is_ok() && o.to == TierId(to)).count();
    assert!(moved(1) > 0 && moved(0) > 0, "{} demoted, {} promoted", moved(1), moved(0));
    assert!(moved(1) + moved(0) < 1000, "the round was long enough for all");
}

#[test]
fn ended_tenant_has_no_pages() {
    let (_dir, _waker, mut world) = world();
    let mut report = Observation::default();
    world.observe(&mut report).unwrap();
    assert!(world.blocks() > 0);
    let unmatched =
        TenantSelector::Cgroup(crate::cgroup::GroupPattern::parse("not-yet.slice").unwrap());
    world.set_tenants(vec![("me".into(), unmatched)], false);
    world.observe(&mut report).unwrap();
    assert_eq!(world.blocks(), 0);
    assert!(!report.freed.is_empty() && !report.tenants[0].running);
    assert_eq!(report.tenants[0].usage, [Pages(0), Pages(0)]);
}

#[test]
fn wait_ends_early_when_woken() {
    let (_dir, waker, mut world) = world();
    waker.send(()).unwrap();
    assert!(world.wait_until(Some(Timestamp(u64::MAX))).unwrap());
    drop(waker);
    assert!(!world.wait_until(Some(Timestamp(u64::MAX))).unwrap());
}

#[test]
fn new_engine_starts_with_remembered_heat() {
    let (_dir, _waker, mut world) = world();
    let memory = Memory::new(16 * BLOCK as usize);
    world.remember_with(heat::HeatMemory::default());
    let mut report = Observation::default();
    world.observe(&mut report).unwrap();
    assert!(report.remembered.is_empty() && report.tenants[0].unmonitored);
    let hot = page(&world, &memory, 3).unwrap();
    assert!(world.remember(|page| if page == hot { 40 } else { 0 }).is_some());
    let me = TenantSelector::Pids(vec![std::process::id() as i32]);
    world.set_tenants(vec![("me".into(), me)], true);
    world.observe(&mut report).unwrap();
    let page = page(&world, &memory, 3).unwrap();
    assert_eq!(report.remembered, [Remembered { page, heat: 32 }]);
    assert!(report.tenants[0].unmonitored, "what was hot is no access report");
    // A world that surveys no blocks must not forget what it knew.
    world.set_survey(false);
    assert!(world.remember(|_| 0).is_none());
}

/// A tenant that forks must not use up the file descriptors of all tenants.
#[test]
fn many_surveys_open_one_pagemap() {
    let (dir, _waker, mut world) = world();
    let numbers: Vec<i32> = (5001..=5064).collect();
    for &pid in &numbers {
        let directory = world.config.roots.proc.join(pid.to_string());
        let stat = format!("{pid} (x) S 1 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 0");
        fixture::put(&directory.join("stat"), &stat);
        fixture::put(&directory.join("maps"), "10000-20000 rw-p 00000000 00:00 0\n");
        fixture::put(&directory.join("mountinfo"), "");
        let present = (1u64 << 63).to_ne_bytes();
        std::fs::write(directory.join("pagemap"), present.repeat(0x20)).unwrap();
    }
    world.set_tenants(vec![("forks".into(), TenantSelector::Pids(numbers))], true);
    let mut report = Observation::default();
    world.observe(&mut report).unwrap();
    assert_eq!(report.allocated.iter().map(|run| run.count).sum::<u32>(), 64);
    assert_eq!(crate::file::open_below(dir.path()), 1);
}

/// Otherwise its memory would belong to no tenant, and no limit would apply to it.
#[test]
fn headless_process_stays_a_member() {
    let headless = crate::process::headless::Headless::new(4 * BLOCK as usize);
    let (_dir, _waker, mut world) = world();
    let pid = headless.pid;
    let place = world.config.roots.proc.join(pid.to_string());
    std::os::unix::fs::symlink(format!("/proc/{pid}"), place).unwrap();
    world.set_tenants(vec![("headless".into(), TenantSelector::Pids(vec![pid]))], true);
    world.observe(&mut Observation::default()).unwrap();
    let process = Process::read(&Roots::default(), pid, &mut Reader::default()).unwrap();
    let first = headless.address.next_multiple_of(BLOCK);
    let whole = (first..).step_by(BLOCK as usize).take(3);
    let known = whole.filter(|&address| world.blocks.page_at(process, address).is_some());
    assert_eq!(known.count(), 3);
    assert!(world.account.faults.is_empty());
}
