//! One kdamond with one context: its target, attributes and schemes, on and off.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::operations;
use super::patience;
use super::regions::{self, HostRegion};
use super::scheme::{Scheme, SchemeStats};
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::{Process, ProcessStat, Reader, Task};
use crate::roots::Roots;
use tierwise_core::observe::DamonAttrs;

/// Target of monitoring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DamonTarget {
    /// Virtual addresses of processes (`vaddr`): the kernel follows their mappings.
    Processes(Vec<Task>),
    /// Ranges of physical addresses in bytes (`paddr`), ascending.
    Physical(Vec<(u64, u64)>),
}

impl DamonTarget {
    /// DAMON's name of the operations.
    pub fn operations(&self) -> &'static str {
        match self {
            Self::Processes(_) => "vaddr",
            Self::Physical(_) => "paddr",
        }
    }

    /// Number of DAMON's targets.
    fn count(&self) -> usize {
        match self {
            Self::Processes(tasks) => tasks.len(),
            Self::Physical(_) => 1,
        }
    }
}

/// Target, attributes and schemes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitoring {
    /// Processes or physical memory to monitor.
    pub target: DamonTarget,
    /// Intervals and bounds.
    pub attrs: DamonAttrs,
    /// The schemes; the first is the one whose regions are read.
    pub schemes: Vec<Scheme>,
}

/// Interval at which the kernel updates a target's mappings: every ten aggregation intervals. Its
/// default is a minute, during which a process that has just started would not be monitored. A
/// shorter interval than regions take to adapt is of no use.
const UPDATE_AGGREGATIONS: u32 = 10;

/// A kdamond that this process took. Dropping it turns it off and leaves its place empty, as it was
/// found.
#[derive(Debug)]
pub struct Kdamond {
    directory: PathBuf,
    /// Paths of `state` and of the first scheme's files, which are used all the time.
    state: PathBuf,
    pid: PathBuf,
    tried: PathBuf,
    index: u32,
    schemes: Vec<Scheme>,
    /// The settings that were written last.
    written: Option<Monitoring>,
    given_back: bool,
}

impl Kdamond {
    /// Takes a place that [`super::Admin`] found empty, or that a record lists.
    pub(super) fn at(kdamonds: &Path, index: u32) -> Self {
        let directory = kdamonds.join(index.to_string());
        let (state, pid) = (directory.join("state"), directory.join("pid"));
        let tried = directory.join("contexts/0/schemes/0/tried_regions");
        let (schemes, written) = (Vec::new(), None);
        Self { directory, state, pid, tried, index, schemes, written, given_back: false }
    }

    /// Number below `kdamonds/`.
    pub fn index(&self) -> u32 {
        self.index
    }

    fn context(&self) -> PathBuf {
        self.directory.join("contexts/0")
    }

    fn scheme_directory(&self, scheme: usize) -> PathBuf {
        self.context().join("schemes").join(scheme.to_string())
    }

    /// True if it runs. A kdamond whose process has ended stops by itself.
    ///
    /// # Errors
    /// Its files no longer exist.
    pub fn is_on(&self) -> Result<bool> {
        patience::patiently(|| file::holds(&self.state, "on"))
    }

    /// Kernel thread, while it runs.
    ///
    /// # Errors
    /// Its files no longer exist.
    pub fn thread(&self, roots: &Roots, reader: &mut Reader) -> Result<Option<Process>> {
        let pid: i32 = patience::number(&self.pid)?;
        // The kernel writes -1 for none.
        Ok(if pid > 0 { Process::read(roots, pid, reader).ok() } else { None })
    }

    /// CPU time of its thread; zero if it does not run.
    ///
    /// # Errors
    /// Its files no longer exist.
    pub fn cpu_time(&self, roots: &Roots, reader: &mut Reader) -> Result<Duration> {
        let thread = self.thread(roots, reader)?;
        let stat = thread.and_then(|t| ProcessStat::read(roots, t.pid, reader).ok().zip(thread));
        Ok(stat.map_or(Duration::ZERO, |(stat, t)| stat.exact_cpu_time(roots, t.pid, reader)))
    }

    /// Turns it off if it runs, and writes its settings; of those that it had, only what differs.
    /// Targets can be changed only this way: a commit would keep the regions of the old ones.
    ///
    /// # Errors
    /// The kernel lacks the operations or an action, or a file is missing.
    pub fn configure(&mut self, monitoring: &Monitoring) -> Result<()> {
        self.off()?;
        // After an error nothing is known of what was written.
        let written = self.written.take();
        let target = &monitoring.target;
        let like = |old: &Monitoring| {
            old.schemes == monitoring.schemes && old.target.operations() == target.operations()
        };
        match written.filter(like) {
            Some(old) => {
                if old.attrs != monitoring.attrs {
                    write_attrs(&self.context(), &monitoring.attrs)?;
                }
                write_target(&self.context(), target, Some(&old.target))?;
            }
            None => self.write_all(monitoring)?,
        }
        self.written = Some(monitoring.clone());
        Ok(())
    }

    fn write_all(&mut self, monitoring: &Monitoring) -> Result<()> {
        // Writing 0 also removes the old settings.
        patience::write(&self.directory.join("contexts/nr_contexts"), "1")?;
        let context = self.context();
        self.write_operations(monitoring.target.operations())?;
        write_attrs(&context, &monitoring.attrs)?;
        write_target(&context, &monitoring.target, None)?;
        let schemes = &monitoring.schemes;
        patience::write(&context.join("schemes/nr_schemes"), &schemes.len().to_string())?;
        self.schemes.clone_from(schemes);
        for (i, scheme) in schemes.iter().enumerate() {
            scheme.write(&self.scheme_directory(i))?;
        }
        Ok(())
    }

    fn write_operations(&self, name: &str) -> Result<()> {
        let path = self.context().join("avail_operations");
        let available = file::text(&path)?;
        if !available.split_whitespace().any(|o| o == name) {
            return Err(operations::missing(name));
        }
        patience::write(&self.context().join("operations"), name)
    }

    /// Turns it on.
    ///
    /// # Errors
    /// `EBUSY` after all retries: the kernel module `damon_stat` or another exclusive user holds
    /// DAMON. `EINVAL`: the process has ended.
    pub fn on(&self, roots: &Roots) -> Result<()> {
        self.try_on().map_err(|problem| if problem.is_busy() { held(roots) } else { problem })
    }

    /// Turns it on while other kdamonds of this process run, so that no exclusive user can hold
    /// DAMON.
    ///
    /// # Errors
    /// `EBUSY` after all retries: another program's command is being executed.
    pub(crate) fn try_on(&self) -> Result<()> {
        patience::write(&self.state, "on")
    }

    /// Commits intervals, bounds, schemes and quotas while it runs.
    ///
    /// # Errors
    /// It does not run, or the kernel refuses a value.
    pub fn commit(&self) -> Result<()> {
        patience::write(&self.state, "commit")
    }

    /// Sets new intervals and bounds, also while it runs.
    ///
    /// # Errors
    /// The kernel refuses a value.
    pub fn set_attrs(&mut self, attrs: &DamonAttrs) -> Result<()> {
        let written = self.written.take();
        write_attrs(&self.context(), attrs)?;
        self.written = written.map(|written| Monitoring { attrs: *attrs, ..written });
        if self.is_on()? { self.commit() } else { Ok(()) }
    }

    /// Sets another quota of a scheme; while it runs, from the next [`Kdamond::commit`] on.
    ///
    /// # Errors
    /// There is no such scheme, or the kernel refuses the value.
    pub fn write_quota(&mut self, scheme: usize, quota: super::Quota) -> Result<()> {
        let directory = self.scheme_directory(scheme);
        let found = self.schemes.get_mut(scheme);
        let found = found.ok_or_else(|| {
            LinuxError::file(&directory, "write", std::io::ErrorKind::NotFound.into())
        })?;
        found.quota = quota;
        self.written = None;
        found.write_quota(&directory)
    }

    /// Turns it off if it runs.
    ///
    /// # Errors
    /// The kernel refuses, and it still runs.
    pub fn off(&mut self) -> Result<()> {
        if !self.is_on()? {
            return Ok(());
        }
        let answer = patience::write(&self.state, "off");
        // If its process has ended in the meantime, it has stopped already.
        if answer.is_err() && !self.is_on()? { Ok(()) } else { answer }
    }

    /// Reads the first scheme's regions into `out`, ascending. Returns false, without regions, if
    /// it no longer runs.
    ///
    /// The kernel answers at the end of the aggregation interval, so this waits for up to one
    /// interval.
    ///
    /// # Errors
    /// The kernel refuses, or the files are not as documented.
    pub fn regions(&self, reader: &mut Reader, out: &mut Vec<HostRegion>) -> Result<bool> {
        out.clear();
        let updated = patience::write(&self.state, "update_schemes_tried_regions");
        if !self.is_on()? || patience::was_cancelled(&updated) {
            return Ok(false);
        }
        updated?;
        regions::read(&self.tried, reader, out)?;
        Ok(true)
    }

    /// Has the kernel update the schemes' counters, for [`Kdamond::stats`].
    ///
    /// # Errors
    /// It does not run.
    pub fn update_stats(&self) -> Result<()> {
        patience::write(&self.state, "update_schemes_stats")
    }

    /// Counters of a scheme at the last [`Kdamond::update_stats`], since the kdamond's start.
    ///
    /// # Errors
    /// There is no such scheme.
    pub fn stats(&self, scheme: usize) -> Result<SchemeStats> {
        SchemeStats::read(&self.scheme_directory(scheme))
    }

    /// True if its thread is in uninterruptible sleep, as while it waits for the mmap lock of its
    /// process. Every command to it would wait as long with DAMON's lock held, so that no program
    /// could command any kdamond.
    ///
    /// # Errors
    /// Its files no longer exist.
    pub fn is_waiting(&self, roots: &Roots, reader: &mut Reader) -> Result<bool> {
        let thread = self.thread(roots, reader)?;
        let stat = thread.and_then(|thread| ProcessStat::read(roots, thread.pid, reader).ok());
        Ok(stat.is_some_and(|stat| stat.is_uninterruptible()))
    }

    /// Leaves it as it is. Its record is for [`super::clean_up_recorded`].
    pub(crate) fn abandon(mut self) {
        self.given_back = true;
    }

    /// Turns it off and leaves its place empty.
    ///
    /// # Errors
    /// It still runs, or its place cannot be emptied.
    pub fn restore(mut self) -> Result<()> {
        self.clear()
    }

    fn clear(&mut self) -> Result<()> {
        self.given_back = true;
        match self.off() {
            // Another program has made DAMON's directories again: the place is no longer this
            // process's.
            Err(e) if e.is_gone() => return Ok(()),
            other => other?,
        }
        patience::write(&self.directory.join("contexts/nr_contexts"), "0")
    }
}

impl Drop for Kdamond {
    fn drop(&mut self) {
        if !self.given_back
            && let Err(error) = self.clear()
        {
            tracing::warn!(kdamond = self.index, %error, "could not stop a kdamond");
        }
    }
}

fn write_attrs(context: &Path, attrs: &DamonAttrs) -> Result<()> {
    let attributes = context.join("monitoring_attrs");
    let intervals = attributes.join("intervals");
    let microseconds = |d: Duration| d.as_micros().max(1).to_string();
    patience::write(&intervals.join("sample_us"), &microseconds(attrs.sampling))?;
    patience::write(&intervals.join("aggr_us"), &microseconds(attrs.aggregation))?;
    let update = attrs.aggregation.saturating_mul(UPDATE_AGGREGATIONS);
    patience::write(&intervals.join("update_us"), &microseconds(update))?;
    // The kernel refuses fewer than three regions (damon_set_attrs), which a vaddr target starts
    // with.
    let min = attrs.min_regions.max(3);
    patience::write(&attributes.join("nr_regions/min"), &min.to_string())?;
    patience::write(&attributes.join("nr_regions/max"), &attrs.max_regions.max(min).to_string())
}

/// Writes a target, and leaves what it had of an old one.
fn write_target(context: &Path, target: &DamonTarget, old: Option<&DamonTarget>) -> Result<()> {
    let targets = context.join("targets");
    let count = target.count();
    // Writing the number makes all targets again.
    let old = old.filter(|old| old.count() == count);
    if old.is_none() {
        patience::write(&targets.join("nr_targets"), &count.to_string())?;
    }
    match target {
        DamonTarget::Processes(tasks) => {
            for (i, task) in tasks.iter().enumerate() {
                let path = targets.join(format!("{i}/pid_target"));
                patience::write(&path, &task.tid().to_string())?;
            }
            Ok(())
        }
        DamonTarget::Physical(ranges) => {
            let regions = targets.join("0/regions");
            patience::write(&regions.join("nr_regions"), &ranges.len().to_string())?;
            for (i, (start, end)) in ranges.iter().enumerate() {
                let region = regions.join(i.to_string());
                patience::write(&region.join("start"), &start.to_string())?;
                patience::write(&region.join("end"), &end.to_string())?;
            }
            Ok(())
        }
    }
}

/// Returns the path of the switch of the kernel module `damon_stat`, if it is on. The module then
/// holds DAMON for itself (newer kernels may be built with it on), and no kdamond can start until N
/// is written there.
pub fn damon_stat(roots: &Roots) -> Option<PathBuf> {
    let switch = roots.sys.join("module/damon_stat/parameters/enabled");
    let text = file::text_if_there(&switch).ok().flatten()?;
    (text.trim() == "Y").then_some(switch)
}

/// Returns the reason why `on` failed with `EBUSY`, with the remedy.
fn held(roots: &Roots) -> LinuxError {
    if let Some(switch) = damon_stat(roots) {
        return LinuxError::Missing {
            what: "the kernel's module damon_stat holds DAMON for itself".into(),
            remedy: format!("write N to {}, or have Tierwise do it", switch.display()),
        };
    }
    LinuxError::Missing {
        what: "DAMON is busy: a kernel module such as damon_reclaim or damon_lru_sort holds it"
            .into(),
        remedy: format!(
            "write N to the module's {}/module/damon_*/parameters/enabled, or choose another \
             access monitoring source",
            roots.sys.display()
        ),
    }
}
