//! One cgroup v2: its processes, its memory by node, its counters.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tierwise_core::units::Bytes;

use super::pressure::MemoryPressure;
use super::stat::{MemoryEvents, MemoryStat};
use super::{cpu, numa_stat};
use crate::bytes::parsed;
use crate::directories::{Directories, Visit};
use crate::error::{LinuxError, Result};
use crate::fault::Faults;
use crate::file;
use crate::process::Reader;

/// Buffers for reading groups repeatedly.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Reads files.
    pub reader: Reader,
    /// Lists directories.
    pub directories: Directories,
    /// Read errors so far.
    pub faults: Faults,
}

/// Most groups below one that are searched for its processes. Whoever has a group may make others
/// in it; a search of this many takes about a tenth of a second. A service has a handful.
pub const MAX_BELOW: usize = 8192;

/// A control group. It may vanish at any time: the errors of a vanished group answer
/// [`LinuxError::is_gone`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cgroup {
    /// The group's directory.
    pub path: PathBuf,
}

impl Cgroup {
    /// The group of a directory.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// True if the group exists.
    pub fn exists(&self) -> bool {
        self.path.join("cgroup.procs").exists()
    }

    /// Adds the processes of the group and of the groups below it, ascending, each once. Omits
    /// processes of a process namespace that this one does not see (listed as 0). A read error of
    /// the group or of one below it becomes a fault in the buffers. So are more than
    /// [`MAX_BELOW`] groups below it, of which the rest is left out.
    ///
    /// # Errors
    /// The group is gone, or the machine lacks the resources to read it. Groups below it may vanish
    /// meanwhile.
    pub fn processes(&self, buffers: &mut Buffers, out: &mut Vec<i32>) -> Result<()> {
        let Buffers { reader, directories, faults } = buffers;
        let mut below = 0;
        let walked = directories.walk(&self.path, |directory| {
            below += usize::from(directory != self.path);
            if below > MAX_BELOW {
                if below == MAX_BELOW + 1 {
                    faults.group(&self.path, &self.too_many());
                }
                return Ok(Visit::Pass);
            }
            match own_processes(directory, reader, out) {
                Ok(None) => {}
                Err(e) if e.is_gone() && directory != self.path => {}
                Err(e) if e.is_gone() || e.is_of_machine() => return Err(e),
                Ok(Some(e)) | Err(e) => faults.group(&self.path, &e),
            }
            Ok(Visit::Enter)
        });
        faults.take(directories.faults(), None);
        out.sort_unstable();
        out.dedup();
        walked
    }

    fn too_many(&self) -> LinuxError {
        LinuxError::Format {
            path: self.path.clone(),
            line: None,
            found: format!("more than {MAX_BELOW} groups below it"),
            expected: "fewer, as cgroup.max.descendants can ensure; the rest is not managed",
        }
    }

    /// Adds the movable memory by node of the group and all groups below it. [`numa_stat`] lists
    /// the rows that count.
    ///
    /// # Errors
    /// The group is gone, the memory controller is not enabled for it ([`LinuxError::is_gone`] for
    /// both), or the file is malformed.
    pub fn usage(&self, reader: &mut Reader, out: &mut Vec<(u32, Bytes)>) -> Result<()> {
        reader.bytes(&self.path, format_args!("memory.numa_stat"))?;
        let (path, text) = reader.last();
        numa_stat::usage(path, text, out)
    }

    /// Adds the page cache by node of the group and all groups below it.
    ///
    /// # Errors
    /// As [`Cgroup::usage`].
    pub fn page_cache(&self, reader: &mut Reader, out: &mut Vec<(u32, Bytes)>) -> Result<()> {
        reader.bytes(&self.path, format_args!("memory.numa_stat"))?;
        let (path, text) = reader.last();
        numa_stat::page_cache(path, text, out)
    }

    /// Returns all memory charged to the group, kernel memory too.
    ///
    /// # Errors
    /// As [`Cgroup::usage`].
    pub fn current(&self) -> Result<Bytes> {
        file::value(&self.path.join("memory.current"), "a number of bytes").map(Bytes)
    }

    /// Returns the kernel's counters of the group.
    ///
    /// # Errors
    /// As [`Cgroup::usage`].
    pub fn counters(&self) -> Result<MemoryStat> {
        let path = self.path.join("memory.stat");
        MemoryStat::parse(&path, file::bytes(&path)?)
    }

    /// Returns how often the group met its limits.
    ///
    /// # Errors
    /// As [`Cgroup::usage`].
    pub fn events(&self) -> Result<MemoryEvents> {
        let path = self.path.join("memory.events");
        MemoryEvents::parse(&path, file::bytes(&path)?)
    }

    /// Returns the time that the group's tasks waited for memory; `None` if the kernel does not
    /// measure it (booted with `psi=0`).
    ///
    /// # Errors
    /// The file is malformed.
    pub fn pressure(&self, reader: &mut Reader) -> Result<Option<MemoryPressure>> {
        match reader.bytes_if_there(&self.path, format_args!("memory.pressure")) {
            // `psi=0`, or cgroup.pressure of this group switched off.
            Err(LinuxError::File { source, .. })
                if source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                return Ok(None);
            }
            Ok(None) => return Ok(None),
            other => other.map(drop)?,
        }
        let (path, text) = reader.last();
        MemoryPressure::parse(path, text).map(Some)
    }

    /// Returns the CPU time of the group and all groups below it since its creation. Every group
    /// has it, with or without the controller.
    ///
    /// # Errors
    /// The group is gone, or the file is malformed.
    pub fn cpu_usage(&self, reader: &mut Reader) -> Result<Duration> {
        reader.bytes(&self.path, format_args!("cpu.stat"))?;
        let (path, text) = reader.last();
        cpu::usage(path, text)
    }

    /// Returns the CPUs that the group may use: its effective cpuset, and the tightest quota among
    /// its own and those of the groups above it up to `root`. `None` if neither controller sets a
    /// limit.
    ///
    /// # Errors
    /// A file is malformed.
    pub fn cpus(&self, root: &Path, reader: &mut Reader) -> Result<Option<f64>> {
        let mut fewest = None;
        // A group without the controller uses the nearest group above it that has one.
        let mut cpuset = None;
        for directory in self.path.ancestors().take_while(|p| p.starts_with(root)) {
            if reader.bytes_if_there(directory, format_args!("cpu.max"))?.is_some() {
                let (path, text) = reader.last();
                if let Some(quota) = cpu::quota(path, text)? {
                    fewest = Some(fewest.unwrap_or(f64::INFINITY).min(quota));
                }
            }
            let name = format_args!("cpuset.cpus.effective");
            if cpuset.is_none() && reader.bytes_if_there(directory, name)?.is_some() {
                let (path, text) = reader.last();
                cpuset = Some(file::count(path, text)? as f64);
            }
        }
        Ok(match (fewest, cpuset) {
            (Some(quota), Some(set)) => Some(quota.min(set)),
            (quota, set) => quota.or(set),
        })
    }
}

/// Adds the processes of one directory. Returns the error of the first line that is not a number.
fn own_processes(
    directory: &Path,
    reader: &mut Reader,
    out: &mut Vec<i32>,
) -> Result<Option<LinuxError>> {
    let take = |line: &[u8]| pid(line).map(|pid| out.extend(pid)).is_some();
    match reader.lines(directory, format_args!("cgroup.procs"), "the number of a process", take) {
        // A threaded group has threads and no processes; the domain above it lists them.
        Err(LinuxError::File { source, .. }) if source.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            Ok(None)
        }
        other => other,
    }
}

/// Parses a line of `cgroup.procs`; `None` inside for a process of another namespace.
pub(crate) fn pid(line: &[u8]) -> Option<Option<i32>> {
    let pid: i32 = parsed(line)?;
    (pid >= 0).then_some((pid > 0).then_some(pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directories::deep;
    use crate::topology::fixture;

    const MIB: u64 = 1 << 20;

    fn service(name: &str) -> (crate::roots::Roots, Cgroup) {
        let roots = fixture::machine("hmat-two-tier");
        let group = Cgroup::new(roots.cgroup.join(name));
        (roots, group)
    }

    #[test]
    fn memory_by_node_without_what_cannot_move() {
        let (_, redis) = service("system.slice/redis-server.service");
        let mut usage = Vec::new();
        redis.usage(&mut Reader::default(), &mut usage).unwrap();
        assert_eq!(usage, [(0, Bytes(72 * MIB)), (1, Bytes(16 * MIB))]);
        // The kernel's own memory for the group comes on top.
        assert!(redis.current().unwrap() > Bytes(88 * MIB));
        let counters = redis.counters().unwrap();
        assert_eq!((counters.pgpromote_success, counters.demoted()), (Some(560), Some(1234)));
        assert_eq!(redis.events().unwrap().high, 3);
        assert_eq!(redis.pressure(&mut Reader::default()).unwrap().unwrap().some.avg10, 1.53);
        assert_eq!(redis.cpu_usage(&mut Reader::default()).unwrap(), Duration::from_secs(4));
    }

    #[test]
    fn group_includes_processes_of_its_subtree() {
        let (_, pods) = service("kubepods.slice");
        let mut pids = vec![202];
        pods.processes(&mut Buffers::default(), &mut pids).unwrap();
        assert_eq!(pids, [201, 202]);
    }

    #[test]
    fn the_tightest_of_quotas_and_cpuset_holds() {
        let (roots, memcached) = service("system.slice/memcached.service");
        assert_eq!(memcached.cpus(&roots.cgroup, &mut Reader::default()).unwrap(), Some(0.5));
        // Its own quota is none; the pods' slice above it has one and a half.
        let (_, pods) =
            service("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7d1f.slice");
        assert_eq!(pods.cpus(&roots.cgroup, &mut Reader::default()).unwrap(), Some(1.5));
        let (_, redis) = service("system.slice/redis-server.service");
        assert_eq!(redis.cpus(&roots.cgroup, &mut Reader::default()).unwrap(), Some(2.0));
    }

    #[test]
    fn processes_of_deep_groups_are_members() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let group = Cgroup::new(roots.cgroup.join("system.slice/redis-server.service"));
        let mut pids = Vec::new();
        deep::make(&group.path, 40);
        deep::put(&group.path, 40, "cgroup.procs", "4711\n");
        let mut buffers = Buffers::default();
        group.processes(&mut buffers, &mut pids).unwrap();
        assert!(pids.contains(&4711), "{pids:?}");
        deep::take(&group.path, 40, "cgroup.procs");
        deep::remove(&group.path, 40);
    }

    #[test]
    fn groups_without_end_concern_their_tenant() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let redis = Cgroup::new(roots.cgroup.join("system.slice/redis-server.service"));
        for number in 0..=MAX_BELOW {
            std::fs::create_dir(redis.path.join(number.to_string())).unwrap();
        }
        let (mut buffers, mut pids) = (Buffers::default(), Vec::new());
        redis.processes(&mut buffers, &mut pids).unwrap();
        assert!(pids.contains(&101), "{pids:?}");
        assert_eq!(buffers.faults.counts(), [0, 1, 0, 0]);
        let said = &buffers.faults.kept()[0].problem;
        assert!(said.contains("found more than 8192 groups below it"), "{said}");
    }

    #[test]
    fn vanished_group_differs_from_damaged_one() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let gone = Cgroup::new(roots.cgroup.join("system.slice/none.service"));
        assert!(!gone.exists());
        let (mut buffers, mut pids) = (Buffers::default(), Vec::new());
        assert!(gone.usage(&mut buffers.reader, &mut Vec::new()).unwrap_err().is_gone());
        assert!(gone.processes(&mut buffers, &mut pids).unwrap_err().is_gone());
        assert_eq!(gone.pressure(&mut buffers.reader).unwrap(), None);
        let redis = Cgroup::new(roots.cgroup.join("system.slice/redis-server.service"));
        fixture::put(&redis.path.join("cgroup.procs"), "101\n0\nmany\n105\n");
        redis.processes(&mut buffers, &mut pids).unwrap();
        assert_eq!(pids, [101, 105]);
        let message = &buffers.faults.kept()[0].problem;
        assert!(message.contains("cgroup.procs:3: found \"many\""), "{message}");
        fixture::put(&redis.path.join("cgroup.procs"), "0\n101\n");
        pids.clear();
        redis.processes(&mut buffers, &mut pids).unwrap();
        assert_eq!(pids, [101]);
    }
}
