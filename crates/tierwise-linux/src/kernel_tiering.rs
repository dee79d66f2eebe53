//! The kernel's own tiering, as far as the daemon steers it (`tierwise_core::steer`): the settings
//! that it takes over, the counters that it reads, and the cost of a copy on this machine.
//!
//! The kernel scans a thread's memory in chunks. It lengthens the time between two chunks as long
//! as promoted pages are accessed on their new node (`update_task_scan_period`), up to
//! `scan_period_max_ms`: a minute by default, in which a workload can change its pages. The daemon
//! sets the maximum to the minimum. The kernel itself keeps the time of scans below a thirty-second
//! part of each thread's CPU time (`task_numa_work`).

use std::path::Path;
use std::time::Duration;

use tierwise_core::steer::Course;
use tierwise_core::units::{Bytes, Pages};

use crate::cgroup::stat::flat;
use crate::error::{LinuxError, Result};
use crate::file;
use crate::migrate::page_cache::mglru::{self, Generation};
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

/// Pages that a measurement copies: 1 MiB, so that the call's own cost does not count.
const COPIED: usize = 256;

/// Attempts at measuring a copy. The fastest counts: an interrupt only adds time.
const ATTEMPTS: usize = 3;

/// The settings that steering takes over, in the order in which they are set: the scan starts last,
/// with a period that each thread reads once.
pub const KNOBS: [Knob; 7] = [
    Knob::DemotionEnabled,
    Knob::PromoteRateLimit,
    Knob::ScanSize,
    Knob::ScanPeriodMin,
    Knob::ScanPeriodMax,
    Knob::HotThreshold,
    Knob::NumaBalancing,
];

/// Checks that this kernel can be steered.
///
/// # Errors
/// A setting does not exist, or the kernel has no generations of pages.
pub fn probe(roots: &Roots) -> Result<()> {
    mglru::probe(roots)?;
    KNOBS.iter().try_for_each(|knob| knob.read(roots).map(drop))
}

/// Takes over the settings and starts the kernel's tiering. The kernel's balancing between nodes
/// (`kernel.numa_balancing` 1) stays as it is.
///
/// # Errors
/// A setting does not exist, or the kernel refuses it.
pub fn start(settings: &mut Settings, roots: &Roots, course: &Course, rate: Bytes) -> Result<()> {
    let mode: u64 = Knob::NumaBalancing.read(roots)?.parse().unwrap_or_default();
    settings.take(Knob::DemotionEnabled, "1")?;
    follow(settings, course, rate)?;
    settings.take(Knob::NumaBalancing, &(mode | MEMORY_TIERING).to_string())
}

/// Changes the settings to a course; `rate` limits promotion per second.
///
/// # Errors
/// A setting does not exist, or the kernel refuses it.
pub fn follow(settings: &mut Settings, course: &Course, rate: Bytes) -> Result<()> {
    let most = (rate.0 >> 20).clamp(1, NO_LIMIT);
    // The kernel counts whole MiB per second, and 0 stops promotion.
    let limit = course.rate.map_or(NO_LIMIT, |pages| ((pages.0 * PAGE_SIZE) >> 20).max(1));
    for (knob, value) in [
        (Knob::PromoteRateLimit, limit.min(most)),
        (Knob::ScanSize, (course.chunk.0 >> 20).max(1)),
        (Knob::ScanPeriodMin, milliseconds(course.period)),
        (Knob::ScanPeriodMax, milliseconds(course.period)),
        (Knob::HotThreshold, milliseconds(course.threshold)),
    ] {
        settings.take(knob, &value.to_string())?;
    }
    Ok(())
}

/// Restores the settings that steering took over.
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
pub struct Counters {
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

impl Counters {
    /// Reads the counters.
    ///
    /// # Errors
    /// The file cannot be read, or a line is no key with a number.
    pub fn read(roots: &Roots) -> Result<Self> {
        let path = roots.proc.join("vmstat");
        Self::parse(&path, &file::bytes(&path)?)
    }

    /// Parses the file's text.
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

/// The pages of some nodes that the kernel can demote: those of MGLRU's generations, which exclude
/// locked memory and the kernel's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demotable {
    /// Base pages.
    pub pages: Pages,
    /// The least time for which the pages that the kernel demotes next were idle: the mean over the
    /// pages of each control group's oldest generation that has pages. `None` if no generation is
    /// older than another.
    pub idle: Option<Duration>,
}

impl Demotable {
    /// Reads the generations.
    ///
    /// # Errors
    /// The kernel has none.
    pub fn read(roots: &Roots, nodes: &[u32], reader: &mut Reader) -> Result<Self> {
        let mut all = Vec::new();
        if let Some(damage) = mglru::generations_of(roots, |_| true, reader, &mut all)? {
            tracing::debug!("generations: {damage}");
        }
        all.retain(|generation| nodes.contains(&generation.node));
        let pages = Pages(all.iter().map(|generation| generation.anon + generation.file).sum());
        Ok(Self { pages, idle: mean_idle(&all) })
    }
}

fn mean_idle(generations: &[Generation]) -> Option<Duration> {
    let pages = |generation: &Generation| generation.anon + generation.file;
    let (mut weight, mut seconds) = (0, 0.0);
    for group in generations.chunk_by(|a, b| (a.memcg, a.node) == (b.memcg, b.node)) {
        // A page was not accessed since the next generation was made.
        let oldest = group.windows(2).find(|pair| pages(&pair[0]) > 0);
        if let Some([oldest, next]) = oldest {
            weight += pages(oldest);
            seconds += pages(oldest) as f64 * next.age.as_secs_f64();
        }
    }
    (weight > 0).then(|| Duration::from_secs_f64(seconds / weight as f64))
}

/// Measures the CPU time of migrating one base page between two nodes, with pages of this process.
///
/// # Errors
/// The kernel refuses to move them.
pub fn copy_cost(from: u32, to: u32) -> Result<Duration> {
    let size = PAGE_SIZE as usize;
    // Written, so that every page exists and none is the page of zeros.
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

/// Measures the CPU time of a minor fault of this process: of the first access to a page. A hint
/// fault takes about as long: it allocates and clears no page, but looks the page up.
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
            ("scan_size_mb", "256"),
            ("scan_period_min_ms", "1000"),
            ("scan_period_max_ms", "60000"),
        ] {
            fixture::put(&debug.join(name), value);
        }
        fixture::put(&roots.sys.join("kernel/mm/lru_gen/enabled"), "0x0007\n");
        fixture::put(&roots.sys.join("kernel/debug/lru_gen"), "");
        (tree, roots)
    }

    fn course(rate: Option<Pages>) -> Course {
        let ms = Duration::from_millis;
        Course { threshold: ms(40), period: ms(100), chunk: Bytes(32 << 20), rate }
    }

    #[test]
    fn settings_are_taken_and_restored() {
        let (tree, roots) = steerable();
        probe(&roots).unwrap();
        let shown = || KNOBS.map(|knob| knob.read(&roots).unwrap());
        let before = shown();
        let (mut settings, _) = Settings::open(&roots, &tree.path().join("s.json")).unwrap();
        settings.take(Knob::DamonStat, "0").unwrap();
        start(&mut settings, &roots, &course(None), Bytes(1 << 30)).unwrap();
        assert_eq!(shown(), ["1", "1024", "32", "100", "100", "40", "2"]);
        follow(&mut settings, &course(Some(Pages(512))), Bytes(1 << 30)).unwrap();
        assert_eq!(shown()[1], "2");
        follow(&mut settings, &course(Some(Pages(1))), Bytes(1 << 30)).unwrap();
        assert_eq!(shown()[1], "1", "0 would end promotion");
        stop(&mut settings).unwrap();
        assert_eq!(shown(), before);
        assert_eq!(Knob::DamonStat.read(&roots).unwrap(), "0", "taken for another purpose");
    }

    #[test]
    fn balancing_between_nodes_goes_on() {
        let (tree, roots) = steerable();
        fs::write(Knob::NumaBalancing.path(&roots), "1").unwrap();
        let (mut settings, _) = Settings::open(&roots, &tree.path().join("s.json")).unwrap();
        start(&mut settings, &roots, &course(None), Bytes(1)).unwrap();
        assert_eq!(Knob::NumaBalancing.read(&roots).unwrap(), "3");
    }

    #[test]
    fn kernel_without_debugfs_is_reported() {
        let (_tree, roots) = steerable();
        fs::remove_dir_all(roots.sys.join("kernel/debug/sched")).unwrap();
        let refused = probe(&roots).unwrap_err().to_string();
        assert!(refused.contains("scan_size_mb") && refused.contains("debugfs"), "{refused}");
    }

    #[test]
    fn demotions_of_all_kinds_are_added() {
        let text = b"pgpromote_success 5\npgpromote_candidate 8\npgdemote_kswapd 3\npgdemote_direct 4\nnr_free 9\n\
                     numa_hint_faults 6\nnuma_pte_updates 7\n";
        let counters = Counters::parse(Path::new("vmstat"), text).unwrap();
        let expected =
            Counters { promoted: 5, candidates: 8, demoted: 7, hint_faults: 6, poisoned: 7 };
        assert_eq!(counters, expected);
    }

    #[test]
    fn idle_time_is_that_of_oldest_pages() {
        let generation = |memcg, number, seconds, anon| Generation {
            memcg,
            node: 0,
            number,
            age: Duration::from_secs(seconds),
            anon,
            file: 0,
        };
        assert_eq!(mean_idle(&[]), None);
        assert_eq!(mean_idle(&[generation(1, 4, 9, 100)]), None, "one generation");
        let two = [
            generation(1, 4, 90, 0),
            generation(1, 5, 60, 300),
            generation(1, 6, 40, 10),
            generation(2, 1, 30, 100),
            generation(2, 2, 20, 900),
        ];
        assert_eq!(mean_idle(&two), Some(Duration::from_secs(35)));
    }

    #[test]
    fn pages_of_other_nodes_do_not_count() {
        let (_tree, roots) = steerable();
        let text = "memcg 1 /\n node 0\n 1 9000 5 2\n 2 4000 7 0\n node 1\n 1 9000 90 0\n";
        fixture::put(&roots.sys.join("kernel/debug/lru_gen"), text);
        let demotable = Demotable::read(&roots, &[0], &mut Reader::default()).unwrap();
        let idle = Some(Duration::from_secs(4));
        assert_eq!(demotable, Demotable { pages: Pages(14), idle });
    }

    #[test]
    fn faults_take_time() {
        assert!(fault_cost() > Duration::ZERO);
    }

    #[test]
    fn copies_need_a_second_node() {
        // The test's machine may have one node: it certainly has no node 1023.
        assert!(copy_cost(0, 1023).is_err());
    }
}
