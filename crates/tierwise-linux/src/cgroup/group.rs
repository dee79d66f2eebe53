//! One cgroup v2: its processes, its memory by node, its counters.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tierwise_core::units::Bytes;

use super::pressure::Pressure;
use super::stat::{self, Counters, Events};
use super::{cpu, numa_stat};
use crate::error::{LinuxError, Result};
use crate::file;

/// A control group. It may vanish at any time: errors of what is gone answer [`LinuxError::is_gone`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// Its folder.
    pub path: PathBuf,
}

impl Group {
    /// The group of a folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Whether it is there.
    pub fn exists(&self) -> bool {
        self.path.join("cgroup.procs").exists()
    }

    /// Adds the processes in it and in the groups below it. Those of a process namespace that this one does not see
    /// (listed as 0) are left out.
    ///
    /// # Errors
    /// The group is gone, or `cgroup.procs` holds something else than numbers. Groups below it may vanish meanwhile.
    pub fn processes(&self, out: &mut BTreeSet<i32>) -> Result<()> {
        self.own_processes(out)?;
        let list = |e| LinuxError::file(&self.path, "list", e);
        for entry in fs::read_dir(&self.path).map_err(list)? {
            // A group that vanished between the listing and now.
            let Ok(entry) = entry else { continue };
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            match Self::new(entry.path()).processes(out) {
                Err(e) if e.is_gone() => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn own_processes(&self, out: &mut BTreeSet<i32>) -> Result<()> {
        let path = self.path.join("cgroup.procs");
        let text = match file::text(&path) {
            // A threaded group has threads and no processes; the domain above it lists those.
            Err(LinuxError::File { source, .. })
                if source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                return Ok(());
            }
            other => other?,
        };
        for (index, line) in text.lines().enumerate() {
            let pid: i32 = line.parse().map_err(|_| LinuxError::Format {
                path: path.clone(),
                line: Some(index + 1),
                found: format!("{line:?}"),
                expected: "the number of a process",
            })?;
            if pid > 0 {
                out.insert(pid);
            }
        }
        Ok(())
    }

    /// Adds its movable memory by node, of all groups below it too: [`numa_stat`] says which rows count.
    ///
    /// # Errors
    /// The group is gone or the memory controller is not enabled for it ([`LinuxError::is_gone`] for both), or the file
    /// is not what it should be.
    pub fn usage(&self, out: &mut Vec<(u32, Bytes)>) -> Result<()> {
        let path = self.path.join("memory.numa_stat");
        numa_stat::usage(&path, &file::text(&path)?, out)
    }

    /// All memory charged to it, kernel memory too.
    ///
    /// # Errors
    /// As [`Group::usage`].
    pub fn current(&self) -> Result<Bytes> {
        file::value(&self.path.join("memory.current"), "a number of bytes").map(Bytes)
    }

    /// What the kernel counted of it.
    ///
    /// # Errors
    /// As [`Group::usage`].
    pub fn counters(&self) -> Result<Counters> {
        let path = self.path.join("memory.stat");
        Counters::parse(&path, &file::text(&path)?)
    }

    /// How often it met its limits.
    ///
    /// # Errors
    /// As [`Group::usage`].
    pub fn events(&self) -> Result<Events> {
        let path = self.path.join("memory.events");
        Events::parse(&path, &file::text(&path)?)
    }

    /// Time that its tasks waited for memory; `None` where the kernel does not measure it (booted with `psi=0`).
    ///
    /// # Errors
    /// The file is not what it should be.
    pub fn pressure(&self) -> Result<Option<Pressure>> {
        let path = self.path.join("memory.pressure");
        let text = match file::text_if_there(&path) {
            // `psi=0`, or cgroup.pressure of this group switched off.
            Err(LinuxError::File { source, .. })
                if source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                None
            }
            other => other?,
        };
        text.map(|text| Pressure::parse(&path, &text)).transpose()
    }

    /// Processor time since it was made, of all groups below it too. Every group has it, with or without the controller.
    ///
    /// # Errors
    /// The group is gone, or the file is not what it should be.
    pub fn cpu_usage(&self) -> Result<Duration> {
        let path = self.path.join("cpu.stat");
        stat::cpu_usage(&path, &file::text(&path)?)
    }

    /// Processors that it may use: its effective cpuset, and the tightest quota of its own and of the groups above it up to
    /// `root`. `None` where neither controller says anything.
    ///
    /// # Errors
    /// A file is not what it should be.
    pub fn processors(&self, root: &Path) -> Result<Option<f64>> {
        let mut fewest = None;
        // A group without the controller lives by the nearest one above that has it.
        let mut cpuset = None;
        for folder in self.path.ancestors().take_while(|p| p.starts_with(root)) {
            let path = folder.join("cpu.max");
            if let Some(text) = file::text_if_there(&path)?
                && let Some(quota) = cpu::quota(&path, &text)?
            {
                fewest = Some(fewest.unwrap_or(f64::INFINITY).min(quota));
            }
            let path = folder.join("cpuset.cpus.effective");
            if cpuset.is_none()
                && let Some(text) = file::text_if_there(&path)?
            {
                cpuset = Some(file::list(&path, &text)?.len() as f64);
            }
        }
        Ok(match (fewest, cpuset) {
            (Some(quota), Some(set)) => Some(quota.min(set)),
            (quota, set) => quota.or(set),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fixture;

    const MIB: u64 = 1 << 20;

    fn service(name: &str) -> (crate::roots::Roots, Group) {
        let roots = fixture::machine("hmat-two-tier");
        let group = Group::new(roots.cgroup.join(name));
        (roots, group)
    }

    #[test]
    fn memory_by_node_without_what_cannot_move() {
        let (_, redis) = service("system.slice/redis-server.service");
        let mut usage = Vec::new();
        redis.usage(&mut usage).unwrap();
        assert_eq!(usage, [(0, Bytes(72 * MIB)), (1, Bytes(16 * MIB))]);
        // The kernel's own memory for it is on top.
        assert!(redis.current().unwrap() > Bytes(88 * MIB));
        let counters = redis.counters().unwrap();
        assert_eq!((counters.pgpromote_success, counters.demoted()), (Some(560), Some(1234)));
        assert_eq!(redis.events().unwrap().high, 3);
        assert_eq!(redis.pressure().unwrap().unwrap().some.avg10, 1.53);
        assert_eq!(redis.cpu_usage().unwrap(), Duration::from_secs(4));
    }

    #[test]
    fn processes_of_the_groups_below_are_its_processes() {
        let (_, pods) = service("kubepods.slice");
        let mut pids = BTreeSet::new();
        pods.processes(&mut pids).unwrap();
        assert_eq!(pids, BTreeSet::from([201, 202]));
    }

    #[test]
    fn the_tightest_of_quotas_and_cpuset_holds() {
        let (roots, memcached) = service("system.slice/memcached.service");
        assert_eq!(memcached.processors(&roots.cgroup).unwrap(), Some(0.5));
        // Its own quota is none, the pods' slice above it has one and a half.
        let (_, pods) =
            service("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7d1f.slice");
        assert_eq!(pods.processors(&roots.cgroup).unwrap(), Some(1.5));
        let (_, redis) = service("system.slice/redis-server.service");
        assert_eq!(redis.processors(&roots.cgroup).unwrap(), Some(2.0));
    }

    #[test]
    fn a_group_that_vanished_is_gone_and_a_damaged_one_is_named() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let gone = Group::new(roots.cgroup.join("system.slice/none.service"));
        assert!(!gone.exists());
        assert!(gone.usage(&mut Vec::new()).unwrap_err().is_gone());
        assert!(gone.processes(&mut BTreeSet::new()).unwrap_err().is_gone());
        assert_eq!(gone.pressure().unwrap(), None);
        let redis = Group::new(roots.cgroup.join("system.slice/redis-server.service"));
        fixture::put(&redis.path.join("cgroup.procs"), "101\n0\nmany\n");
        let said = redis.processes(&mut BTreeSet::new()).unwrap_err().to_string();
        assert!(said.contains("cgroup.procs:3: found \"many\""), "{said}");
        fixture::put(&redis.path.join("cgroup.procs"), "0\n101\n");
        let mut pids = BTreeSet::new();
        redis.processes(&mut pids).unwrap();
        assert_eq!(pids, BTreeSet::from([101]));
    }
}
