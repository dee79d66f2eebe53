//! NUMA hint faults: the kernel poisons slow pages in turn, and the next access to each is a fault,
//! which a probe reports (`events.rs`). The kernel moves nothing meanwhile (`scan.rs`).
//!
//! It is exact to the page, and tells by the time from poisoning to fault how often a page is
//! accessed. Tenants pay for it: a fault takes a microsecond and more. The scan therefore is as
//! slow as [`SHARE`] of the CPU budget allows, whatever the size of the machine. Its settings hold
//! for all processes, and what their faults cost counts as well.
//!
//! Fast pages are not poisoned: about them it knows nothing. DAMON on processes watches them, at a
//! low rate, because a fast page only has to be known as idle or not. MGLRU's generations do not
//! say which pages are idle.

mod events;
mod records;
mod scan;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tierwise_core::observe::DamonAttrs;

use super::{AccessMonitor, AccessReport, MonitorTarget, thread_cpu};
use crate::error::{LinuxError, Result};
use crate::file;
use crate::kernel_tiering::VmstatCounters;
use crate::process::Process;
use crate::process::resident::PAGE_SIZE;
use crate::roots::Roots;
use events::HintProbes;
use records::{HintRecord, Probe, RecordJoiner};
pub use scan::hint_fault_record;
use scan::{KNOBS, KernelScan};

/// Part of the CPU budget that faults and poisoning may take. The rest is for DAMON, the survey and
/// decisions.
const SHARE: f64 = 0.5;

/// Factor by which DAMON's intervals are longer than configured. It only watches fast pages, whose
/// demotion is no hurry: a page that was demoted by mistake faults and returns.
const DAMON_SLOWER: f64 = 2.0;

/// Shortest time between two messages about lost records.
const LOST_INTERVAL: Duration = Duration::from_secs(60);

/// Checks that the kernel has hint faults and probes for them, and that this process may use both.
/// [`super::damon_vaddr`] has to be available, too.
///
/// # Errors
/// The error names the reason and the remedy. A kernel that is locked down shows only when a probe
/// is started.
pub fn probe(roots: &Roots) -> Result<()> {
    KNOBS.iter().try_for_each(|knob| knob.read(roots).map(drop))?;
    VmstatCounters::read(roots)?;
    if Probe::ALL.iter().any(|probe| probe.registers().is_none()) {
        return Err(LinuxError::Missing {
            what: "the registers of arguments are not known for this CPU".into(),
            remedy: "use x86-64 or arm64, or choose another access monitoring source".into(),
        });
    }
    let kprobes = roots.sys.join("bus/event_source/devices/kprobe/type");
    if !kprobes.exists() {
        return Err(LinuxError::Missing {
            what: format!("this kernel makes no kprobes: {} is not there", kprobes.display()),
            remedy: "use a kernel built with CONFIG_KPROBE_EVENTS".into(),
        });
    }
    Ok(())
}

/// Configuration of hint faults.
#[derive(Debug, Clone)]
pub struct HintFaultConfig {
    /// State file of the kernel's settings ([`hint_fault_record`]).
    pub record: PathBuf,
    /// Several nodes have CPUs, so that the kernel's balancing between nodes has a purpose and goes
    /// on. It poisons fast pages, too, and moves pages between fast nodes.
    pub balances: bool,
    /// CPU budget in parts of one CPU, all monitoring and decisions included.
    pub budget: f64,
    /// DAMON's intervals as configured.
    pub damon: DamonAttrs,
}

/// Hint faults of slow pages, and another source for fast ones.
#[derive(Debug)]
pub struct HintFaultMonitor {
    roots: Roots,
    config: HintFaultConfig,
    /// DAMON on processes.
    fast: Box<dyn AccessMonitor>,
    /// While there are targets.
    running: Option<Running>,
    /// Ascending by pid.
    watched: Vec<Process>,
    throttle: f64,
    joiner: RecordJoiner,
    records: Vec<HintRecord>,
    /// CPU time of this thread, and of faults and poisoning.
    spent: Duration,
    faults: Duration,
    lost: u64,
    lost_said: Option<Instant>,
}

/// The scan and the probes.
#[derive(Debug)]
struct Running {
    // Dropped in this order: the last faults of the scan are of no use.
    scan: KernelScan,
    probes: HintProbes,
}

impl HintFaultMonitor {
    /// A source without targets. `fast` is DAMON on processes, with the same configuration.
    ///
    /// # Errors
    /// As [`probe`].
    pub fn new(
        roots: &Roots,
        config: HintFaultConfig,
        fast: Box<dyn AccessMonitor>,
    ) -> Result<Self> {
        probe(roots)?;
        Ok(Self {
            roots: roots.clone(),
            config,
            fast,
            running: None,
            watched: Vec::new(),
            throttle: 1.0,
            joiner: RecordJoiner::default(),
            records: Vec::new(),
            spent: Duration::ZERO,
            faults: Duration::ZERO,
            lost: 0,
            lost_said: None,
        })
    }

    /// What faults and poisoning may take now, in parts of one CPU.
    fn allowed(&self) -> f64 {
        self.config.budget * SHARE / self.throttle
    }

    fn start(&self, targets: &[MonitorTarget]) -> Result<Running> {
        let path = self.roots.sys.join("devices/system/cpu/online");
        let online = file::list(&path, &file::text(&path)?)?;
        // The probes come first: without them the scan would be in vain.
        let probes = HintProbes::start(&online)?;
        let resident = targets.iter().fold(0_u64, |sum, t| sum.saturating_add(t.resident.0));
        let HintFaultConfig { record, balances, .. } = &self.config;
        let pages = resident / PAGE_SIZE;
        let scan = KernelScan::start(&self.roots, record, *balances, pages, self.allowed())?;
        Ok(Running { scan, probes })
    }

    fn pause(&mut self) -> Result<()> {
        self.running.take().map_or(Ok(()), |running| running.scan.stop())
    }

    fn collect_faults(&mut self, report: &mut AccessReport) -> Result<()> {
        let allowed = self.allowed();
        let Some(running) = &mut self.running else { return Ok(()) };
        let lost = running.probes.collect(&mut self.records);
        self.faults += running.scan.account(allowed)?;
        self.joiner.join(&mut self.records, &self.watched, report);
        self.count_lost(lost);
        Ok(())
    }

    /// Counts lost records. Pages of which a record was lost look idle in one pass.
    fn count_lost(&mut self, lost: u64) {
        self.lost = self.lost.saturating_add(lost);
        let is_due = self.lost_said.is_none_or(|said| said.elapsed() >= LOST_INTERVAL);
        if lost > 0 && is_due {
            self.lost_said = Some(Instant::now());
            tracing::warn!(
                "{} records of hint faults were lost so far: their pages look idle for one pass; \
                 a smaller cpu.budget_percent makes faults rarer",
                self.lost
            );
        }
    }
}

impl AccessMonitor for HintFaultMonitor {
    fn name(&self) -> &'static str {
        "hint-faults"
    }

    fn has_hint_faults(&self) -> bool {
        true
    }

    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        self.fast.set_targets(processes)?;
        let before = thread_cpu();
        self.watched.clear();
        self.watched.extend(processes.iter().map(|target| target.process));
        self.watched.sort_unstable();
        let answer = match (processes.is_empty(), &self.running) {
            (true, _) => self.pause(),
            (false, Some(running)) => {
                running.probes.watch(&self.watched);
                Ok(())
            }
            (false, None) => self.start(processes).map(|running| {
                running.probes.watch(&self.watched);
                self.running = Some(running);
            }),
        };
        self.spent += thread_cpu().saturating_sub(before);
        answer
    }

    fn collect(&mut self, report: &mut AccessReport) -> Result<()> {
        self.fast.collect(report)?;
        let before = thread_cpu();
        let sampling = self.config.damon.sampling.mul_f64(self.throttle * DAMON_SLOWER);
        report.check = sampling;
        let answer = self.collect_faults(report);
        self.spent += thread_cpu().saturating_sub(before);
        answer
    }

    fn set_throttle(&mut self, times: f64) -> Result<()> {
        self.throttle = times.max(1.0);
        self.fast.set_throttle(self.throttle * DAMON_SLOWER)
    }

    fn patience(&self) -> Duration {
        self.fast.patience()
    }

    fn stop(&mut self) -> Result<()> {
        let paused = self.pause();
        self.fast.stop().and(paused)
    }

    /// CPU time of DAMON, of reading, and of all processes' hint faults.
    fn cpu_time(&mut self) -> Result<Duration> {
        Ok(self.fast.cpu_time()? + self.spent + self.faults)
    }
}
