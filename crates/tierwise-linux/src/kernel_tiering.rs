//! The kernel's own tiering, as far as the daemon steers it (`tierwise_core::steer`): the settings
//! that it takes, the counters that it reads, and the cost of a copy on this machine.
//!
//! The kernel scans a thread's memory in chunks. It lengthens the time between two chunks as long
//! as promoted pages are accessed where they now are (`update_task_scan_period`), up to
//! `scan_period_max_ms`, and a thread takes a new period only after a scan of all of its memory. So
//! the period stays the same here, and scanning is switched off and on by `kernel.numa_balancing`.
//! A page that was poisoned before and is accessed while scanning is off stays where it is: what
//! the kernel holds of it is no CPU's number (`should_numa_migrate_memory`, `cpupid_valid`).

use std::path::Path;
use std::time::Duration;

use tierwise_core::steer::{Course, IdlePages, PERIOD};
use tierwise_core::units::{Bytes, Pages};

use crate::cgroup::stat::flat;
use crate::error::{LinuxError, Result};
use crate::file;
use crate::migrate::page_cache::mglru::{self, Generation, none_if_gone};
use crate::migrate::unmanaged::TenantCgroups;
use crate::monitor::thread_cpu;
use crate::process::Reader;
use crate::process::resident::PAGE_SIZE;
use crate::process::syscall::{MPOL_MF_MOVE, move_pages};
use crate::roots::Roots;
use crate::settings::{Knob, Settings};

/// `NUMA_BALANCING_MEMORY_TIERING` (`include/linux/sched/sysctl.h`).
const MEMORY_TIERING: u64 = 2;

/// `numa_balancing_promote_rate_limit_MBps` without a limit: the kernel's default.
const NO_LIMIT: u64 = 65536;

/// Pages that are copied to measure a copy: 1 MiB, so that the call itself does not count.
const COPIED: usize = 256;

/// Attempts at measuring a copy. The fastest counts: an interrupt only adds time.
const ATTEMPTS: usize = 3;

/// The settings that steering takes, in the order in which they are set: the scan starts last, with
/// a period that each thread reads once.
pub const KNOBS: [Knob; 6] = [
    Knob::DemotionEnabled,
    Knob::PromoteRateLimit,
    Knob::HotThreshold,
    Knob::ScanPeriodMin,
    Knob::ScanPeriodMax,
    Knob::NumaBalancing,
];

/// Those of them that are taken only while the kernel scans.
const SCANNING: [Knob; 3] = [Knob::ScanPeriodMin, Knob::ScanPeriodMax, Knob::NumaBalancing];

/// Time between the two generations that [`age`] makes. A page that is accessed more often is in
/// use, however hot others are.
const AGE_GAP: Duration = Duration::from_millis(100);

/// Checks that this kernel can be steered.
///
/// # Errors
/// A setting is not there, or the kernel has no generations of pages.
pub fn probe(roots: &Roots) -> Result<()> {
    mglru::probe(roots)?;
    KNOBS.iter().try_for_each(|knob| knob.read(roots).map(drop))
}

/// Sets the kernel's tiering to a course; `most` is the most that may be promoted per second.
///
/// `balances` is true where the kernel's balancing between nodes (`kernel.numa_balancing` 1) has a
/// purpose: where several nodes have CPUs. It then goes on as it is. Elsewhere it is switched off,
/// because it poisons the fast pages too.
///
/// # Errors
/// A setting is not there or is refused.
pub fn follow(
    settings: &mut Settings,
    roots: &Roots,
    course: &Course,
    most: Bytes,
    balances: bool,
) -> Result<()> {
    let most = (most.0 >> 20).clamp(1, NO_LIMIT);
    // The kernel counts whole MiB per second, and takes 0 for no promotion at all.
    let limit =
        course.rate.map_or(NO_LIMIT, |pages| (pages.0.saturating_mul(PAGE_SIZE) >> 20).max(1));
    for (knob, value) in [
        (Knob::DemotionEnabled, 1),
        (Knob::PromoteRateLimit, limit.min(most)),
        (Knob::HotThreshold, milliseconds(course.threshold)),
    ] {
        settings.take(knob, &value.to_string())?;
    }
    match (course.scans, balances) {
        (true, _) => scan(settings, roots, balances),
        (false, true) => settings.restore_those(|knob| SCANNING.contains(&knob)).map(drop),
        (false, false) => settings.take(Knob::NumaBalancing, "0"),
    }
}

fn scan(settings: &mut Settings, roots: &Roots, balances: bool) -> Result<()> {
    for (knob, value) in
        [(Knob::ScanPeriodMin, milliseconds(PERIOD)), (Knob::ScanPeriodMax, milliseconds(PERIOD))]
    {
        settings.take(knob, &value.to_string())?;
    }
    let mode: u64 = match balances {
        true => Knob::NumaBalancing.read(roots)?.parse().unwrap_or_default(),
        false => 0,
    };
    settings.take(Knob::NumaBalancing, &(mode | MEMORY_TIERING).to_string())
}

/// Restores the settings that steering took.
///
/// # Errors
/// A setting cannot be read or written.
pub fn stop(settings: &mut Settings) -> Result<()> {
    settings.restore_those(|knob| KNOBS.contains(&knob)).map(drop)
}

fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

/// Counters of `/proc/vmstat` since the machine started, in base pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VmstatCounters {
    /// Pages that were promoted at hint faults.
    pub promoted: u64,
    /// Pages whose hint fault was within the hot threshold.
    pub candidates: u64,
    /// Pages that were demoted, by kswapd or another part of reclaim.
    pub demoted: u64,
    /// Hint faults.
    pub hint_faults: u64,
    /// Page table entries that were poisoned.
    pub poisoned: u64,
}

impl VmstatCounters {
    /// Reads them.
    ///
    /// # Errors
    /// The file cannot be read, or a line is no key with a number.
    pub fn read(roots: &Roots) -> Result<Self> {
        let path = roots.proc.join("vmstat");
        Self::parse(&path, &file::bytes(&path)?)
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    /// A line is no key with a number.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self> {
        let mut counters = Self::default();
        flat(path, text, |key, value| match key {
            b"pgpromote_success" => counters.promoted = value,
            b"pgpromote_candidate" => counters.candidates = value,
            b"numa_hint_faults" => counters.hint_faults = value,
            b"numa_pte_updates" => counters.poisoned = value,
            key if key.starts_with(b"pgdemote_") => {
                counters.demoted = counters.demoted.saturating_add(value);
            }
            _ => {}
        })?;
        Ok(counters)
    }
}

/// The pages of some nodes that the kernel can demote, by the time for which they are idle: those
/// of MGLRU's generations, which leave out locked memory and the kernel's own.
///
/// # Errors
/// There are no generations.
pub fn idle_pages(roots: &Roots, nodes: &[u32], reader: &mut Reader) -> Result<Vec<IdlePages>> {
    let mut all = Vec::new();
    if let Some(damage) = mglru::generations_of(roots, |_| true, reader, &mut all)? {
        tracing::debug!("generations: {damage}");
    }
    all.retain(|generation| nodes.contains(&generation.node));
    Ok(all.chunk_by(is_same_list).flat_map(idle_in).collect())
}

fn is_same_list(a: &Generation, b: &Generation) -> bool {
    (a.memcg, a.node) == (b.memcg, b.node)
}

/// The pages of one control group on one node. What is accessed after the youngest generation was
/// made is not known yet, so idle times are those of that moment: a page was not accessed between
/// the making of the next generation and that of the youngest.
fn idle_in(generations: &[Generation]) -> impl Iterator<Item = IdlePages> + '_ {
    let youngest = generations.last().map_or(Duration::ZERO, |generation| generation.age);
    generations.iter().enumerate().map(move |(i, generation)| {
        let next = generations.get(i + 1).map_or(Duration::ZERO, |next| next.age);
        IdlePages {
            idle: next.saturating_sub(youngest),
            pages: Pages(generation.anon.saturating_add(generation.file)),
        }
    })
}

/// Makes two generations of the tenants' control groups on some nodes, so that [`idle_pages`] shows
/// which pages were not accessed in between. Returns the CPU time that it took.
///
/// # Errors
/// There are no generations, or the kernel refuses to make some.
pub fn age(
    roots: &Roots,
    managed: &TenantCgroups,
    nodes: &[u32],
    reader: &mut Reader,
) -> Result<Duration> {
    let first = age_once(roots, managed, nodes, reader)?;
    std::thread::sleep(AGE_GAP);
    Ok(first + age_once(roots, managed, nodes, reader)?)
}

fn age_once(
    roots: &Roots,
    managed: &TenantCgroups,
    nodes: &[u32],
    reader: &mut Reader,
) -> Result<Duration> {
    let before = thread_cpu();
    let mut all = Vec::new();
    mglru::generations_of(roots, |name| managed.holds(name), reader, &mut all)?;
    all.retain(|generation| nodes.contains(&generation.node));
    for list in all.chunk_by(is_same_list) {
        if let Some(youngest) = list.last() {
            mglru::age(roots, youngest).or_else(none_if_gone)?;
        }
    }
    Ok(thread_cpu().saturating_sub(before))
}

/// CPU time of migrating one base page between two nodes, measured with pages of this process.
///
/// # Errors
/// The kernel refuses to move them.
pub fn copy_cost(from: u32, to: u32) -> Result<Duration> {
    let size = PAGE_SIZE as usize;
    // Written, so that the pages are there and none is the page of zeros.
    let memory = vec![1_u8; (COPIED + 1) * size];
    let first = memory.as_ptr() as usize / size + 1;
    let addresses: Vec<usize> = (first..first + COPIED).map(|page| page * size).collect();
    let mut best: Option<Duration> = None;
    for _ in 0..ATTEMPTS {
        for node in [to, from] {
            let nodes = vec![node as i32; COPIED];
            let mut status = vec![-libc::EAGAIN; COPIED];
            let before = thread_cpu();
            move_pages(0, &addresses, Some(&nodes), &mut status, MPOL_MF_MOVE)?;
            let took = thread_cpu().saturating_sub(before);
            let moved = status.iter().filter(|&&at| at == node as i32).count();
            // The first move may find the pages on the node already.
            if moved * 2 > COPIED && node == from {
                let each = took / moved as u32;
                best = Some(best.map_or(each, |best| best.min(each)));
            }
        }
    }
    drop(memory);
    best.ok_or_else(|| LinuxError::Missing {
        what: format!("pages of this process cannot be moved between nodes {from} and {to}"),
        remedy: "free memory on both nodes, and keep CAP_SYS_NICE".into(),
    })
}

/// CPU time of a minor fault of this process: of the first access to a page. A hint fault takes
/// about as long; it allocates and clears no page, and it looks the page up.
pub fn fault_cost() -> Duration {
    let size = PAGE_SIZE as usize;
    // Zeros that nothing has written: the kernel maps no page yet.
    let mut memory = vec![0_u8; COPIED * size];
    let before = thread_cpu();
    for page in memory.chunks_mut(size) {
        page[0] = 1;
    }
    let took = thread_cpu().saturating_sub(before);
    std::hint::black_box(&memory);
    took / COPIED as u32
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::topology::fixture;

    fn steerable() -> (tempfile::TempDir, Roots) {
        let (tree, roots) = fixture::copy("cxl-three-tier");
        let debug = roots.sys.join("kernel/debug/sched/numa_balancing");
        for (name, value) in [
            ("hot_threshold_ms", "1000"),
            ("scan_period_min_ms", "1000"),
            ("scan_period_max_ms", "60000"),
        ] {
            fixture::put(&debug.join(name), value);
        }
        fixture::put(&roots.sys.join("kernel/mm/lru_gen/enabled"), "0x0007\n");
        fixture::put(&roots.sys.join("kernel/debug/lru_gen"), "");
        (tree, roots)
    }

    fn course(scans: bool, rate: Option<Pages>) -> Course {
        Course { scans, threshold: Duration::from_millis(40), rate }
    }

    #[test]
    fn settings_are_taken_and_restored() {
        let (tree, roots) = steerable();
        probe(&roots).unwrap();
        let shown = || KNOBS.map(|knob| knob.read(&roots).unwrap());
        let before = shown();
        let (mut settings, _) = Settings::open(&roots, &tree.path().join("s.json")).unwrap();
        settings.take(Knob::DamonStat, "0").unwrap();
        let mut set = |scans, rate, balances| {
            follow(&mut settings, &roots, &course(scans, rate), Bytes(1 << 30), balances).unwrap();
            shown()
        };
        let scanning = ["1", "1024", "40", "100", "100", "2"];
        assert_eq!(set(true, None, false), scanning);
        assert_eq!(set(false, Some(Pages(512)), false)[1], "2");
        assert_eq!(set(false, Some(Pages(1)), false)[1], "1", "0 would end promotion");
        assert_eq!(shown()[5], "0", "no scan");
        stop(&mut settings).unwrap();
        assert_eq!(shown(), before);
        assert_eq!(Knob::DamonStat.read(&roots).unwrap(), "0", "taken for another purpose");
    }

    #[test]
    fn balancing_between_nodes_goes_on() {
        let (tree, roots) = steerable();
        let (mut settings, _) = Settings::open(&roots, &tree.path().join("s.json")).unwrap();
        let mut mode = |scans, balances| {
            follow(&mut settings, &roots, &course(scans, None), Bytes(1), balances).unwrap();
            let period = Knob::ScanPeriodMax.read(&roots).unwrap();
            (Knob::NumaBalancing.read(&roots).unwrap(), period)
        };
        fs::write(Knob::NumaBalancing.path(&roots), "1").unwrap();
        assert_eq!(mode(true, true), ("3".into(), "100".into()));
        assert_eq!(mode(false, true), ("1".into(), "60000".into()), "as it was");
        assert_eq!(mode(true, false).0, "2", "of no use on one node with CPUs");
    }

    #[test]
    fn kernel_without_debugfs_is_reported() {
        let (_tree, roots) = steerable();
        fs::remove_dir_all(roots.sys.join("kernel/debug/sched")).unwrap();
        let refused = probe(&roots).unwrap_err().to_string();
        assert!(refused.contains("hot_threshold_ms") && refused.contains("debugfs"), "{refused}");
    }

    #[test]
    fn demotions_of_all_kinds_are_added() {
        let text = b"pgpromote_success 5\npgpromote_candidate 8\npgdemote_kswapd 3\n\
                     pgdemote_direct 4\nnr_free 9\n\
                     numa_hint_faults 6\nnuma_pte_updates 7\n";
        let counters = VmstatCounters::parse(Path::new("vmstat"), text).unwrap();
        let expected =
            VmstatCounters { promoted: 5, candidates: 8, demoted: 7, hint_faults: 6, poisoned: 7 };
        assert_eq!(counters, expected);
    }

    fn idle_of(text: &str) -> Vec<(u64, u64)> {
        let (_tree, roots) = steerable();
        fixture::put(&roots.sys.join("kernel/debug/lru_gen"), text);
        let idle = idle_pages(&roots, &[0], &mut Reader::default()).unwrap();
        idle.iter().map(|class| (class.idle.as_millis() as u64, class.pages.0)).collect()
    }

    #[test]
    fn idle_time_ends_with_youngest_generation() {
        let text = "memcg 1 /\n node 0\n 1 9000 5 2\n 2 4000 7 0\n 3 900 1 1\n 4 800 3 0\n \
                    node 1\n 1 9000 90 0\nmemcg 2 /a\n node 0\n 7 50 8 0\n";
        assert_eq!(idle_of(text), [(3200, 7), (100, 7), (0, 2), (0, 3), (0, 8)]);
    }

    #[test]
    fn tenants_groups_are_aged_on_fast_nodes() {
        let (_tree, roots) = steerable();
        let file = roots.sys.join("kernel/debug/lru_gen");
        let text = "memcg 1 /\n node 0\n 1 90 5 2\nmemcg 2 /a/b\n node 0\n 7 50 8 0\n 8 9 1 1\n \
                    node 1\n 3 50 8 0\n";
        fixture::put(&file, text);
        let mut managed = TenantCgroups::default();
        managed.add_group(&roots, &roots.cgroup.join("a"));
        age_once(&roots, &managed, &[0], &mut Reader::default()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "+ 2 0 8 200");
    }

    #[test]
    fn faults_take_time() {
        assert!(fault_cost() > Duration::ZERO);
    }

    #[test]
    fn copies_need_a_second_node() {
        // The machine of a test may have one node: then node 1023 certainly is none of its.
        assert!(copy_cost(0, 1023).is_err());
    }
}
