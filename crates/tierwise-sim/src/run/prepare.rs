//! Opens the files of a scenario and sizes its machine.

use std::sync::Arc;

use tierwise_core::learn::Learning;
use tierwise_core::recipe::Recipe;
use tierwise_core::tenant::TenantSpec;
use tierwise_core::units::{Bytes, Pages};
use tierwise_trace::cut::Merge;
use tierwise_trace::generate::{self, GeneratorSpec};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::{Window, WindowSource};

use super::fit::{check_lengths, check_page_size, check_sizes, check_slo, impossible};
use super::profile::read_profile;
use super::{RunOptions, Watch};
use crate::bound::Bounds;
use crate::error::SimError;
use crate::granule::median_touch;
use crate::host::node::ManagedNode;
use crate::host::{Schedule, SimulatedHost};
use crate::machine::Machine;
use crate::requests::spec::ServiceSpec;
use crate::requests::tenant::RequestService;
use crate::rescale::PageOrder;
use crate::scenario::{Scenario, TierSize, WorkloadSource, WorkloadSpec};
use crate::service::RunningService;
use crate::windows::{LoadError, LoadedTrace, MeasuredMarks, Part, Shape, Windows};
use crate::workload::{Workload, WorkloadKind};

/// A scenario with its traces loaded, ready to run any number of times, also concurrently.
pub struct Prepared {
    scenario: Scenario,
    machine: Machine,
    ready: Vec<Ready>,
    tenants: Vec<TenantSpec>,
    learning: Option<Arc<dyn Learning>>,
    watch: Watch,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("scenario", &self.scenario.name).finish_non_exhaustive()
    }
}

/// A workload ready to run.
#[derive(Debug)]
pub(super) enum Ready {
    Loaded(Arc<Part>),
    Stream { name: String, spec: GeneratorSpec, resident: u64 },
    Service(RequestService),
}

impl Ready {
    /// Returns the workload on a machine of other sizes, with the oracle's bounds there.
    fn resized(&self, workload: &WorkloadSpec, machine: &Machine) -> Self {
        match self {
            Self::Loaded(part) => {
                let bounds = Bounds::of(machine, workload.memory_level_parallelism);
                let bounds = part.program.bounds(&bounds);
                let program = Arc::clone(&part.program);
                let (measure_from, loops) = (part.measure_from, part.loops);
                Self::Loaded(Arc::new(Part { program, measure_from, loops, bounds }))
            }
            Self::Stream { name, spec, resident } => {
                Self::Stream { name: name.clone(), spec: spec.clone(), resident: *resident }
            }
            Self::Service(service) => Self::Service(service.clone()),
        }
    }
}

/// Bytes of a base page of the generators, recordings and services that a machine of granules runs.
const BASE_PAGE: u64 = 4096;

/// Rows of a generated workload that are kept in memory, so that several runs need not generate
/// them again: a row is 24 bytes, so this is at most half a gigabyte.
const MAX_ROWS_KEPT: u64 = 20_000_000;

impl Prepared {
    /// Opens the files of the scenario.
    ///
    /// # Errors
    /// A trace is missing or damaged, a generator's parameters are impossible, or a tenant is
    /// larger than the machine.
    pub fn load(scenario: Scenario) -> Result<Self, SimError> {
        let loaded: Vec<Opened> = scenario
            .workloads
            .iter()
            .map(|w| Opened::open(w, &scenario.machine))
            .collect::<Result<_, _>>()?;
        let resident: Vec<u64> =
            loaded.iter().map(|o| o.resident(scenario.machine.granule_order)).collect();
        let resident = scenario.peak_together(&resident);
        for (workload, opened) in scenario.workloads.iter().zip(&loaded) {
            check_page_size(workload, opened, scenario.machine.page_size)?;
        }
        let machine = scenario.resolve(Pages(resident).in_bytes(scenario.machine.page_size));
        let granule = scenario.machine.granule_order;
        check_sizes(&scenario, &machine, loaded.iter().map(|o| o.resident(granule)))?;
        let ready = scenario
            .workloads
            .iter()
            .zip(loaded)
            .map(|(workload, opened)| opened.place(workload, &machine))
            .collect::<Result<Vec<_>, _>>()?;
        check_lengths(&scenario, &ready)?;
        let workloads = scenario.workloads.iter().zip(&ready);
        let tenants = workloads.map(tenant).collect::<Result<Vec<_>, _>>()?;
        tierwise_core::tenant::check(&tenants, &machine.topology())?;
        let has_slo = tenants.iter().any(|tenant| tenant.slo.is_some());
        let learning = if has_slo {
            tierwise_learn::learning()
        } else {
            tierwise_learn::learning_without_slo()
        };
        let learning = Some(learning);
        Ok(Self { scenario, machine, ready, tenants, learning, watch: Watch::default() })
    }

    /// Returns the same workloads on a machine whose tiers have other sizes. Nothing is read again.
    ///
    /// # Errors
    /// A tenant does not fit, or the tenants' floors do not.
    pub fn resized(&self, sizes: Vec<TierSize>) -> Result<Self, SimError> {
        self.on(Scenario { sizes, ..self.scenario.clone() })
    }

    /// Returns the same workloads with another number of misses in flight per thread, at least 1.
    /// Nothing is read again.
    ///
    /// # Errors
    /// None that the workloads' first machine did not have.
    pub fn overlapped(&self, misses_in_flight: f64) -> Result<Self, SimError> {
        let mut scenario = self.scenario.clone();
        for workload in &mut scenario.workloads {
            workload.memory_level_parallelism = misses_in_flight;
        }
        self.on(scenario)
    }

    /// The same workloads on a machine of other sizes, or with other misses in flight.
    fn on(&self, scenario: Scenario) -> Result<Self, SimError> {
        let resident = Pages(self.resident_pages()).in_bytes(scenario.machine.page_size);
        let machine = scenario.resolve(resident);
        check_sizes(&scenario, &machine, (0..self.ready.len()).map(|i| self.resident_of(i)))?;
        tierwise_core::tenant::check(&self.tenants, &machine.topology())?;
        let pairs = self.ready.iter().zip(&scenario.workloads);
        let ready = pairs.map(|(ready, workload)| ready.resized(workload, &machine)).collect();
        let (tenants, learning) = (self.tenants.clone(), self.learning.clone());
        Ok(Self { scenario, machine, ready, tenants, learning, watch: self.watch.clone() })
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Sets the learner of recipes that learn, from now on; the default is `tierwise-learn`.
    #[must_use]
    pub fn with_learning(self, learning: Arc<dyn Learning>) -> Self {
        Self { learning: Some(learning), ..self }
    }

    /// Calls `watch` at each step of every run.
    #[must_use]
    pub fn with_watch(self, watch: Watch) -> Self {
        Self { watch, ..self }
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The learner of recipes that learn.
    pub fn learning(&self) -> Option<&Arc<dyn Learning>> {
        self.learning.as_ref()
    }

    /// The tenant specs for the engine.
    pub fn tenants(&self) -> &[TenantSpec] {
        &self.tenants
    }

    /// Returns true if its machine has the signals that a recipe requires.
    pub fn can_run(&self, recipe: &Recipe) -> bool {
        recipe.runs_on(&self.machine.topology(), &self.machine.capabilities())
    }

    /// The machine, with its tiers sized.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The windows that are held in memory, by workload; `None` for a streamed generator.
    pub fn parts(&self) -> impl Iterator<Item = Option<&Arc<Part>>> {
        self.ready.iter().map(|p| match p {
            Ready::Loaded(part) => Some(part),
            Ready::Stream { .. } | Ready::Service(_) => None,
        })
    }

    /// Peak resident base pages of a workload.
    pub fn resident_of(&self, workload: usize) -> u64 {
        match &self.ready[workload] {
            Ready::Loaded(part) => part.program.peak_resident,
            Ready::Stream { resident, .. } => *resident,
            Ready::Service(service) => u64::from(service.mix.units) << self.machine.granule_order,
        }
    }

    /// Peak resident base pages of all workloads together, as if all that may run at one time
    /// peaked at once.
    pub fn resident_pages(&self) -> u64 {
        let each: Vec<u64> = (0..self.ready.len()).map(|i| self.resident_of(i)).collect();
        self.scenario.peak_together(&each)
    }

    /// The windows of a workload, from the start.
    ///
    /// # Errors
    /// A generator's parameters are impossible.
    pub fn windows(&self, workload: usize) -> Result<Windows, SimError> {
        let w = &self.scenario.workloads[workload];
        match &self.ready[workload] {
            Ready::Loaded(part) => Ok(Windows::of(Arc::clone(part), w.dilation)),
            Ready::Stream { name, spec, .. } => {
                let source = generate::build(name, spec).map_err(|e| impossible(w, e))?;
                let bounds = Bounds::of(&self.machine, w.memory_level_parallelism);
                let from = w.measure_from.as_deref().unwrap_or("");
                Ok(Windows::stream(source, from, w.dilation, bounds, spec.order))
            }
            Ready::Service(service) => {
                Ok(Windows::service(service.mix.units, self.machine.granule_order))
            }
        }
    }

    pub(super) fn host(
        &self,
        machine: Machine,
        options: &RunOptions,
    ) -> Result<SimulatedHost, SimError> {
        let tiers = machine.tiers.len();
        let mut workloads = Vec::new();
        let before = self.scenario.predecessors();
        for (i, w) in self.scenario.workloads.iter().enumerate() {
            let schedule = Schedule {
                start: w.start.as_nanos() as u64,
                after: before[i],
                stop: w.stop.map(|s| s.as_nanos() as u64),
                memory_level_parallelism: w.memory_level_parallelism,
                own_cpus: w.own_cpus,
            };
            let phase_seed = crate::hash::mix(options.seed ^ (i as u64) << 48);
            let mut workload = Workload::new(self.windows(i)?, tiers, phase_seed);
            workload.threads = f64::from(w.threads);
            workload.client_share = w.client_share;
            workload.leaves_memory = w.leaves_memory;
            let pages = f64::from(1u32 << machine.granule_order);
            workload.reporting_touches = median_touch(pages);
            if let Ready::Service(service) = &self.ready[i] {
                let service = RequestService { seed: phase_seed, ..service.clone() };
                let running = RunningService::new(&service, schedule.start, tiers, pages);
                let running = running.map_err(|e| impossible(w, e))?;
                workload.kind = WorkloadKind::Service(Box::new(running));
            }
            workloads.push((workload, schedule));
        }
        let Scenario { costs, duration, .. } = self.scenario;
        let costs = costs.for_granules(1 << machine.granule_order);
        let node = self.managed(&machine, options.seed)?;
        let mut host = SimulatedHost::new(machine, costs, workloads, duration, options.seed);
        if let Some(node) = node {
            host.manage(node);
        }
        host.watch(self.watch.clone());
        host.set_check(options.check);
        host.set_budget(self.scenario.budget);
        host.inject(options.injection);
        let second = std::time::Duration::from_secs(1);
        if let Some(every) = options.timeline.or(options.record.then_some(second)) {
            host.keep_timeline(every);
        }
        if options.heat_map {
            let every = options.timeline.unwrap_or(second);
            // Its rows are of simulated pages.
            let pages = self.resident_pages() >> self.machine.granule_order;
            host.keep_heat_map(pages as u32, every);
        }
        Ok(host)
    }

    /// The tier that the CPU manages, if there is one.
    fn managed(&self, machine: &Machine, seed: u64) -> Result<Option<ManagedNode>, SimError> {
        let Some(hardware) = machine.hardware else { return Ok(None) };
        for (workload, ready) in self.scenario.workloads.iter().zip(&self.ready) {
            if workload.huge_pages || !matches!(ready, Ready::Loaded(_) | Ready::Stream { .. }) {
                let why = "a hardware-managed tier is simulated for workloads in base pages; \
                           remove huge_pages, or describe the workload as a trace or generator \
                           instead of a service";
                return Err(impossible(workload, why));
            }
        }
        let resident: Vec<u64> = (0..self.ready.len()).map(|i| self.resident_of(i)).collect();
        let follows: Vec<bool> =
            self.scenario.workloads.iter().map(|w| w.after.is_some()).collect();
        let together = (&follows[..], self.resident_pages());
        ManagedNode::new(machine, hardware, &resident, together, seed).map(Some)
    }

    /// The share of a run that is over, 0 to 1.
    pub(super) fn share_done(&self, host: &SimulatedHost) -> f64 {
        use tierwise_core::world::World;
        let by_time = self.scenario.duration.map(|d| host.now().as_secs_f64() / d.as_secs_f64());
        let by_work = host.workloads().iter().zip(&self.ready).map(|(running, p)| match p {
            Ready::Loaded(part) => running.windows.taken() as f64 / part.windows() as f64,
            Ready::Stream { spec, .. } => {
                spec.windows.map_or(0.0, |w| running.windows.taken() as f64 / w as f64)
            }
            Ready::Service(_) => 0.0,
        });
        by_work.fold(1.0, f64::min).max(by_time.unwrap_or(0.0)).clamp(0.0, 1.0)
    }
}

/// A source that was opened, before the machine's size is known.
pub(super) enum Opened {
    Loaded(LoadedTrace),
    Stream { name: String, spec: GeneratorSpec },
    Service { spec: ServiceSpec, windows: Vec<Window>, units: u32 },
}

impl Opened {
    fn open(workload: &WorkloadSpec, machine: &Machine) -> Result<Self, SimError> {
        let granule = machine.granule_order;
        if granule > 0 && workload.huge_pages {
            let why = "huge_pages and a machine's granule exclude each other; keep one";
            return Err(impossible(workload, why));
        }
        match &workload.source {
            WorkloadSource::Trace(path) => {
                let mut source = Merge::new(TraceReader::open(path)?, workload.merge.into());
                Self::read(workload, &mut source, machine)
            }
            WorkloadSource::Generator(name, spec) => Self::generator(workload, name, spec, machine),
            WorkloadSource::Service(spec) => Self::service(spec, granule),
        }
    }

    fn service(spec: &ServiceSpec, granule: u8) -> Result<Self, SimError> {
        let mut windows = Vec::new();
        if let Some(path) = spec.trace() {
            let mut reader = TraceReader::open(path)?;
            let mut window = Window::default();
            while reader.next_window(&mut window)? {
                windows.push(std::mem::take(&mut window));
            }
        }
        let units = spec.units(Bytes(BASE_PAGE << granule));
        Ok(Self::Service { spec: spec.clone(), windows, units })
    }

    fn read(
        workload: &WorkloadSpec,
        source: &mut dyn WindowSource,
        machine: &Machine,
    ) -> Result<Self, SimError> {
        let granule = machine.granule_order;
        let until = workload.measure_to.as_deref();
        let unit = u64::from(source.header().page_size) << granule;
        let units = |bytes: Bytes| bytes.0.div_ceil(unit.max(1)).min(u64::from(u32::MAX)) as u32;
        // What a daemon moves, and what DAMON checks, are pieces of addresses.
        let order =
            if machine.damon.is_some() { PageOrder::Address } else { PageOrder::Allocation };
        let shape = Shape {
            units: workload.footprint.map(units),
            order,
            scale: workload.scale,
            huge_pages: workload.huge_pages,
            granule_order: granule,
        };
        let measured = MeasuredMarks { from: workload.measure_from.as_deref(), until };
        let mut loaded =
            LoadedTrace::read(source, measured, shape).map_err(|error| match error {
                LoadError::Trace(error) => error.into(),
                error => impossible(workload, error),
            })?;
        if loaded.windows.is_empty() {
            let why = "its trace holds no window: the program that was recorded ended before it \
                       ran, or `measure_to` marks the start; record one that runs";
            return Err(impossible(workload, why));
        }
        if let Some(mark) = &workload.run_from
            && !loaded.run_from(mark)
        {
            return Err(unknown_mark(workload, "run_from", mark, &loaded));
        }
        match until {
            Some(mark) if !loaded.ends_at_mark => {
                Err(unknown_mark(workload, "measure_to", mark, &loaded))
            }
            _ => Ok(Self::Loaded(loaded)),
        }
    }

    fn generator(
        workload: &WorkloadSpec,
        name: &str,
        spec: &GeneratorSpec,
        machine: &Machine,
    ) -> Result<Self, SimError> {
        let mut source = generate::build(name, spec).map_err(|e| impossible(workload, e))?;
        let rows = u64::from(spec.accesses_per_window).min(spec.footprint_pages);
        let all = spec.windows.map(|w| w.saturating_mul(rows).saturating_add(spec.footprint_pages));
        if all.is_some_and(|all| all.saturating_mul(workload.scale.into()) <= MAX_ROWS_KEPT) {
            return Self::read(workload, &mut *source, machine);
        }
        if machine.granule_order > 0
            || workload.footprint.is_some()
            || workload.scale > 1
            || workload.loops > 1
            || workload.merge > 1
            || workload.huge_pages
            || workload.run_from.is_some()
        {
            return Err(impossible(
                workload,
                format!(
                    "granule, footprint, scale, loops, merge, run_from and huge_pages need a \
                     workload that fits into memory (at most {MAX_ROWS_KEPT} rows); give the \
                     generator the footprint, windows and order instead"
                ),
            ));
        }
        Ok(Self::Stream { name: name.to_owned(), spec: spec.clone() })
    }

    fn resident(&self, granule: u8) -> u64 {
        match self {
            Self::Service { units, .. } => u64::from(*units) << granule,
            Self::Loaded(program) => program.peak_resident,
            Self::Stream { spec, .. } => spec.footprint_pages,
        }
    }

    fn place(self, workload: &WorkloadSpec, machine: &Machine) -> Result<Ready, SimError> {
        match self {
            Self::Service { spec, windows, units } => {
                let fast_ns = machine.tiers.first().map_or(0.0, |t| t.load_ns);
                let mix =
                    spec.mix(units, &windows, fast_ns).map_err(|e| impossible(workload, e))?;
                check_slo(workload, &spec, &mix, fast_ns)?;
                Ok(Ready::Service(spec.service(mix, 0)))
            }
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

fn tenant((workload, ready): (&WorkloadSpec, &Ready)) -> Result<TenantSpec, SimError> {
    let profile = workload.profile.as_deref().map(read_profile).transpose()?;
    let full_load = match (&workload.source, ready) {
        (WorkloadSource::Service(spec), Ready::Service(service)) => {
            let (loads, stores) = service.mix.misses();
            Some(spec.max_per_second * (loads + stores))
        }
        _ => None,
    };
    Ok(TenantSpec { profile, full_load, ..workload.tenant() })
}

fn measured_from(workload: &WorkloadSpec, program: &LoadedTrace) -> Result<usize, SimError> {
    let Some(mark) = &workload.measure_from else { return Ok(0) };
    program.mark(mark).ok_or_else(|| unknown_mark(workload, "measure_from", mark, program))
}

fn unknown_mark(workload: &WorkloadSpec, key: &str, mark: &str, program: &LoadedTrace) -> SimError {
    let marks: Vec<&str> = program.marks().collect();
    let known = if marks.is_empty() { "none".to_owned() } else { marks.join(", ") };
    impossible(workload, format!("{key} = \"{mark}\" is not a mark of its trace; it has: {known}"))
}
