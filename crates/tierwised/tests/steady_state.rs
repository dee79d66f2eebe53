//! Observing, deciding and moving allocate nothing once their buffers have grown: a daemon that
//! allocates while memory is short makes it shorter.
//!
//! A fake host with two dozen control groups, whose hot memory changes all the time; every
//! allocation of this process is counted.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::bounded;
use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::migrate::{MigrationPlan, MoveOutcome};
use tierwise_core::observe::{Capabilities, Observation};
use tierwise_core::recipe::Recipe;
use tierwise_core::tenant::TenantSpec;
use tierwise_core::topology::Topology;
use tierwise_core::units::{Bytes, Timestamp};
use tierwise_core::world::World;
use tierwise_driver::Driver;
use tierwise_linux::damon::HostRegion;
use tierwise_linux::error::Result;
use tierwise_linux::migrate::{Calls, Limits};
use tierwise_linux::monitor::{AccessMonitor, AccessReport, MonitorTarget, ProcessRegion};
use tierwise_linux::process::Process;
use tierwise_linux::roots::Roots;
use tierwise_linux::topology::LinuxHost;
use tierwise_linux::world::{LiveWorld, WorldConfig};

#[global_allocator]
static COUNTED: dhat::Alloc = dhat::Alloc;

const TENANTS: i32 = 24;
const PAGE: u64 = 4096;
/// Memory of each tenant.
const PAGES: u64 = 2048;
const BLOCK: u64 = 256 << 10;
/// Access reports for which the same part of a tenant is hot.
const PHASE: u64 = 8;
/// Rounds in which nearly every buffer grows, and every part has been hot.
const GROWING: usize = 600;
const MEASURED: usize = 200;
const WINDOWS: usize = 6;

/// Free memory of the fast node without the tenants' pages: a quarter of them fits.
const ROOM: u64 = TENANTS as u64 * PAGES / 4;

/// The placement of pages, by process and page. Calls take no CPU time, and no time passes.
struct Kernel {
    nodes: Vec<[i32; PAGES as usize + 1]>,
    /// Pages on the fast node.
    fast: Arc<AtomicU64>,
}

impl Kernel {
    fn place(&mut self, pid: i32, address: usize) -> &mut i32 {
        &mut self.nodes[pid as usize - 1][address / PAGE as usize]
    }
}

impl Calls for Kernel {
    fn now(&mut self) -> Timestamp {
        Timestamp::ZERO
    }

    fn cpu(&mut self) -> Duration {
        Duration::ZERO
    }

    fn is_alive(&mut self, _: &Process) -> bool {
        true
    }

    fn nodes(&mut self, pid: i32, addresses: &[usize], status: &mut [i32]) -> Result<()> {
        for (&address, status) in addresses.iter().zip(status) {
            *status = *self.place(pid, address);
        }
        Ok(())
    }

    fn move_pages(
        &mut self,
        pid: i32,
        addresses: &[usize],
        nodes: &[i32],
        status: &mut [i32],
        _: bool,
    ) -> Result<()> {
        for ((&address, &node), status) in addresses.iter().zip(nodes).zip(status) {
            let full = node == 0 && self.fast.load(Ordering::Relaxed) == ROOM;
            *status = if full { -libc::ENOMEM } else { node };
            if full {
                continue;
            }
            match (std::mem::replace(self.place(pid, address), node), node) {
                (1, 0) => self.fast.fetch_add(1, Ordering::Relaxed),
                (0, 1) => self.fast.fetch_sub(1, Ordering::Relaxed),
                _ => 0,
            };
        }
        Ok(())
    }
}

/// Reports a quarter of each process as accessed, another one after each phase.
#[derive(Debug, Default)]
struct Eye {
    processes: Vec<Process>,
    is_monitoring: u64,
}

impl AccessMonitor for Eye {
    fn name(&self) -> &'static str {
        "eye"
    }

    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        self.processes.clear();
        self.processes.extend(processes.iter().map(|watched| watched.process));
        Ok(())
    }

    fn collect(&mut self, report: &mut AccessReport) -> Result<()> {
        self.is_monitoring += 1;
        let hot = self.is_monitoring / PHASE % 4;
        for &process in &self.processes {
            report.sampled.push(process);
            report.regions.extend((0..4).map(|quarter| {
                let start = PAGE + quarter * PAGES / 4 * PAGE;
                let nr_accesses = if quarter == hot { 20 } else { 0 };
                let region =
                    HostRegion { start, end: start + PAGES / 4 * PAGE, nr_accesses, age: 1 };
                ProcessRegion { process, region }
            }));
        }
        report.max_accesses = 20;
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        Ok(())
    }

    fn cpu_time(&mut self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }
}

/// The live world, with waits that end at once.
struct Fast {
    world: LiveWorld<Kernel>,
    now: Timestamp,
    moved: usize,
    fast: Arc<AtomicU64>,
    meminfo: PathBuf,
}

impl Fast {
    /// Writes the kernel's counts of free memory, without allocating.
    fn write_free(&self) {
        let free = (ROOM - self.fast.load(Ordering::Relaxed)) * PAGE / 1024;
        let mut text = [0; 96];
        let mut rest = &mut text[..];
        write!(rest, "Node 0 MemTotal:  985624 kB\nNode 0 MemFree:  {free} kB\n").unwrap();
        let left = rest.len();
        fs::write(&self.meminfo, &text[..text.len() - left]).unwrap();
    }
}

impl World for Fast {
    type Error = Infallible;

    fn topology(&self) -> Topology {
        self.world.topology()
    }

    fn capabilities(&self) -> Capabilities {
        self.world.capabilities()
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn observe(&mut self, out: &mut Observation) -> std::result::Result<(), Infallible> {
        self.world.observe(out)
    }

    fn migrate(
        &mut self,
        plan: &MigrationPlan,
        out: &mut Vec<MoveOutcome>,
    ) -> std::result::Result<(), Infallible> {
        self.world.migrate(plan, out)?;
        self.moved += out.iter().filter(|outcome| outcome.result.is_ok()).count();
        self.write_free();
        Ok(())
    }

    fn wait_until(&mut self, deadline: Option<Timestamp>) -> std::result::Result<bool, Infallible> {
        self.now = deadline.unwrap_or(self.now + Duration::from_millis(500)).max(self.now);
        // The monitor thread needs time: a world that never waits gets no reports.
        std::thread::sleep(Duration::from_micros(200));
        Ok(true)
    }
}

const ZONEINFO: &str = "\
Node 0, zone   Normal
  pages free     9000
        min      1000
        low      1250
        high     1500
  pagesets
    cpu: 0
              count:    63
Node 1, zone  Movable
  pages free     9000
        min      1000
        low      1250
        high     1500
";

fn put(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A process in a control group of its own.
fn tenant(roots: &Roots, pid: i32) {
    let directory = roots.proc.join(pid.to_string());
    let stat = format!("{pid} (x) S 1 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 0");
    put(&directory.join("stat"), stat);
    put(&directory.join("mountinfo"), "");
    put(&directory.join("maps"), format!("1000-{:x} rw-p 00000000 00:00 0\n", (PAGES + 1) * PAGE));
    let present = |page: u64| if page == 0 { 0 } else { 1u64 << 63 };
    let pagemap: Vec<u8> = (0..=PAGES).flat_map(|page| present(page).to_ne_bytes()).collect();
    put(&directory.join("pagemap"), pagemap);
    let group = roots.cgroup.join(format!("shop.slice/t{pid}"));
    put(&group.join("cgroup.procs"), format!("{pid}\n"));
    put(&group.join("cpu.stat"), "usage_usec 2500000\n");
    put(&group.join("cpu.max"), "max 100000\n");
    put(&group.join("cpuset.cpus.effective"), "0-1\n");
    let bytes = PAGES * PAGE;
    put(&group.join("memory.numa_stat"), format!("active_anon N0=0 N1={bytes}\n"));
}

/// Two nodes. The fast one has space for a quarter of the tenants' memory.
fn machine(root: &Path) -> Roots {
    let roots = Roots::under(root);
    let nodes = roots.sys.join("devices/system/node");
    for list in ["online", "has_memory"] {
        put(&nodes.join(list), "0-1\n");
    }
    put(&nodes.join("has_cpu"), "0\n");
    for (node, free) in [(0, ROOM * PAGE / 1024), (1, 900_000)] {
        let directory = nodes.join(format!("node{node}"));
        let meminfo =
            format!("Node {node} MemTotal:  985624 kB\nNode {node} MemFree:  {free} kB\n");
        put(&directory.join("meminfo"), meminfo);
        put(&directory.join("distance"), if node == 0 { "10 20\n" } else { "20 10\n" });
        let tier =
            roots.sys.join(format!("devices/virtual/memory_tiering/memory_tier{}", 4 + node));
        put(&tier.join("nodelist"), format!("{node}\n"));
    }
    put(&roots.sys.join("devices/system/cpu/online"), "0-1\n");
    put(&roots.proc.join("zoneinfo"), ZONEINFO);
    put(&roots.cgroup.join("cgroup.controllers"), "memory\n");
    (1..=TENANTS).for_each(|pid| tenant(&roots, pid));
    roots
}

fn world(roots: Roots) -> Fast {
    let host = LinuxHost::discover(&roots, None).unwrap();
    let meminfo = roots.sys.join("devices/system/node/node0/meminfo");
    let fast = Arc::new(AtomicU64::new(0));
    let settings = WorldConfig {
        roots,
        block: Bytes(BLOCK),
        interval: Duration::ZERO,
        limits: Limits::default(),
        dry_run: false,
        cpu: (f64::MAX, f64::MAX),
    };
    let nodes = vec![[1; PAGES as usize + 1]; TENANTS as usize];
    let (_, wake) = bounded(1);
    let mut world =
        LiveWorld::with_kernel(settings, host, wake, Kernel { nodes, fast: fast.clone() });
    // Half of them by name, half by a glob.
    let selector = |pid| match pid % 2 {
        0 => format!("cgroup:shop.slice/t{pid}"),
        _ => format!("cgroup:shop.sli?e/t{pid}"),
    };
    let tenants = (1..=TENANTS).map(|pid| (format!("t{pid}"), selector(pid).parse().unwrap()));
    world.set_tenants(tenants.collect(), true);
    world.monitor_with(Box::new(Eye::default())).unwrap();
    Fast { world, now: Timestamp::ZERO, moved: 0, fast, meminfo }
}

fn engine(world: &Fast, recipe: &str) -> Engine {
    let recipe = Recipe::named(recipe).unwrap();
    let config = EngineConfig {
        tenants: (1..=TENANTS).map(|pid| TenantSpec::new(format!("t{pid}"))).collect(),
        ..EngineConfig::new(recipe)
    };
    Engine::new(&config, world.topology(), &world.capabilities(), 1).unwrap()
}

/// The min allocations of a window of rounds, and the pages moved in it. A buffer that gets its
/// largest plan late grows once more, so one window may have some.
fn allocations(recipe: &str) -> (u64, usize) {
    let tree = tempfile::tempdir().unwrap();
    let mut world = world(machine(tree.path()));
    let mut engine = engine(&world, recipe);
    let mut driver = Driver::default();
    driver.start(&engine, &mut world).unwrap();
    let mut rounds = |world: &mut Fast, count| {
        let before = (dhat::HeapStats::get().total_blocks, world.moved);
        for _ in 0..count {
            driver.round(&mut engine, world).unwrap();
            world.world.take_events();
        }
        (dhat::HeapStats::get().total_blocks - before.0, world.moved - before.1)
    };
    rounds(&mut world, GROWING);
    let windows = (0..WINDOWS).map(|_| rounds(&mut world, MEASURED));
    windows.filter(|&(_, moved)| moved > 0).min().unwrap_or_default()
}

#[test]
fn steady_state_allocates_nothing() {
    let _counting = dhat::Profiler::builder().testing().build();
    for recipe in ["multi-clock", "equilibria-multi-clock", "tierwise"] {
        let (allocated, moved) = allocations(recipe);
        assert!(moved > 0, "{recipe} moved nothing: nothing was measured");
        assert_eq!(
            allocated, 0,
            "{recipe}: allocations in {MEASURED} rounds, {moved} blocks moved"
        );
    }
}
