//! Opens what a scenario names and sizes its machine.

use std::sync::Arc;

use tierwise_core::units::{Bytes, Pages};
use tierwise_trace::WindowSource;
use tierwise_trace::cut::Merge;
use tierwise_trace::generate::{self, GeneratorSpec};
use tierwise_trace::reader::TraceReader;

use super::RunOptions;
use crate::bound::Bounds;
use crate::error::SimError;
use crate::host::{Host, Schedule};
use crate::machine::Machine;
use crate::program::Program;
use crate::scenario::{Scenario, Source, Workload};
use crate::windows::{Loaded, Part, Windows};

/// A scenario with its traces loaded, ready to be run any number of times, also at once.
#[derive(Debug)]
pub struct Prepared {
    scenario: Scenario,
    machine: Machine,
    programs: Vec<Ready>,
}

/// A program ready to run.
#[derive(Debug)]
enum Ready {
    Loaded(Arc<Part>),
    Stream { name: String, spec: GeneratorSpec, resident: u64 },
}

/// Rows of a generated program that are kept in memory, so that several runs need not make them again: a
/// row is 24 bytes, so this is at most half a gigabyte.
const MOST_ROWS_KEPT: u64 = 20_000_000;

impl Prepared {
    /// Opens what the scenario names.
    ///
    /// # Errors
    /// A trace that is missing or damaged, a generator's impossible parameters, a tenant larger than
    /// the machine.
    pub fn load(scenario: Scenario) -> Result<Self, SimError> {
        let loaded: Vec<Opened> =
            scenario.workloads.iter().map(Opened::open).collect::<Result<_, _>>()?;
        let resident: u64 = loaded.iter().map(Opened::resident).sum();
        for (workload, opened) in scenario.workloads.iter().zip(&loaded) {
            check_page_size(workload, opened, scenario.machine.page_size)?;
        }
        let machine = scenario.resolve(Pages(resident).in_bytes(scenario.machine.page_size));
        check_sizes(&scenario, &machine, &loaded)?;
        let programs = scenario
            .workloads
            .iter()
            .zip(loaded)
            .map(|(workload, opened)| opened.place(workload, &machine))
            .collect::<Result<_, _>>()?;
        Ok(Self { scenario, machine, programs })
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The machine, with its tiers sized.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The programs that are held in memory, by workload; `None` for a streamed generator.
    pub fn parts(&self) -> impl Iterator<Item = Option<&Arc<Part>>> {
        self.programs.iter().map(|p| match p {
            Ready::Loaded(part) => Some(part),
            Ready::Stream { .. } => None,
        })
    }

    /// Peak resident base pages of a workload.
    pub fn resident_of(&self, workload: usize) -> u64 {
        match &self.programs[workload] {
            Ready::Loaded(part) => part.program.peak_resident,
            Ready::Stream { resident, .. } => *resident,
        }
    }

    /// Peak resident base pages of all workloads together, as if all peaked at once.
    pub fn resident_pages(&self) -> u64 {
        (0..self.programs.len()).map(|i| self.resident_of(i)).sum()
    }

    /// The windows of a workload, from the start.
    ///
    /// # Errors
    /// A generator's impossible parameters.
    pub fn windows(&self, workload: usize) -> Result<Windows, SimError> {
        let w = &self.scenario.workloads[workload];
        match &self.programs[workload] {
            Ready::Loaded(part) => Ok(Windows::of(Arc::clone(part), w.dilation)),
            Ready::Stream { name, spec, .. } => {
                let source = generate::build(name, spec).map_err(|e| impossible(w, e))?;
                let bounds = Bounds::of(&self.machine, w.memory_level_parallelism);
                let from = w.measure_from.as_deref().unwrap_or("");
                Ok(Windows::stream(source, from, w.dilation, bounds, spec.order))
            }
        }
    }

    pub(super) fn host(&self, machine: Machine, options: &RunOptions) -> Result<Host, SimError> {
        let tiers = machine.tiers.len();
        let mut programs = Vec::new();
        for (i, w) in self.scenario.workloads.iter().enumerate() {
            let schedule = Schedule {
                start: w.start.as_nanos() as u64,
                stop: w.stop.map(|s| s.as_nanos() as u64),
                memory_level_parallelism: w.memory_level_parallelism,
            };
            let phase_seed = crate::look::mix(options.seed ^ (i as u64) << 48);
            programs.push((Program::new(self.windows(i)?, tiers, phase_seed), schedule));
        }
        let Scenario { costs, duration, .. } = self.scenario;
        let mut host = Host::new(machine, costs, programs, duration, options.seed);
        host.set_check(options.check);
        host.set_budget(self.scenario.budget);
        host.inject(options.injection);
        if let Some(every) = options.timeline {
            host.keep_timeline(every);
        }
        if options.heat_map {
            let every = options.timeline.unwrap_or(std::time::Duration::from_secs(1));
            host.keep_heat_map(self.resident_pages() as u32, every);
        }
        Ok(host)
    }

    /// How much of a run is over, 0 to 1.
    pub(super) fn share_done(&self, host: &Host) -> f64 {
        use tierwise_core::world::World;
        let by_time = self.scenario.duration.map(|d| host.now().as_secs_f64() / d.as_secs_f64());
        let by_work = host.programs().iter().zip(&self.programs).map(|(running, p)| match p {
            Ready::Loaded(part) => running.windows.taken() as f64 / part.windows() as f64,
            Ready::Stream { spec, .. } => {
                spec.windows.map_or(0.0, |w| running.windows.taken() as f64 / w as f64)
            }
        });
        by_work.fold(1.0, f64::min).max(by_time.unwrap_or(0.0)).clamp(0.0, 1.0)
    }
}

/// A source that was opened, before the machine's size is known.
enum Opened {
    Loaded(Loaded),
    Stream { name: String, spec: GeneratorSpec },
}

impl Opened {
    fn open(workload: &Workload) -> Result<Self, SimError> {
        match &workload.source {
            Source::Trace(path) => {
                let mut source = Merge::new(TraceReader::open(path)?, workload.merge.into());
                Self::read(workload, &mut source)
            }
            Source::Generator(name, spec) => Self::generator(workload, name, spec),
        }
    }

    fn read(workload: &Workload, source: &mut dyn WindowSource) -> Result<Self, SimError> {
        let until = workload.measure_to.as_deref();
        let loaded = Loaded::read(source, until, workload.scale, workload.huge_pages)?;
        match until {
            Some(mark) if !loaded.ends_at_mark => {
                Err(unknown_mark(workload, "measure_to", mark, &loaded))
            }
            _ => Ok(Self::Loaded(loaded)),
        }
    }

    fn generator(workload: &Workload, name: &str, spec: &GeneratorSpec) -> Result<Self, SimError> {
        let mut source = generate::build(name, spec).map_err(|e| impossible(workload, e))?;
        let rows = u64::from(spec.accesses_per_window).min(spec.footprint_pages);
        let all = spec.windows.map(|w| w.saturating_mul(rows).saturating_add(spec.footprint_pages));
        if all.is_some_and(|all| all * u64::from(workload.scale) <= MOST_ROWS_KEPT) {
            return Self::read(workload, &mut *source);
        }
        if workload.scale > 1 || workload.loops > 1 || workload.merge > 1 || workload.huge_pages {
            return Err(impossible(
                workload,
                format!(
                    "scale, loops, merge and huge_pages need a program that fits into memory (at most \
                     {MOST_ROWS_KEPT} rows); give the generator the footprint, windows and order instead"
                ),
            ));
        }
        Ok(Self::Stream { name: name.to_owned(), spec: spec.clone() })
    }

    fn resident(&self) -> u64 {
        match self {
            Self::Loaded(program) => program.peak_resident,
            Self::Stream { spec, .. } => spec.footprint_pages,
        }
    }

    fn place(self, workload: &Workload, machine: &Machine) -> Result<Ready, SimError> {
        match self {
            Self::Stream { name, spec } => {
                let resident = spec.footprint_pages;
                Ok(Ready::Stream { name, spec, resident })
            }
            Self::Loaded(program) => {
                let measure_from = measured_from(workload, &program)?;
                let bounds = Bounds::of(machine, workload.memory_level_parallelism);
                let bounds = program.bounds(&bounds);
                let program = Arc::new(program);
                let loops = workload.loops;
                Ok(Ready::Loaded(Arc::new(Part { program, measure_from, loops, bounds })))
            }
        }
    }
}

fn measured_from(workload: &Workload, program: &Loaded) -> Result<usize, SimError> {
    let Some(mark) = &workload.measure_from else { return Ok(0) };
    program.mark(mark).ok_or_else(|| unknown_mark(workload, "measure_from", mark, program))
}

fn unknown_mark(workload: &Workload, key: &str, mark: &str, program: &Loaded) -> SimError {
    let marks: Vec<&str> = program.marks().collect();
    let known = if marks.is_empty() { "none".to_owned() } else { marks.join(", ") };
    impossible(workload, format!("{key} = \"{mark}\" is no mark of its trace; it has: {known}"))
}

fn impossible(workload: &Workload, why: impl std::fmt::Display) -> SimError {
    SimError::Scenario(format!("workload \"{}\": {why}", workload.name))
}

/// A trace counts in its own base pages; on a machine with others it would be another program.
fn check_page_size(workload: &Workload, opened: &Opened, machine: Bytes) -> Result<(), SimError> {
    let Opened::Loaded(program) = opened else { return Ok(()) };
    let trace = Bytes(program.header.page_size.into());
    if trace == machine {
        return Ok(());
    }
    let why =
        format!("its pages have {trace}, the machine's {machine}; set page_size = \"{trace}\"");
    Err(impossible(workload, why))
}

/// A tenant that can never fit is a mistake in the scenario, not an outcome.
fn check_sizes(scenario: &Scenario, machine: &Machine, loaded: &[Opened]) -> Result<(), SimError> {
    let capacity: Bytes = machine.tiers.iter().map(|t| t.capacity).sum();
    for (workload, opened) in scenario.workloads.iter().zip(loaded) {
        let needs = Pages(opened.resident()).in_bytes(machine.page_size);
        if needs > capacity {
            return Err(impossible(
                workload,
                format!(
                    "its {needs} do not fit into the machine's {capacity}; make a tier larger or the \
                     workload smaller"
                ),
            ));
        }
    }
    Ok(())
}
