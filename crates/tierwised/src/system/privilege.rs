//! The capabilities that the daemon keeps after it has started as root. It drops all others for
//! good.
//!
//! It can still open root's files (DAMON's, control groups', the state file), because its user
//! stays root. The list holds only the capabilities for other purposes.

use caps::{CapSet, Capability, CapsHashSet};

use crate::config::Config;
use crate::judgement::takes_hint_faults;

/// The capabilities that are always kept, with their purposes.
pub const KEPT: [(Capability, &str); 3] = [
    (Capability::CAP_DAC_READ_SEARCH, "other users' pagemap, which its owner alone may open"),
    (Capability::CAP_SYS_NICE, "move_pages(2) on memory that processes share"),
    (Capability::CAP_SYS_PTRACE, "other users' maps, pagemap and move_pages(2)"),
];

/// Capabilities that this configuration needs: [`KEPT`], `CAP_PERFMON` to sample accesses, and
/// `CAP_SYS_ADMIN` where `kernel.numa_balancing` is taken over and must be restored, by the
/// configuration, steering or the source, or the source looks up physical addresses.
pub fn needed(config: &Config) -> CapsHashSet {
    use crate::config::MonitorSource::{Auto, DamonPaddr, HintFaults, IdleBitmap, Perf};
    let mut set: CapsHashSet = KEPT.iter().map(|(capability, _)| *capability).collect();
    if matches!(config.monitor.source, Auto | HintFaults | Perf) {
        set.insert(Capability::CAP_PERFMON);
    }
    let source = config.monitor.source;
    let looks_up_frames = matches!(source, IdleBitmap | DamonPaddr);
    let sets_mode =
        config.kernel.numa_balancing.is_some() || config.kernel.steer || takes_hint_faults(config);
    if sets_mode || looks_up_frames {
        set.insert(Capability::CAP_SYS_ADMIN);
    }
    set
}

/// Drops all other capabilities from every set of this thread and of the threads that it starts.
/// Comes before any other thread starts. Returns the capabilities of [`KEPT`] that the process
/// never had: without root, all of them.
///
/// # Errors
/// The kernel refuses.
pub fn drop_others(config: &Config) -> anyhow::Result<Vec<String>> {
    let has = caps::read(None, CapSet::Permitted)?;
    let keep: CapsHashSet = needed(config).intersection(&has).copied().collect();
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        for capability in caps::all().difference(&keep) {
            // The process does not have a capability that the kernel does not know.
            let _ = caps::drop(None, CapSet::Bounding, *capability);
        }
    }
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &keep)?;
    caps::set(None, CapSet::Permitted, &keep)?;
    rustix::thread::set_no_new_privs(true)?;
    let missing = KEPT.iter().filter(|(capability, _)| !has.contains(capability));
    Ok(missing.map(|(capability, _)| capability.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_configured_is_needed() {
        let names = |text: &str| {
            let mut names: Vec<String> = needed(&Config::parse("t", text).unwrap())
                .iter()
                .map(ToString::to_string)
                .collect();
            names.sort();
            names
        };
        assert_eq!(
            names("[monitor]\nsource = \"soft-dirty\"\n[kernel]\nsteer = false\n"),
            ["CAP_DAC_READ_SEARCH", "CAP_SYS_NICE", "CAP_SYS_PTRACE"]
        );
        assert!(names("").contains(&"CAP_PERFMON".to_owned()));
        for text in [
            "[kernel]\nnuma_balancing = 0\nsteer = false\n",
            "policy = \"tpp\"\n[kernel]\nsteer = false\n",
        ] {
            assert!(names(text).contains(&"CAP_SYS_ADMIN".to_owned()), "{text}");
        }
        assert!(!names("[kernel]\nsteer = false\n").contains(&"CAP_SYS_ADMIN".to_owned()));
    }

    #[test]
    fn thread_cannot_regain_dropped_privileges() {
        let config = Config::parse("t", "[monitor]\nsource = \"damon-vaddr\"\n").unwrap();
        // Capabilities belong to the thread: the other tests keep theirs.
        std::thread::spawn(move || {
            drop_others(&config).unwrap();
            let left = caps::read(None, CapSet::Permitted).unwrap();
            assert!(left.is_subset(&needed(&config)), "{left:?}");
            assert!(caps::raise(None, CapSet::Effective, Capability::CAP_SYS_MODULE).is_err());
        })
        .join()
        .unwrap();
    }
}
