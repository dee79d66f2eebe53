//! The kernel's own tiering, as far as the daemon steers it (`tierwise_core::steer`): the settings
//! that it takes, the counters that it reads, and the cost of a copy on this machine.
//!
//! The kernel scans a thread's memory in chunks. It lengthens the time between two chunks as long
//! as promoted pages are accessed where they now are (`update_task_scan_period`), up to
//! `scan_period_max_ms`, and a thread takes a new period only after a scan of all of its memory. So
//! the period stays the same here, and [`switch`] switches scanning on and off.

mod costs;
mod counters;
mod idle;
mod switch;

use tierwise_core::steer::Course;
use tierwise_core::units::Bytes;

use crate::error::Result;
use crate::migrate::page_cache::mglru;
use crate::roots::Roots;
use crate::settings::{Knob, RestoreReport, Settings};

pub use costs::{copy_cost, fault_cost};
pub use counters::VmstatCounters;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use idle::idle_of;
pub use idle::{AgeingWalk, IdleOf, age, idle_pages, make_room};
use switch::KnobStep;

/// The settings that steering takes.
pub const KNOBS: [Knob; 8] = [
    Knob::DemotionEnabled,
    Knob::PromoteRateLimit,
    Knob::HotThreshold,
    Knob::ScanSize,
    Knob::ScanPeriodMin,
    Knob::ScanPeriodMax,
    Knob::ScanDelay,
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

/// The machine's part in a course.
#[derive(Debug, Clone, Copy)]
pub struct SteeringLimits {
    /// The most that may be promoted per second.
    pub most: Bytes,
    /// Several nodes have CPUs, so that the kernel's balancing between nodes
    /// (`kernel.numa_balancing` 1) has a purpose and goes on as it is. Elsewhere it is switched
    /// off, because it poisons the fast pages too.
    pub balances: bool,
    /// Free memory of the fastest tier.
    pub free: Bytes,
}

/// Sets the kernel's tiering to a course.
///
/// # Errors
/// A setting is not there or is refused.
pub fn follow(
    settings: &mut Settings,
    roots: &Roots,
    course: &Course,
    limits: &SteeringLimits,
) -> Result<()> {
    let mode: u64 = Knob::NumaBalancing.read(roots)?.parse().unwrap_or_default();
    for step in switch::steps(course, limits, mode) {
        match step {
            KnobStep::Set(knob, value) => settings.take(knob, &value.to_string())?,
            KnobStep::Restore(knobs) => {
                settings.restore_those(|knob| knobs.contains(&knob)).map(drop)?
            }
        }
    }
    Ok(())
}

/// Switches the kernel's demotion on. Before anything is to be demoted it stays off: the fast node
/// may be filled below kswapd's high watermark, which it would restore.
///
/// # Errors
/// The setting is not there or is refused.
pub fn demote(settings: &mut Settings) -> Result<()> {
    settings.take(Knob::DemotionEnabled, "1")
}

/// Restores the settings that steering took.
///
/// # Errors
/// A setting cannot be read or written.
pub fn stop(settings: &mut Settings) -> Result<RestoreReport> {
    settings.restore_those(|knob| KNOBS.contains(&knob))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use proptest::prelude::*;
    use tierwise_core::units::Pages;

    use super::*;
    use crate::migrate::page_cache::groups::Groups;
    use crate::migrate::unmanaged::RoomMaker;
    use crate::process::Reader;
    use crate::topology::fixture;

    pub(super) fn steerable() -> (tempfile::TempDir, Roots) {
        let (tree, roots) = fixture::copy("cxl-three-tier");
        let debug = roots.sys.join("kernel/debug/sched/numa_balancing");
        for (name, value) in [
            ("hot_threshold_ms", "1000"),
            ("scan_size_mb", "256"),
            ("scan_period_min_ms", "1000"),
            ("scan_period_max_ms", "60000"),
            ("scan_delay_ms", "1000"),
        ] {
            fixture::put(&debug.join(name), value);
        }
        fixture::put(&roots.sys.join("kernel/mm/lru_gen/enabled"), "0x0007\n");
        fixture::put(&roots.sys.join("kernel/debug/lru_gen"), "");
        (tree, roots)
    }

    fn course(scans: bool, rate: Option<Pages>) -> Course {
        let pause = if scans { Duration::ZERO } else { Duration::from_secs(7) };
        let (threshold, chunk) = (Duration::from_millis(40), Pages(8192));
        Course { scans, threshold, chunk, rate, pause }
    }

    fn limits(most: Bytes, balances: bool) -> SteeringLimits {
        SteeringLimits { most, balances, free: Bytes(1 << 20) }
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
            let limits = limits(Bytes(1 << 30), balances);
            follow(&mut settings, &roots, &course(scans, rate), &limits).unwrap();
            shown()
        };
        let scanning = ["1", "1024", "40", "32", "100", "100", "0", "2"];
        assert_eq!(set(false, None, false)[0], before[0], "nothing is to be demoted yet");
        assert_eq!(set(true, None, false), scanning);
        assert_eq!(set(false, Some(Pages(512)), false)[1], "2");
        assert_eq!(set(false, Some(Pages(1)), false)[1], "1", "0 would end promotion");
        assert_eq!(shown()[7], "0", "no scan");
        stop(&mut settings).unwrap();
        assert_eq!(shown(), before);
        assert_eq!(Knob::DamonStat.read(&roots).unwrap(), "0", "taken for another purpose");
    }

    #[test]
    fn balancing_between_nodes_goes_on() {
        let (tree, roots) = steerable();
        let (mut settings, _) = Settings::open(&roots, &tree.path().join("s.json")).unwrap();
        let mut mode = |scans, balances| {
            let limits = limits(Bytes(1), balances);
            follow(&mut settings, &roots, &course(scans, None), &limits).unwrap();
            let period = Knob::ScanPeriodMax.read(&roots).unwrap();
            (Knob::NumaBalancing.read(&roots).unwrap(), period)
        };
        fs::write(Knob::NumaBalancing.path(&roots), "1").unwrap();
        assert_eq!(mode(false, true), ("1".into(), "60000".into()), "no scan is needed yet");
        assert_eq!(mode(true, true), ("3".into(), "100".into()));
        assert_eq!(mode(false, true), ("1".into(), "60000".into()), "as it was");
        fs::write(Knob::NumaBalancing.path(&roots), "1").unwrap();
        assert_eq!(mode(true, false).0, "2", "of no use on one node with CPUs");
    }

    #[test]
    fn kernel_without_debugfs_is_reported() {
        let (_tree, roots) = steerable();
        fs::remove_dir_all(roots.sys.join("kernel/debug/sched")).unwrap();
        let refused = probe(&roots).unwrap_err().to_string();
        assert!(refused.contains("hot_threshold_ms") && refused.contains("debugfs"), "{refused}");
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
            let _ = VmstatCounters::read(&roots);
            let (none, mut on) = (Groups::default(), || Ok(()));
            let (tenants, floors) = (&none, &[][..]);
            let of = IdleOf { roots: &roots, tenants, nodes: &[0], others: true, floors };
            let _ = idle_pages(&of, &mut Reader::default());
            let mut maker = RoomMaker::new(Duration::MAX);
            let most = Bytes(rate);
            let _ = maker.make_room(&roots, &none, &[0], Duration::ZERO, most, &mut on);
            let course = course(true, Some(Pages(rate)));
            let started = follow(&mut settings, &roots, &course, &limits(most, false));
            prop_assert_eq!(started.is_ok(), before.iter().all(Option::is_some));
            prop_assert!(stop(&mut settings).is_ok());
            prop_assert_eq!(shown(), before);
        }
    }
}
