//! Readings of tenants for the engine: resident pages by tier, CPU time, CPUs.
//!
//! A tenant of control groups is read from their counters, a few small files. For lists of pids,
//! QEMU guests and groups without the memory controller, only [`super::numa_maps`] has pages by
//! node, and it walks page tables. It is read at an interval that the caller sets, and the last
//! value counts in between.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bstr::ByteSlice;
use tierwise_core::observe::TenantReading;
use tierwise_core::units::{Bytes, Pages, TenantId, Timestamp};

use super::numa_maps;
use super::tracker::{TenantState, TenantTracker};
use crate::cgroup::numa_stat::add;
use crate::error::Result;
use crate::fault::{FaultScope, Faults};
use crate::file;
use crate::migrate::Calls;
use crate::process::{Process, ProcessStat, Reader};
use crate::roots::Roots;
use crate::topology::LinuxHost;

/// Interval at which the number of a tenant's CPUs is read again: operators change it, programs do
/// not.
const CPUS_INTERVAL: Duration = Duration::from_secs(10);

/// CPU times of a tenant's groups or processes.
#[derive(Debug)]
struct Used<K> {
    /// Ascending; true if it was read in the current reading.
    known: Vec<(K, Duration, bool)>,
}

impl<K> Default for Used<K> {
    fn default() -> Self {
        Self { known: Vec::new() }
    }
}

impl<K: Ord> Used<K> {
    /// Records the total CPU time of one of them. Returns the increase since the last reading, and
    /// zero at the first.
    fn read<Q>(&mut self, who: &Q, now: Duration) -> Duration
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        match self.known.binary_search_by(|(known, ..)| known.borrow().cmp(who)) {
            Ok(at) => {
                let (_, before, read) = &mut self.known[at];
                *read = true;
                now.saturating_sub(std::mem::replace(before, now))
            }
            Err(at) => {
                self.known.insert(at, (who.to_owned(), now, true));
                Duration::ZERO
            }
        }
    }

    /// Forgets the others, which were not read.
    fn forget_unread(&mut self) {
        self.known.retain_mut(|(_, _, read)| std::mem::take(read));
    }
}

/// State of a tenant between two readings.
#[derive(Debug, Default)]
struct Last {
    walked: Option<Timestamp>,
    walked_usage: Vec<(u32, Bytes)>,
    groups: Used<PathBuf>,
    processes: Used<Process>,
    /// Time of the last reading of CPUs, and their number.
    cpus: Option<(Timestamp, f64)>,
}

/// Reads tenants in every round.
#[derive(Debug)]
pub struct Readings {
    roots: Arc<Roots>,
    walk_interval: Duration,
    /// True for a service, by tenant.
    services: Vec<bool>,
    last: BTreeMap<TenantId, Last>,
    usage: Vec<(u32, Bytes)>,
    reader: Reader,
    faults: Faults,
}

impl Readings {
    /// Readings that walk page tables (`numa_maps`) at most once per interval for each tenant
    /// without a control group.
    pub fn new(roots: Roots, walk_interval: Duration) -> Self {
        Self {
            roots: Arc::new(roots),
            walk_interval,
            services: Vec::new(),
            last: BTreeMap::new(),
            usage: Vec::new(),
            reader: Reader::default(),
            faults: Faults::default(),
        }
    }

    /// Forgets every tenant: their ids mean other tenants now.
    pub fn forget(&mut self) {
        self.last.clear();
    }

    /// Sets which tenants are services, by [`TenantId`]. The others of a longer list are, too.
    pub fn set_services(&mut self, services: Vec<bool>) {
        self.services = services;
    }

    /// Sets `usage`, `busy`, `cpus` and `running` of a tenant's reading, and leaves the rest as it
    /// is. Memory on nodes in no tier does not count. A group's values include all processes
    /// charged to it, even one that belongs to a tenant listed earlier.
    ///
    /// `busy` and `cpus` are zero unless the tenant is a service: no policy uses those of others,
    /// and they are most of the files of a group. `busy` starts with the second reading of a
    /// process or group: its earlier CPU time does not belong to this interval.
    ///
    /// A process or group that cannot be read is left out and recorded as a fault
    /// ([`Readings::faults`]). If nothing of the usage can be read, it stays as it was.
    pub fn read(
        &mut self,
        host: &LinuxHost,
        tracker: &TenantTracker,
        tenant: TenantId,
        now: Timestamp,
        calls: &mut impl Calls,
        out: &mut TenantReading,
    ) {
        out.running = tracker.state(tenant) == TenantState::Running;
        calls.charge(tenant);
        if self.read_usage(tracker, tenant, now, calls) || out.usage.len() != host.tiers.len() {
            out.usage.clear();
            out.usage.resize(host.tiers.len(), Pages(0));
            for &(node, bytes) in &self.usage {
                if let Some(tier) = host.tier_of(node) {
                    out.usage[tier.index()] += bytes.in_pages(host.page_size);
                }
            }
        }
        (out.busy, out.cpus) = (Duration::ZERO, 0.0);
        if self.services.get(tenant.index()).copied().unwrap_or(true) {
            let roots = Arc::clone(&self.roots);
            out.busy = self.busy(&roots, tracker, tenant);
            out.cpus = self.cpus(&roots, tracker, tenant, now);
        }
    }

    /// Failed reads since this list was last taken.
    pub fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Reads a tenant's usage. Returns false if there is one and none of it could be read.
    fn read_usage(
        &mut self,
        tracker: &TenantTracker,
        tenant: TenantId,
        now: Timestamp,
        calls: &mut impl Calls,
    ) -> bool {
        self.usage.clear();
        let (mut counted, mut failed) = (0, 0);
        for group in tracker.groups(tenant) {
            match group.usage(&mut self.reader, &mut self.usage) {
                Ok(()) => counted += 1,
                Err(e) if e.is_gone() => {}
                Err(e) => {
                    self.faults.group(&group.path, &e);
                    failed += 1;
                }
            }
        }
        // Without the memory controller no group has the file. Half of each kind would count twice.
        match (counted, failed) {
            (0, 0) => self.walk(tracker, tenant, now, calls),
            _ => counted > 0,
        }
    }

    /// Adds the usage of a tenant's processes, as far as it can be read. Returns false if none
    /// could be read.
    fn walk(
        &mut self,
        tracker: &TenantTracker,
        tenant: TenantId,
        now: Timestamp,
        calls: &mut impl Calls,
    ) -> bool {
        let Self { roots, reader, usage, faults, .. } = self;
        let last = self.last.entry(tenant).or_default();
        if last.walked.is_some_and(|walked| now.since(walked) < self.walk_interval) {
            usage.clone_from(&last.walked_usage);
            return true;
        }
        let (mut walked, mut failed) = (0, 0);
        for process in tracker.members(tenant) {
            let read = process.task(roots, reader).and_then(|task| {
                // The reader moves into the call, which may wait for the process.
                let (mut own, roots) = (std::mem::take(reader), Arc::clone(roots));
                let (own, sum, read) = calls.guarded(process.pid, move || {
                    let mut sum = Vec::new();
                    let take = |line: &[u8]| numa_maps::add_line(line, &mut sum);
                    let name = format_args!("{task}/numa_maps");
                    let read = own.lines(&roots.proc, name, numa_maps::EXPECTED, take);
                    (own, sum, read)
                })?;
                *reader = own;
                sum.into_iter().for_each(|(node, bytes)| add(usage, node, bytes));
                read
            });
            match read {
                Err(e) if e.is_gone() => continue,
                Err(e) => {
                    faults.process(process.pid, &e);
                    failed += 1;
                }
                Ok(damage) => {
                    damage.iter().for_each(|e| faults.process(process.pid, e));
                    walked += 1;
                }
            }
        }
        if walked == 0 && failed > 0 {
            return false;
        }
        last.walked = Some(now);
        last.walked_usage.clone_from(usage);
        true
    }

    /// CPU time since the last reading.
    fn busy(&mut self, roots: &Roots, tracker: &TenantTracker, tenant: TenantId) -> Duration {
        let Self { reader, faults, .. } = self;
        let last = self.last.entry(tenant).or_default();
        let mut busy = Duration::ZERO;
        for group in tracker.groups(tenant) {
            let read = group.cpu_usage(reader);
            if let Some(used) = faults.absorb(|| FaultScope::Group(group.path.clone()), read) {
                busy += last.groups.read(group.path.as_path(), used);
            }
        }
        if tracker.groups(tenant).is_empty() {
            for process in tracker.members(tenant) {
                let read = ProcessStat::read(roots, process.pid, reader);
                if let Some(stat) = faults.absorb(|| FaultScope::Process(process.pid), read)
                    && stat.start_time == process.start_time
                {
                    busy += last.processes.read(&process, stat.cpu_time());
                }
            }
        }
        last.groups.forget_unread();
        last.processes.forget_unread();
        busy
    }

    /// Returns [`Readings::count_cpus`], or its last result while that is recent.
    fn cpus(
        &mut self,
        roots: &Roots,
        tracker: &TenantTracker,
        tenant: TenantId,
        now: Timestamp,
    ) -> f64 {
        let known = self.last.get(&tenant).and_then(|last| last.cpus);
        if let Some((_, count)) = known.filter(|(at, _)| now.since(*at) < CPUS_INTERVAL) {
            return count;
        }
        let count = self.count_cpus(roots, tracker, tenant);
        self.last.entry(tenant).or_default().cpus = Some((now, count));
        count
    }

    /// Number of CPUs that a tenant may use: the sum over its groups, or the maximum over its
    /// processes; at most those online. Zero if the kernel reports none of these.
    fn count_cpus(&mut self, roots: &Roots, tracker: &TenantTracker, tenant: TenantId) -> f64 {
        let read = online(roots, &mut self.reader);
        let online = self.faults.absorb(|| FaultScope::Machine, read).flatten();
        let mut allowed = 0.0_f64;
        for group in tracker.groups(tenant) {
            let read = group.cpus(&roots.cgroup, &mut self.reader);
            let cpus = self.faults.absorb(|| FaultScope::Group(group.path.clone()), read);
            allowed += cpus.flatten().or(online).unwrap_or(0.0);
        }
        if tracker.groups(tenant).is_empty() {
            for process in tracker.members(tenant) {
                let read = cpus_allowed(roots, process, &mut self.reader);
                let cpus = self.faults.absorb(|| FaultScope::Process(process.pid), read);
                allowed = allowed.max(cpus.flatten().or(online).unwrap_or(0.0));
            }
        }
        online.map_or(allowed, |online| allowed.min(online))
    }
}

/// Number of online CPUs, if the kernel reports it.
fn online(roots: &Roots, reader: &mut Reader) -> Result<Option<f64>> {
    if reader.bytes_if_there(&roots.sys, format_args!("devices/system/cpu/online"))?.is_none() {
        return Ok(None);
    }
    let (path, list) = reader.last();
    file::count(path, list).map(|count| Some(count as f64))
}

/// Reads `Cpus_allowed_list` of `/proc/PID/status`. The process's name in the same file has its
/// newlines escaped.
fn cpus_allowed(roots: &Roots, process: Process, reader: &mut Reader) -> Result<Option<f64>> {
    let task = process.task(roots, reader)?;
    reader.bytes(&roots.proc, format_args!("{task}/status"))?;
    let (path, status) = reader.last();
    let list = status.lines().find_map(|line| line.strip_prefix(b"Cpus_allowed_list:"));
    list.map(|list| Ok(file::count(path, list)? as f64)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::HostKernel;
    use crate::topology::fixture;

    const MIB: u64 = 256; // pages

    struct Machine {
        _dir: tempfile::TempDir,
        roots: Roots,
        host: LinuxHost,
        tracker: TenantTracker,
        readings: Readings,
    }

    fn machine(selectors: &[&str]) -> Machine {
        let (dir, roots) = fixture::copy("hmat-two-tier");
        let host = LinuxHost::discover(&roots, None).unwrap();
        let tenant = |s: &&str| ((*s).to_owned(), s.parse().unwrap());
        let mut tracker = TenantTracker::new(selectors.iter().map(tenant).collect());
        tracker.refresh(&roots).unwrap();
        let readings = Readings::new(roots.clone(), Duration::from_secs(10));
        Machine { _dir: dir, roots, host, tracker, readings }
    }

    impl Machine {
        fn read(&mut self, tenant: u16, second: u64) -> TenantReading {
            let mut out = TenantReading { operations: 7, ..TenantReading::default() };
            let now = Timestamp(second * 1_000_000_000);
            let (host, tracker) = (&self.host, &self.tracker);
            let mut kernel = HostKernel::new(self.roots.clone());
            self.readings.read(host, tracker, TenantId(tenant), now, &mut kernel, &mut out);
            assert_eq!(out.operations, 7); // filled elsewhere
            out
        }
    }

    #[test]
    fn groups_are_read_from_their_counters() {
        let mut m = machine(&["cgroup:redis-server.service", "cgroup:kubepods.slice/**/*.scope"]);
        let redis = m.read(0, 1);
        assert_eq!(redis.usage, [Pages(72 * MIB), Pages(16 * MIB)]);
        assert_eq!((redis.busy, redis.cpus, redis.running), (Duration::ZERO, 2.0, true));
        let pods = m.read(1, 1);
        assert_eq!(pods.usage, [Pages(16 * MIB), Pages(16 * MIB)]);

        let stat = m.roots.cgroup.join("system.slice/redis-server.service/cpu.stat");
        fixture::put(&stat, "usage_usec 5500000\n");
        assert_eq!(m.read(0, 2).busy, Duration::from_millis(1500));
        assert_eq!(m.read(0, 3).busy, Duration::ZERO);
    }

    #[test]
    fn only_services_have_cpu_time() {
        let mut m = machine(&["cgroup:redis-server.service", "cgroup:kubepods.slice/**/*.scope"]);
        m.readings.set_services(vec![false, true]);
        let stat = m.roots.cgroup.join("system.slice/redis-server.service/cpu.stat");
        fixture::put(&stat, "nothing\n");
        let redis = m.read(0, 1);
        assert_eq!((redis.busy, redis.cpus), (Duration::ZERO, 0.0));
        assert_eq!(redis.usage, [Pages(72 * MIB), Pages(16 * MIB)]);
        assert!(m.readings.faults().is_empty(), "it is not read");
        assert!(m.read(1, 1).cpus > 0.0);
    }

    #[test]
    fn page_tables_are_walked_at_interval() {
        let mut m = machine(&["pids:102", "qemu:db-1"]);
        let first = m.read(0, 1);
        assert_eq!(first.usage[1], Pages(4096 + 1024 + 512));
        assert_eq!(first.cpus, 1.0); // bound to one of two CPUs
        let maps = m.roots.proc.join("102/numa_maps");
        fixture::put(&maps, "1000 default anon=5 N1=5 kernelpagesize_kB=4\n");
        assert_eq!(m.read(0, 10).usage, first.usage);
        assert_eq!(m.read(0, 11).usage, [Pages(0), Pages(5)]);
        assert_eq!(m.read(1, 1).usage, first.usage);
    }

    #[test]
    fn cpu_time_covers_the_interval() {
        let mut m = machine(&["qemu:db-1"]);
        assert_eq!(m.read(0, 1).busy, Duration::ZERO);
        let stat = m.roots.proc.join("301/stat");
        let text = file::text(&stat).unwrap().replace(" 900 100 ", " 950 125 ");
        fixture::put(&stat, &text);
        let ticks = 75.0 / rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(m.read(0, 2).busy, Duration::from_secs_f64(ticks));
        // Another process has the pid: its CPU time is not the tenant's.
        fixture::put(&stat, &text.replace(" 1500 ", " 9500 ").replace(" 950 ", " 99950 "));
        assert_eq!(m.read(0, 3).busy, Duration::ZERO);
    }

    #[test]
    fn group_without_memory_controller_sums_processes() {
        let mut m = machine(&["cgroup:redis-server.service"]);
        let directory = m.roots.cgroup.join("system.slice/redis-server.service");
        std::fs::remove_file(directory.join("memory.numa_stat")).unwrap();
        assert_eq!(m.read(0, 1).usage[1], Pages(4096 + 1024 + 512));
    }

    #[test]
    fn absent_tenant_holds_nothing() {
        let mut m = machine(&["cgroup:late.slice"]);
        let none = m.read(0, 1);
        assert_eq!((none.usage, none.running), (vec![Pages(0); 2], false));
        assert_eq!((none.busy, none.cpus), (Duration::ZERO, 0.0));
    }
}
