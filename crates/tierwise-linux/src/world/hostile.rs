//! Hostile tenants with arbitrary names and file contents, next to healthy tenants, which they must
//! not affect.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_channel::bounded;
use proptest::prelude::*;
use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::observe::Observation;
use tierwise_core::recipe::Recipe;
use tierwise_core::share::Share;
use tierwise_core::tenant::{Limit, TenantSpec};
use tierwise_core::units::{Bytes, Pages, TierId};

use super::tests::Pretender;
use super::*;
use crate::directories::deep;
use crate::file::injected;
use crate::migrate::Limits;
use crate::topology::fixture;

const PAGE: u64 = 4096;
const BLOCK: u64 = 16 * PAGE;
/// Blocks of each healthy process.
const BLOCKS: u64 = 8;

/// Healthy tenants first, then hostile ones; the guest is found by its name.
const TENANTS: [&str; 7] = [
    "cgroup:redis-server.service",
    "pids:201",
    "qemu:db-1",
    "cgroup:evil.slice",
    "cgroup:evil.slice/**/x*",
    "pids:900,901,902",
    "qemu:evil",
];
const HEALTHY: usize = 3;

/// Every file that is read of a process or of a group.
const OF_PROCESS: [&str; 7] =
    ["stat", "maps", "mountinfo", "numa_maps", "status", "cmdline", "pagemap"];
const OF_GROUP: [&str; 6] = [
    "cgroup.procs",
    "memory.numa_stat",
    "cpu.stat",
    "cpu.max",
    "cpuset.cpus.effective",
    "memory.pressure",
];

/// Rounds per run: the machine fails in the third, and hostile processes exit before the last.
const ROUNDS: usize = 5;

/// Content in place of an expected file.
#[derive(Debug, Clone)]
enum Thing {
    Bytes(Vec<u8>),
    /// An ordinary content, cut, with one byte changed.
    Damaged(usize, usize, u8),
    Zeros(u64),
    Directory,
    Dangling,
    Loop,
    Absent,
}

/// A process, and a group below the hostile one.
#[derive(Debug, Clone)]
struct Hostile {
    pid: i32,
    group: Vec<u8>,
    things: Vec<Thing>,
}

fn thing() -> impl Strategy<Value = Thing> {
    prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Thing::Bytes),
        6 => (0usize..200, 0usize..200, any::<u8>())
            .prop_map(|(cut, at, byte)| Thing::Damaged(cut, at, byte)),
        1 => prop::sample::select(vec![0, 100_000, 20 << 20]).prop_map(Thing::Zeros),
        1 => Just(Thing::Directory),
        1 => Just(Thing::Dangling),
        1 => Just(Thing::Loop),
        1 => Just(Thing::Absent),
    ]
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let name = prop::collection::vec(any::<u8>(), 1..60).prop_map(|mut name| {
        name.iter_mut().filter(|byte| matches!(byte, 0 | b'/')).for_each(|byte| *byte = 0xff);
        name.insert(0, b'x');
        name
    });
    let things = prop::collection::vec(thing(), OF_PROCESS.len() + OF_GROUP.len());
    (900i32..905, name, things).prop_map(|(pid, group, things)| Hostile { pid, group, things })
}

/// Content of a file of an ordinary process or group without memory.
fn ordinary(pid: i32, name: &str) -> Vec<u8> {
    match name {
        "stat" => format!("{pid} (ev\u{fffd}il) S 1 0 0 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 9 0 0 0"),
        "maps" => "10000000-10100000 rw-p 00000000 00:00 0 /evil\u{fffd}\n".into(),
        "mountinfo" => "24 30 0:22 / /dev/shm rw shared:4 - tmpfs tmpfs rw\n".into(),
        "numa_maps" => "10000000 default file=/evil\u{fffd} N0=0 kernelpagesize_kB=4\n".into(),
        "status" => "Name:\tev\u{fffd}il\nCpus_allowed_list:\t0-1\n".into(),
        "cmdline" => "qemu-system-x86_64\0-name\0evil\u{fffd}\0".into(),
        "cgroup.procs" => format!("{pid}\n"),
        "memory.numa_stat" => "active_anon N0=0 N1=0\n".into(),
        "cpu.stat" => "usage_usec 100\n".into(),
        "cpu.max" => "max 100000\n".into(),
        "cpuset.cpus.effective" => "0-1\n".into(),
        "memory.pressure" => "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n".into(),
        _ => String::new(),
    }
    // The replacement character becomes a byte that is not valid UTF-8.
    .into_bytes()
    .into_iter()
    .map(|byte| if byte > 0x7f { 0xff } else { byte })
    .collect()
}

fn place(path: &Path, thing: &Thing, pid: i32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Two hostile processes may have the same pid.
    if path.symlink_metadata().is_ok() {
        return;
    }
    let name = path.file_name().unwrap().to_str().unwrap();
    match thing {
        Thing::Bytes(bytes) => fs::write(path, bytes).unwrap(),
        Thing::Damaged(cut, at, byte) => {
            let mut bytes = ordinary(pid, name);
            if let Some(there) = bytes.get_mut(*at) {
                *there = *byte;
            }
            bytes.truncate(*cut);
            fs::write(path, bytes).unwrap();
        }
        Thing::Zeros(length) => fs::File::create(path).unwrap().set_len(*length).unwrap(),
        Thing::Directory => fs::create_dir(path).unwrap(),
        Thing::Dangling => symlink("/nowhere/at/all", path).unwrap(),
        Thing::Loop => symlink(path, path).unwrap(),
        Thing::Absent => {}
    }
}

impl Hostile {
    fn settle(&self, roots: &Roots) {
        let group = roots.cgroup.join("evil.slice").join(OsStr::from_bytes(&self.group));
        let process = roots.proc.join(self.pid.to_string());
        let of_process = OF_PROCESS.iter().map(|name| process.join(name));
        let of_group = OF_GROUP.iter().map(|name| group.join(name));
        for (path, thing) in of_process.chain(of_group).zip(&self.things) {
            // No page of a hostile process is present: the shares of other tenants follow resident
            // memory.
            let thing = if path.ends_with("pagemap") { &Thing::Zeros(1 << 20) } else { thing };
            place(&path, thing, self.pid);
        }
    }

    fn leave(&self, roots: &Roots) {
        // Another hostile process may have had the same pid.
        let _ = fs::remove_dir_all(roots.proc.join(self.pid.to_string()));
    }
}

/// A healthy process with [`BLOCKS`] blocks, all present.
fn healthy(roots: &Roots, pid: i32, first: u64) {
    let directory = roots.proc.join(pid.to_string());
    let (start, end) = (first * BLOCK, (first + BLOCKS) * BLOCK);
    let maps = format!(
        "{start:x}-{:x} rw-p 00000000 00:00 0\n{:x}-{end:x} rw-p 00000000 00:00 0\n",
        start + BLOCK,
        start + BLOCK
    );
    fs::write(directory.join("maps"), maps).unwrap();
    fs::write(directory.join("mountinfo"), "").unwrap();
    let pages = BLOCKS * BLOCK / PAGE;
    let numa_maps = format!("{start:x} default anon={pages} N0={pages} kernelpagesize_kB=4\n");
    fs::write(directory.join("numa_maps"), numa_maps).unwrap();
    let present = |page: u64| if page * PAGE < start { 0 } else { 1u64 << 63 };
    let entries: Vec<u8> = (0..end / PAGE).flat_map(|page| present(page).to_ne_bytes()).collect();
    fs::write(directory.join("pagemap"), entries).unwrap();
}

fn config(roots: Roots) -> WorldConfig {
    WorldConfig {
        roots,
        block: Bytes(BLOCK),
        interval: Duration::ZERO,
        limits: Limits::default(),
        dry_run: false,
        cpu: (f64::MAX, f64::MAX),
    }
}

/// State of the healthy tenants after a round.
#[derive(Debug, Clone, PartialEq, Default)]
struct Standing {
    /// Tenant, process, number and tier of each block.
    blocks: Vec<(u16, i32, u64, u8)>,
    usage: Vec<Vec<Pages>>,
    /// By tenant: the last decided share of the fast tier.
    shares: Vec<Option<Share>>,
}

struct Run {
    world: LiveWorld<Pretender>,
    engine: Engine,
    shares: Vec<Option<Share>>,
    report: Observation,
}

impl Run {
    fn new(roots: &Roots) -> Self {
        let host = LinuxHost::discover(roots, None).unwrap();
        let (_, wake) = bounded(1);
        let mut world =
            LiveWorld::with_kernel(config(roots.clone()), host, wake, Pretender::default());
        let tenants = TENANTS.map(|text| (text.to_owned(), text.parse().unwrap()));
        world.set_tenants(tenants.into(), true);
        let spec = |(i, name): (usize, &&str)| {
            let floor = (i < HEALTHY).then_some(Limit::Bytes(Bytes(1 << 18)));
            let floors = vec![floor];
            TenantSpec { floors, ..TenantSpec::new(*name) }
        };
        let config = EngineConfig {
            tenants: TENANTS.iter().enumerate().map(spec).collect(),
            ..EngineConfig::new(Recipe::named("equilibria-multi-clock").unwrap())
        };
        let engine = Engine::new(&config, world.topology(), &capabilities(true, false), 1).unwrap();
        Self { world, engine, shares: vec![None; HEALTHY], report: Observation::default() }
    }

    /// Runs the driver's round at a time that the test sets.
    fn round(&mut self, number: usize) -> Standing {
        let now = Timestamp::ZERO + Duration::from_secs(number as u64);
        self.world.next_survey = Timestamp::ZERO;
        let Ok(()) = self.world.observe(&mut self.report);
        self.engine.handle_observation(now, &self.report);
        let mut outcomes = Vec::new();
        while let Some(plan) = self.engine.poll_plan(now) {
            outcomes.clear();
            let Ok(()) = self.world.migrate(plan, &mut outcomes);
            for decision in self.engine.decisions() {
                if let Some(share) = self.shares.get_mut(decision.tenant.index())
                    && decision.tier == TierId::FASTEST
                {
                    *share = Some(decision.share);
                }
            }
            self.engine.handle_outcomes(now, &outcomes);
        }
        self.standing()
    }

    fn standing(&self) -> Standing {
        let mut blocks = Vec::new();
        for process in self.world.blocks.processes() {
            for &(number, page) in self.world.blocks.within(process, 0, u64::MAX) {
                let block = self.world.blocks.get(page).unwrap();
                if block.tenant.index() < HEALTHY {
                    blocks.push((block.tenant.0, process.pid, number, block.tier.0));
                }
            }
        }
        let usage = (0..HEALTHY as u16).map(|t| self.world.usage(TenantId(t)).to_vec()).collect();
        Standing { blocks, usage, shares: self.shares.clone() }
    }
}

/// A machine with healthy tenants and a group for the hostile ones.
fn machine() -> (tempfile::TempDir, Roots) {
    let (dir, roots) = fixture::copy("hmat-two-tier");
    for (pid, first) in [(101, 16), (201, 32), (301, 48)] {
        healthy(&roots, pid, first);
    }
    for name in OF_GROUP {
        let path = roots.cgroup.join("evil.slice").join(name);
        fixture::put(&path, std::str::from_utf8(&ordinary(0, name)).unwrap());
    }
    (dir, roots)
}

/// Runs a machine on which files return errors in the third round, and which some processes leave
/// before the last.
fn run(roots: &Roots, fail: Option<(bool, i32)>, leave: &[Hostile]) -> Vec<Standing> {
    let mut run = Run::new(roots);
    let round = |number: usize| {
        if let (2, Some((hostile, number))) = (number, fail) {
            injected::set(move |path| (!hostile || is_hostile(path)).then_some(number));
        }
        if number == ROUNDS - 1 {
            leave.iter().for_each(|hostile| hostile.leave(roots));
        }
        let standing = run.round(number);
        injected::end();
        standing
    };
    (0..ROUNDS).map(round).collect()
}

fn is_hostile(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    [&b"evil.slice"[..], b"/proc/90"].iter().any(|name| bstr::ByteSlice::contains_str(path, name))
}

/// States without hostile tenants.
fn alone() -> &'static [Standing] {
    static ALONE: OnceLock<Vec<Standing>> = OnceLock::new();
    ALONE.get_or_init(|| {
        let (_dir, roots) = machine();
        run(&roots, None, &[])
    })
}

#[test]
fn healthy_tenants_have_blocks_usage_and_shares() {
    for standing in &alone()[1..] {
        assert_eq!(standing.blocks.len() as u64, HEALTHY as u64 * BLOCKS, "{standing:?}");
        assert!(standing.usage.iter().all(|usage| usage.iter().any(|pages| pages.0 > 0)));
        assert!(standing.shares.iter().all(Option::is_some), "{standing:?}");
    }
}

proptest! {
    // Each case copies a machine and makes dozens of files.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn neighbours_cost_healthy_tenants_nothing(
        hostile in prop::collection::vec(hostile(), 0..6),
        sockets in prop::collection::vec(any::<u8>(), 0..200),
        depth in prop::sample::select(vec![0, 3, 40]),
        fail in prop::option::of((any::<bool>(), prop::sample::select(vec![
            libc::EIO, libc::EACCES, libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ESRCH,
            libc::ELOOP, libc::ENAMETOOLONG,
        ]))),
    ) {
        let (_dir, roots) = machine();
        hostile.iter().for_each(|one| one.settle(&roots));
        let evil = roots.cgroup.join("evil.slice");
        deep::make(&evil, depth);
        let path = roots.proc.join("net/unix");
        let all = [&sockets[..], b"\n", &fs::read(&path).unwrap()].concat();
        fs::write(&path, all).unwrap();
        // An error of every file, other than one of the machine, would be an error of healthy
        // tenants, too.
        let of_machine = |number| [libc::EMFILE, libc::ENFILE, libc::ENOMEM].contains(&number);
        let fail = fail.map(|(only, number)| (only || !of_machine(number), number));
        let stands = run(&roots, fail, &hostile);
        deep::remove(&evil, depth);
        match fail {
            Some((_, number)) if of_machine(number) => {
                // While the machine cannot be read, nothing is moved and no decision changes.
                let place = |s: &Standing| {
                    s.blocks.iter().map(|b| (b.0, b.1, b.2)).collect::<Vec<_>>()
                };
                for (stands, alone) in stands.iter().zip(alone()) {
                    prop_assert_eq!(place(stands), place(alone));
                }
            }
            _ => prop_assert_eq!(&stands[..], alone()),
        }
    }
}
