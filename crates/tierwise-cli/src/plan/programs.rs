//! Programs of a plan as workloads of the simulator, at their real size.
//!
//! A recording of a few hundred megabytes represents a program of tens of gigabytes as in the
//! scenarios of services: memory is simulated in granules, with the kernel's costs of all their
//! pages, and the recording is stretched in time by as much as its memory grows, so that each page
//! is accessed as often as a recorded one.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tierwise_core::migrate::Budget;
use tierwise_core::units::{Bytes, Pages};
use tierwise_sim::costs::Costs;
use tierwise_sim::machine::{Machine, TierModel};
use tierwise_sim::run::Prepared;
use tierwise_sim::scenario::{Scenario, TierSize, WorkloadSource, WorkloadSpec};

use super::file::{PlanFile, ProgramEntry, ProgramSource};
use super::sampled;
use crate::failure::Failure;
use crate::{bare_trace, input};

/// Base pages of a granule have an order of at most 15, as in scenario files.
const MAX_GROWTH: f64 = 32_768.0;

/// A program ready to be placed on machines.
#[derive(Debug, Clone)]
pub struct PlannedProgram {
    pub name: String,
    pub count: u64,
    pub workload: WorkloadSpec,
    /// The allowed slowdown.
    pub slowdown: Option<f64>,
    /// The allowed 99th percentile of response times.
    pub slo_ms: Option<f64>,
    /// Resident bytes of one instance.
    pub resident: u64,
}

/// The programs, and the shape that they share.
#[derive(Debug)]
pub struct PlannedHost {
    pub programs: Vec<PlannedProgram>,
    pub granule_order: u8,
    pub duration: Option<Duration>,
    /// Copies of recordings, which exist as long as this.
    _copies: Vec<TempDir>,
}

/// A program whose files were opened.
struct OpenedProgram<'a> {
    entry: &'a ProgramEntry,
    workload: WorkloadSpec,
    /// Resident bytes as recorded.
    recorded: u64,
    granule_order: u8,
    duration: Option<Duration>,
    /// Nanoseconds of a trace in fast memory, not stretched.
    alone_ns: Option<f64>,
    /// The copy of its recording that runs in its place.
    copy: Option<TempDir>,
}

/// Opens the programs. `fast_ns` is the latency of the catalogue's fastest memory.
pub fn open(plan: &PlanFile, fast_ns: f64) -> Result<PlannedHost, Failure> {
    let opened = plan.programs.iter().map(|entry| {
        opened(entry, fast_ns).map_err(|failure| failure.of(&format!("program {}", entry.name)))
    });
    let opened = opened.collect::<Result<Vec<_>, _>>()?;
    let growth = opened.iter().map(OpenedProgram::growth).fold(1.0, f64::max);
    if growth > MAX_GROWTH {
        return Err(Failure::User(format!(
            "size: found {growth:.0} times the recorded memory of a program; allowed: up to \
             {MAX_GROWTH}; record a larger program"
        )));
    }
    let by_growth = (growth.ceil() as u64).next_power_of_two().ilog2() as u8;
    let granule_order = opened.iter().map(|o| o.granule_order).fold(by_growth, u8::max);
    let longest = opened.iter().filter_map(OpenedProgram::lasts_ns).fold(0.0, f64::max);
    let duration = duration(plan, &opened, longest)?;
    let programs: Vec<PlannedProgram> =
        opened.iter().map(|o| o.planned(plan, granule_order, longest)).collect();
    let endless = |p: &&PlannedProgram| !ends(&p.workload);
    if let Some(program) = programs.iter().find(endless)
        && duration.is_none()
    {
        return Err(Failure::User(format!(
            "program {}: it never ends by itself; write duration_s in the plan",
            program.name
        )));
    }
    let copies = opened.into_iter().filter_map(|o| o.copy).collect();
    Ok(PlannedHost { programs, granule_order, duration, _copies: copies })
}

/// A limit beyond this asks for no figure, only that the program runs.
const SLOWEST: f64 = 2.0;

/// Returns the end of every run: not before the longest recording has ended as slowly as the plan
/// allows. A recording that is cut short would be judged by its beginning.
fn duration(
    plan: &PlanFile,
    opened: &[OpenedProgram<'_>],
    longest_ns: f64,
) -> Result<Option<Duration>, Failure> {
    let limits = opened.iter().map(|o| o.entry.slowdown.unwrap_or(plan.slowdown));
    let needed = (longest_ns * 1e-9 * limits.fold(1.0, f64::max).min(SLOWEST)).ceil();
    match plan.duration_s {
        Some(found) if found < needed => Err(Failure::User(format!(
            "duration_s: found {found}; allowed: at least {needed}, because the longest recording \
             takes that long at its real size; write that, or a smaller size"
        ))),
        Some(found) => Ok(Some(Duration::from_secs_f64(found))),
        None => {
            let of_scenarios = opened.iter().filter_map(|o| o.duration).max();
            Ok(of_scenarios.map(|its| its.max(Duration::from_secs_f64(needed))))
        }
    }
}

fn ends(workload: &WorkloadSpec) -> bool {
    match &workload.source {
        WorkloadSource::Trace(_) => true,
        WorkloadSource::Generator(_, spec) => spec.windows.is_some(),
        WorkloadSource::Service(_) => false,
    }
}

fn opened(entry: &ProgramEntry, fast_ns: f64) -> Result<OpenedProgram<'_>, Failure> {
    match &entry.source {
        ProgramSource::Trace(path) => {
            let copy = sampled::weighed(path, entry.memory_bound, fast_ns)?;
            let path = copy.as_ref().map_or_else(|| path.clone(), sampled::copied);
            let (workload, alone_ns) = bare_trace::workload(entry.name.clone(), &path, fast_ns)?;
            let recorded = resident(&workload, 0, None)?;
            let (granule_order, duration, alone_ns) = (0, None, Some(alone_ns));
            Ok(OpenedProgram { entry, workload, recorded, granule_order, duration, alone_ns, copy })
        }
        ProgramSource::Scenario(path, name) => of_scenario(entry, path, name.as_deref()),
    }
}

fn of_scenario<'a>(
    entry: &'a ProgramEntry,
    path: &Path,
    name: Option<&str>,
) -> Result<OpenedProgram<'a>, Failure> {
    let scenario = input::scenario(path)?;
    let names: Vec<&str> = scenario.workloads.iter().map(|w| w.name.as_str()).collect();
    let found = match name {
        Some(name) => scenario.workloads.iter().find(|w| w.name == name),
        None => scenario.workloads.first().filter(|_| names.len() == 1),
    };
    let workload = found.ok_or_else(|| {
        Failure::User(format!(
            "{}: workload: found {}; allowed: one of {}",
            path.display(),
            name.map_or_else(|| "none".to_owned(), |name| format!("\"{name}\"")),
            names.join(", ")
        ))
    })?;
    // The catalogue has the machine, and the plan the host's other programs.
    let workload = WorkloadSpec {
        start: Duration::ZERO,
        stop: None,
        floors: Vec::new(),
        caps: Vec::new(),
        profile: None,
        ..workload.clone()
    };
    let granule_order = scenario.machine.granule_order;
    let recorded = resident(&workload, granule_order, Some(Duration::from_secs(1)))?;
    let (duration, alone_ns, copy) = (scenario.duration, None, None);
    Ok(OpenedProgram { entry, workload, recorded, granule_order, duration, alone_ns, copy })
}

/// Returns the resident bytes of a workload.
fn resident(
    workload: &WorkloadSpec,
    granule_order: u8,
    duration: Option<Duration>,
) -> Result<u64, Failure> {
    let tiers = [("fast", 1.0), ("slow", 2.0)].map(|(name, load_ns)| TierModel {
        name: name.to_owned(),
        capacity: Bytes(1 << 30),
        load_ns,
        store_ns: load_ns,
        read_gbps: 1.0,
        write_gbps: 1.0,
        channels: 1,
        watermarks: None,
        reserve: Bytes(0),
        page_cache: Bytes(0),
    });
    let mut scenario = scenario(tiers.to_vec(), granule_order, vec![workload.clone()], duration);
    scenario.sizes = vec![TierSize::ShareOfResident(2.0); 2];
    let prepared = Prepared::load(scenario)?;
    Ok(Pages(prepared.resident_pages()).in_bytes(prepared.machine().page_size).0)
}

/// Returns a scenario of workloads on a machine of the catalogue.
pub fn scenario(
    tiers: Vec<TierModel>,
    granule_order: u8,
    workloads: Vec<WorkloadSpec>,
    duration: Option<Duration>,
) -> Scenario {
    Scenario {
        name: "plan".to_owned(),
        summary: "a host of the plan".to_owned(),
        machine: Machine {
            page_size: Bytes(4096),
            tiers,
            instruction_ns: Machine::DEFAULT_INSTRUCTION_NS,
            watermark_scale_factor: Machine::DEFAULT_WATERMARK_SCALE,
            granule_order,
            hardware: None,
            cpus: None,
            damon: None,
        },
        sizes: Vec::new(),
        costs: Costs::default(),
        budget: Budget::default(),
        workloads,
        duration,
    }
}

impl OpenedProgram<'_> {
    /// Returns by how much the recorded memory grows.
    fn growth(&self) -> f64 {
        let recorded = self.recorded.max(1) << self.granule_order;
        self.entry.size.map_or(1.0, |size| size.0 as f64 / recorded as f64).max(1.0)
    }

    fn dilation(&self) -> u32 {
        self.workload.dilation.max(self.growth().ceil() as u32)
    }

    fn lasts_ns(&self) -> Option<f64> {
        Some(self.alone_ns? * f64::from(self.dilation()))
    }

    fn planned(&self, plan: &PlanFile, granule_order: u8, longest_ns: f64) -> PlannedProgram {
        let entry = self.entry;
        let service = matches!(self.workload.source, WorkloadSource::Service(_));
        let slo_ms = self.workload.slo.filter(|_| service).map(|slo| slo.as_secs_f64() * 1e3);
        let resident = entry.size.map_or(self.recorded, |size| size.0);
        let footprint = match self.workload.footprint {
            None if !service && (granule_order > 0 || entry.size.is_some()) => {
                Some(Bytes(resident))
            }
            its => its,
        };
        // A short program goes on for as long as its neighbours, so that they all run together.
        let loops = self.lasts_ns().map_or(self.workload.loops, |ns| {
            (longest_ns / ns.max(1.0)).round().clamp(1.0, 1000.0) as u32
        });
        let workload = WorkloadSpec {
            name: entry.name.clone(),
            weight: entry.weight,
            threads: entry.threads.max(self.workload.threads),
            dilation: self.dilation(),
            footprint,
            loops,
            ..self.workload.clone()
        };
        let slowdown = entry.slowdown.or(slo_ms.is_none().then_some(plan.slowdown));
        let (name, count) = (entry.name.clone(), entry.count);
        PlannedProgram { name, count, workload, slowdown, slo_ms, resident }
    }
}
