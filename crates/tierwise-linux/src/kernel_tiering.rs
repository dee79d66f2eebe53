//! The kernel's own tiering, as far as the daemon steers it (`tierwise_core::steer`): the settings
//! that it takes, the counters that it reads, and the cost of a copy on this machine.
//!
//! The kernel scans a thread's memory in chunks. It lengthens the time between two chunks as long
//! as promoted pages are accessed where they now are (`update_task_scan_period`), up to
//! `scan_period_max_ms`: a minute by default, in which a workload can change its pages. The daemon
//! sets the maximum to the minimum. The kernel itself keeps the time of scans below a thirty-second
//! part of each thread's CPU time (`task_numa_work`).

use std::path::Path;
use std::time::Duration;

use bstr::ByteSlice;
use tierwise_core::steer::Course;
use tierwise_core::units::{Bytes, Pages};

use crate::bytes::{parsed, shown};
use crate::error::{LinuxError, Result};
use crate::file;
use crate::migrate::page_cache::mglru::{self, Generation};
use crate::monitor::thread_cpu;
use crate::process::Reader;
use crate::process::resident::PAGE_SIZE;
use crate::process::syscall::{MPOL_MF_MOVE, move_pages};
use crate::roots::Roots;
use crate::settings::{Knob, Report, Settings};

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
/// A setting is not there, or the kernel has no generations of pages.
pub fn probe(roots: &Roots) -> Result<()> {
    mglru::probe(roots)?;
    KNOBS.iter().try_for_each(|knob| knob.read(roots).map(drop))
}

/// Takes the settings and starts the kernel's tiering. The kernel's balancing between nodes
/// (`kernel.numa_balancing` 1) stays as it is.
///
/// # Errors
/// A setting is not there or is refused.
pub fn start(settings: &mut Settings, roots: &Roots, course: &Course, rate: Bytes) -> Result<()> {
    let mode: u64 = Knob::NumaBalancing.read(roots)?.parse().unwrap_or_default();
    settings.take(Knob::DemotionEnabled, "1")?;
    follow(settings, course, rate)?;
    settings.take(Knob::NumaBalancing, &(mode | MEMORY_TIERING).to_string())
}

/// Changes the settings to a course; `rate` is the most that may be promoted per second.
///
/// # Errors
/// A setting is not there or is refused.
pub fn follow(settings: &mut Settings, course: &Course, rate: Bytes) -> Result<()> {
    let most = (rate.0 >> 20).clamp(1, NO_LIMIT);
    // The kernel counts whole MiB per second, and takes 0 for no promotion at all.
    let limit =
        course.rate.map_or(NO_LIMIT, |pages| (pages.0.saturating_mul(PAGE_SIZE) >> 20).max(1));
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

/// Restores the settings that steering took.
///
/// # Errors
/// A setting cannot be read or written.
pub fn stop(settings: &mut Settings) -> Result<Report> {
    settings.restore_those(|knob| KNOBS.contains(&knob))
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

/// The kernel's counters, in the order of [`Counters`].
const COUNTERS: [&[u8]; 5] = [
    b"pgpromote_success",
    b"pgpromote_candidate",
    DEMOTED,
    b"numa_hint_faults",
    b"numa_pte_updates",
];

/// The start of the names of counters of demoted pages, by the part of reclaim.
const DEMOTED: &[u8] = b"pgdemote_";

impl Counters {
    /// Reads them.
    ///
    /// # Errors
    /// The file cannot be read, or as [`Counters::parse`].
    pub fn read(roots: &Roots) -> Result<Self> {
        let path = roots.proc.join("vmstat");
        Self::parse(&path, &file::bytes(&path)?)
    }

    /// Reads the text of the file. Lines of other counters may hold anything.
    ///
    /// # Errors
    /// A counter is missing or no number: taken as 0, it would be counted anew since the machine's
    /// start when it is back.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self> {
        let problem = |line, found| LinuxError::Format {
            path: path.to_owned(),
            line,
            found,
            expected: "the counters of a kernel that promotes and demotes, each with a number",
        };
        let mut counts = [None; COUNTERS.len()];
        for (index, line) in text.lines().enumerate() {
            let (key, value) = line.split_once_str(b" ").unwrap_or((line, b""));
            let is_of = |name: &&[u8]| *name == key || *name == DEMOTED && key.starts_with(DEMOTED);
            let Some(counter) = COUNTERS.iter().position(is_of) else { continue };
            let value: u64 = parsed(value.trim_ascii())
                .ok_or_else(|| problem(Some(index + 1), format!("{:?}", shown(line))))?;
            let count = counts[counter].get_or_insert(0u64);
            *count = count.saturating_add(value);
        }
        let count =
            |i: usize| counts[i].ok_or_else(|| problem(None, format!("no {}", shown(COUNTERS[i]))));
        Ok(Self {
            promoted: count(0)?,
            candidates: count(1)?,
            demoted: count(2)?,
            hint_faults: count(3)?,
            poisoned: count(4)?,
        })
    }
}

/// The pages of some nodes that the kernel can demote: those of MGLRU's generations, which leave
/// out locked memory and the kernel's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demotable {
    /// Base pages.
    pub pages: Pages,
    /// The time for which the pages that the kernel demotes next were idle at least: those of each
    /// control group's oldest generation that has pages, in the mean over these pages. `None` if no
    /// generation is older than another.
    pub idle: Option<Duration>,
}

impl Demotable {
    /// Reads the generations.
    ///
    /// # Errors
    /// There are none, or too many to read in time: a part of them would pass for a smaller tier.
    pub fn read(roots: &Roots, nodes: &[u32], reader: &mut Reader) -> Result<Self> {
        let mut all = Vec::new();
        match mglru::generations_of(roots, |_| true, reader, &mut all)? {
            Some(cut @ LinuxError::Missing { .. }) => return Err(cut),
            Some(damage) => tracing::debug!("generations: {damage}"),
            None => {}
        }
        all.retain(|generation| nodes.contains(&generation.node));
        Ok(Self::of(&all))
    }

    /// Adds up generations, those of each control group and node one after the other.
    pub(crate) fn of(generations: &[Generation]) -> Self {
        let pages = generations.iter().map(Generation::pages).fold(0, u64::saturating_add);
        Self { pages: Pages(pages), idle: mean_idle(generations) }
    }
}

fn mean_idle(generations: &[Generation]) -> Option<Duration> {
    let (mut weight, mut seconds) = (0.0, 0.0);
    for group in generations.chunk_by(|a, b| (a.memcg, a.node) == (b.memcg, b.node)) {
        // A page was not accessed since the next generation was made.
        let oldest = group.windows(2).find(|pair| pair[0].pages() > 0);
        if let Some([oldest, next]) = oldest {
            weight += oldest.pages() as f64;
            seconds += oldest.pages() as f64 * next.age.as_secs_f64();
        }
    }
    (weight > 0.0).then(|| Duration::from_secs_f64(seconds / weight))
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

    use proptest::prelude::*;

    use super::*;
    use crate::migrate::page_cache::groups::Groups;
    use crate::migrate::unmanaged::RoomMaker;
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
    fn missing_counters_are_errors_others_not() {
        let parse = |text: &[u8]| Counters::parse(Path::new("vmstat"), text);
        let whole = b"nr_ev\xffil -1\n\nodd\npgpromote_success 18446744073709551615\n\
                      pgpromote_candidate 0\npgdemote_kswapd 18446744073709551615\n\
                      pgdemote_direct 4\nnuma_hint_faults 6\nnuma_pte_updates 7";
        let counters = parse(whole).unwrap();
        assert_eq!((counters.promoted, counters.demoted), (u64::MAX, u64::MAX));
        for cut in 1..whole.len() - 1 {
            // Cut within the last number, the file is whole as far as anyone can tell.
            assert!(parse(&whole[..cut]).is_err(), "{cut}");
        }
        let said = parse(b"pgdemote_kswapd -3\n").unwrap_err().to_string();
        assert!(said.starts_with("vmstat:1: found \"pgdemote_kswapd -3\"; expected"), "{said}");
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
        // The machine of a test may have one node: then node 1023 certainly is none of its.
        assert!(copy_cost(0, 1023).is_err());
    }

    /// Any bytes, mostly those of which the files are made, or no file.
    fn content() -> impl Strategy<Value = Option<Vec<u8>>> {
        let part = prop::sample::select(vec![
            "pgpromote_success ",
            "pgdemote_kswapd ",
            "memcg ",
            " /ev\u{fffd}il ",
            "node 0\n",
            "18446744073709551615 ",
            "-1 ",
            "7 ",
            "\n",
        ]);
        let parts = prop::collection::vec(part, 0..40).prop_map(|p| p.concat().into_bytes());
        prop::option::of(prop_oneof![parts, prop::collection::vec(any::<u8>(), 0..99)])
    }

    proptest! {
        // Each case copies a machine.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn odd_files_leave_every_setting_restored(
            odd in prop::collection::vec((0..KNOBS.len() + 2, content()), 0..5),
            rate in any::<u64>(),
        ) {
            let (tree, roots) = steerable();
            for (index, content) in odd {
                let path = match index.checked_sub(2) {
                    Some(knob) => KNOBS[knob].path(&roots),
                    None if index == 0 => roots.proc.join("vmstat"),
                    None => roots.sys.join("kernel/debug/lru_gen"),
                };
                let _ = fs::remove_file(&path);
                content.iter().for_each(|bytes| fs::write(&path, bytes).unwrap());
            }
            let shown = || KNOBS.map(|knob| knob.read(&roots).ok());
            let before = shown();
            let (mut settings, _) = Settings::open(&roots, &tree.path().join("s.json")).unwrap();
            let _ = (Counters::read(&roots), Demotable::read(&roots, &[0], &mut Reader::default()));
            let mut maker = RoomMaker::new(Duration::MAX);
            let most = Bytes(rate);
            let _ = maker.make_room(&roots, &Groups::default(), &[0], Duration::ZERO, most);
            let started = start(&mut settings, &roots, &course(Some(Pages(rate))), most);
            prop_assert_eq!(started.is_ok(), before.iter().all(Option::is_some));
            prop_assert!(stop(&mut settings).is_ok());
            prop_assert_eq!(shown(), before);
        }
    }
}
