//! From the configuration to a world and an engine.

use std::time::Duration;

use anyhow::Context;
use tierwise_core::engine::Engine;
use tierwise_core::observe::DamonAttrs;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::TenantId;
use tierwise_core::world::World;

use tierwise_linux::damon::admin::{self, Left};
use tierwise_linux::damon::physical;
use tierwise_linux::migrate::Limits;
use tierwise_linux::migrate::page_cache::promotion::cache_record;
use tierwise_linux::monitor::AccessMonitor;
use tierwise_linux::monitor::auto::AccessSource;
use tierwise_linux::monitor::damon_paddr::DamonPaddr;
use tierwise_linux::monitor::damon_vaddr::{self, DamonVaddr};
use tierwise_linux::monitor::hint_faults::{HintFaultConfig, HintFaultMonitor, hint_fault_record};
use tierwise_linux::monitor::idle_bitmap::IdleBitmap;
use tierwise_linux::monitor::pagemap_scan::PagemapScan;
use tierwise_linux::monitor::perf_samples::PerfSamples;
use tierwise_linux::monitor::soft_dirty::SoftDirty;
use tierwise_linux::settings::{Knob, Settings, restore_after};
use tierwise_linux::state_file::private_directory;
use tierwise_linux::tenant::TenantSelector;
use tierwise_linux::topology::{LinuxHost, Suitability};
use tierwise_linux::world::{LiveWorld, WorldConfig, damon_record};

use super::{DaemonChannels, History, Options};
use crate::config::{ClassName, Config, TenantConfig};
use crate::judgement::{self, SourceJudgement, UsableSource};
use crate::view::DaemonMode;

/// Last-level misses per sample, where the CPU samples: ten times MEMTIS's own figure
/// (htmm_inst_sample_period is 200 for loads), because a live machine pays for each sample with an
/// interrupt.
const SAMPLE_PERIOD: u64 = 2000;

/// Min DAMON regions: DAMON's own default.
const MIN_REGIONS: u32 = 10;

/// The mode that this machine and the options allow, and why it is not [`DaemonMode::Manage`].
pub(super) fn mode(options: &Options, host: &LinuxHost) -> (DaemonMode, String) {
    let suitability = host.suitability();
    if suitability != Suitability::Tiered {
        return (DaemonMode::Observe, suitability.to_string());
    }
    if options.dry_run || options.config.dry_run {
        let by = if options.dry_run { "--dry-run" } else { "dry_run = true" };
        return (DaemonMode::DryRun, format!("{by}: moves are reported and not made"));
    }
    (DaemonMode::Manage, String::new())
}

/// Opens the record of the kernel's settings. Restores first the settings that a killed daemon left
/// changed. Releases DAMON, if configured.
pub(super) fn open_settings(
    options: &Options,
    mode: DaemonMode,
    history: &mut History,
) -> anyhow::Result<Settings> {
    let state = &options.config.state;
    private_directory(state)?;
    let mut unknown = Vec::new();
    let (mut settings, report) =
        Settings::open_after(&options.roots, &state.join("settings.json"), || {
            for record in [damon_record(state), cache_record(state)] {
                if let Left::Unknown(problem) = admin::clean_up_recorded(&options.roots, &record)? {
                    unknown.push(problem);
                }
            }
            Ok(())
        })?;
    unknown.into_iter().for_each(|problem| history.notice(0.0, problem));
    // A killed daemon may have had another source than this one.
    let scan = restore_after(&options.roots, &hint_fault_record(state), || Ok(()))?;
    for report in [report, scan] {
        let lines = report.to_string();
        lines.lines().for_each(|line| history.notice(0.0, format!("of an earlier run: {line}")));
    }
    // A kernel without the module has nothing to release.
    let holds_damon = Knob::DamonStat.path(&options.roots).exists();
    if options.config.kernel.release_damon && mode != DaemonMode::Observe && holds_damon {
        settings.take(Knob::DamonStat, "N")?;
    }
    Ok(settings)
}

/// Takes over the configured settings of the kernel's own tiering. Only a daemon that manages may.
pub(super) fn take_over(options: &Options, settings: &mut Settings) -> anyhow::Result<()> {
    let kernel = &options.config.kernel;
    if let Some(value) = kernel.numa_balancing {
        settings.take(Knob::NumaBalancing, &value.to_string())?;
    }
    if let Some(on) = kernel.demotion {
        settings.take(Knob::DemotionEnabled, if on { "1" } else { "0" })?;
    }
    Ok(())
}

/// The world, without access monitoring yet.
pub(super) fn world(options: &Options, host: LinuxHost, channels: &DaemonChannels) -> LiveWorld {
    let config = &options.config;
    let settings = WorldConfig {
        roots: options.roots.clone(),
        block: config.block.bytes(),
        interval: Duration::from_millis(config.monitor.interval_ms),
        limits: Limits {
            bandwidth: None, // the engine's planner has it
            cpu: None,
            call: Duration::from_millis(config.moving.call_p99_ms),
            shared: config.moving.shared,
        },
        dry_run: false,
        cpu: (config.cpu.budget_percent / 100.0, config.cpu.cap_percent / 100.0),
    };
    LiveWorld::new(settings, host, channels.wake.clone())
}

/// Starts access monitoring. Returns the source with the reason for it.
pub(super) fn start_monitoring(
    source: SourceJudgement,
    options: &Options,
    world: &mut LiveWorld,
) -> anyhow::Result<String> {
    world.can_monitor()?;
    let UsableSource { source, why } =
        source(&options.config, &options.roots).map_err(anyhow::Error::msg)?;
    let monitor = make(source, options, world.host())?;
    world.monitor_with(monitor)?;
    Ok(why)
}

fn make(
    source: AccessSource,
    options: &Options,
    host: &LinuxHost,
) -> anyhow::Result<Box<dyn AccessMonitor>> {
    let (roots, monitor) = (&options.roots, &options.config.monitor);
    Ok(match source {
        AccessSource::IdleBitmap => Box::new(IdleBitmap::new(roots)?),
        AccessSource::PerfSamples => Box::new(PerfSamples::new(roots, SAMPLE_PERIOD)?),
        AccessSource::SoftDirty => Box::new(SoftDirty::new(roots)?),
        AccessSource::DamonPaddr => {
            let (attrs, record) = (damon_attrs(monitor), damon_record(&options.config.state));
            let nodes: Vec<u32> = host.tiers.iter().flat_map(|tier| &tier.nodes).copied().collect();
            let memory = physical::of_nodes(roots, &nodes)?;
            Box::new(DamonPaddr::new(roots, Some(&record), attrs, memory)?)
        }
        // The configuration cannot name it: it reports only programs that take part.
        AccessSource::PagemapScan => Box::new(PagemapScan::new(roots)?),
        AccessSource::DamonVaddr => on_processes(options)?,
        AccessSource::HintFaults => {
            let config = HintFaultConfig {
                record: hint_fault_record(&options.config.state),
                balances: host.has_several_cpu_nodes(),
                budget: options.config.cpu.budget_percent / 100.0,
                damon: damon_attrs(monitor),
            };
            Box::new(HintFaultMonitor::new(roots, config, on_processes(options)?)?)
        }
    })
}

/// DAMON on processes.
fn on_processes(options: &Options) -> anyhow::Result<Box<dyn AccessMonitor>> {
    let monitor = &options.config.monitor;
    let (attrs, record) = (damon_attrs(monitor), damon_record(&options.config.state));
    let budget = options.config.cpu.budget_percent / 100.0;
    let monitor = DamonVaddr::new(&options.roots, Some(&record), attrs, damon_vaddr::MAX)?;
    Ok(Box::new(monitor.with_budget(budget).with_tracepoint()))
}

fn damon_attrs(monitor: &crate::config::Monitor) -> DamonAttrs {
    DamonAttrs {
        sampling: Duration::from_millis(monitor.sampling_ms),
        aggregation: Duration::from_millis(monitor.aggregation_ms),
        min_regions: MIN_REGIONS,
        max_regions: monitor.regions as u32,
    }
}

/// The tenants' names and selectors.
pub(super) fn selectors(config: &Config) -> anyhow::Result<Vec<(String, TenantSelector)>> {
    config.tenants.iter().map(|tenant| Ok((tenant.name.clone(), selector(tenant)?))).collect()
}

/// An SLO is at least as long as so many calls that move the service's pages. The kernel unmaps the
/// pages of a call together, and a request that needs one of them waits until it is mapped again. A
/// service that steering gives up has half of its SLO left (`slack`), of which a call takes a
/// quarter: a request may meet two such calls, and each may lose the CPU once.
const CALLS_PER_SLO: u32 = 8;

/// Tells the world which tenants are services, and how long calls may keep their requests.
pub(super) fn set_services(config: &Config, world: &mut LiveWorld) {
    let is_service = |tenant: &TenantConfig| tenant.class == ClassName::LatencyCritical;
    world.set_services(config.tenants.iter().map(is_service).collect());
    let slos = config.tenants.iter().enumerate();
    let slos = slos.filter_map(|(i, tenant)| Some((TenantId(i as u16), tenant.slo()?)));
    world.set_call_targets(slos.map(|(tenant, slo)| (tenant, slo / CALLS_PER_SLO)));
}

/// The selector of a tenant's processes.
pub(super) fn selector(tenant: &TenantConfig) -> anyhow::Result<TenantSelector> {
    if let Some(pod) = &tenant.pod {
        let groups = TenantSelector::groups(pod.groups.iter().map(String::as_str));
        return groups.with_context(|| format!("pod {:?}", tenant.name));
    }
    let text = match (&tenant.cgroup, tenant.qmp(), &tenant.qemu) {
        (Some(cgroup), ..) => format!("cgroup:{cgroup}"),
        (None, Some(path), _) => format!("qemu-qmp:{path}"),
        (None, None, Some(path)) if path.starts_with('/') => format!("qemu-pidfile:{path}"),
        (None, None, Some(name)) => format!("qemu:{name}"),
        (None, None, None) => return Ok(TenantSelector::Pids(tenant.pids.clone())),
    };
    text.parse().with_context(|| format!("tenant {:?}", tenant.name))
}

/// The engine for a world.
pub(super) fn engine(
    config: &Config,
    world: &LiveWorld,
    mode: DaemonMode,
) -> anyhow::Result<Engine> {
    let decides = !matches!(mode, DaemonMode::Observe | DaemonMode::Steer);
    let recipe = if decides { config.recipe()? } else { Recipe::named("none")? };
    judgement::engine(config, recipe, world.topology(), &world.capabilities()).map_err(Into::into)
}
