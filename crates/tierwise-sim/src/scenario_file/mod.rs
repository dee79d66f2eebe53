//! The TOML form of a [`Scenario`].
//!
//! A scenario file describes a machine, its workloads, and a duration. Sizes may be given as shares
//! of the workloads' memory, so that a file suits traces of any size:
//!
//! ```
//! use std::path::Path;
//! use tierwise_core::units::Bytes;
//! use tierwise_sim::scenario::Scenario;
//!
//! let text = r#"
//! name = "zipf"
//! summary = "A skewed workload whose fast tier holds a quarter of it"
//! duration_s = 60
//!
//! [machine]
//! preset = "dram-cxl"     # 73 ns and 202 ns
//! fast_share = 0.25       # of the resident set; or fast = "64MiB"
//!
//! [[workload]]
//! name = "store"
//! [workload.generator]
//! pattern = "zipf"
//! footprint = "256MiB"
//! "#;
//! let scenario = Scenario::parse("zipf.toml", text, Path::new(".")).unwrap();
//! let machine = scenario.resolve(Bytes(256 << 20));
//! assert_eq!(machine.tiers[0].capacity, Bytes(64 << 20));
//! assert_eq!(machine.tiers[1].capacity, Bytes(512 << 20)); // twice the need
//!
//! let misspelt = text.replace("fast_share", "fastshare");
//! let error = Scenario::parse("zipf.toml", &misspelt, Path::new("."));
//! assert_eq!(
//!     error.unwrap_err().to_string(),
//!     "zipf.toml:8: machine.fastshare: unknown key; did you mean \"fast_share\"?"
//! );
//! ```
//!
//! `docs/cli.md` shows how to check a file; the shipped ones are in `scenarios/`.

mod combination;
mod generator;
mod hardware;
mod machine;
#[cfg(test)]
mod numbers;
mod service;
#[cfg(test)]
mod tests;
mod workload;

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use tierwise_core::config::{ConfigError, Document, Section};
use tierwise_core::migrate::Budget;
use tierwise_core::units::Bandwidth;

use crate::costs::Costs;
use crate::machine::Machine;
use crate::scenario::{Scenario, WorkloadSource, WorkloadSpec};

/// Allowed seconds of virtual time: from a millisecond to 115 days, above which a number is a
/// typing mistake.
const SECONDS: RangeInclusive<f64> = 0.001..=1e7;

/// Maximum number of letters of a name, which is a row of tables that fit a screen.
const NAME_LETTERS: usize = 64;

impl Scenario {
    /// Parses a scenario. `file` is its name in messages; the paths of traces start at `base`, the
    /// file's directory. It opens no file.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn parse(file: &str, text: &str, base: &Path) -> Result<Self, ConfigError> {
        let document = Document::parse(file, text)?;
        let root = document.root();
        let name = name(&root, "name")?;
        let summary = root.required_text("summary")?.to_owned();
        let duration = seconds(&root, "duration_s", SECONDS)?;
        let (machine, sizes) = machine::machine(&root.section("machine")?)?;
        let costs = Costs::parse(&root.section("costs")?)?;
        let budget = budget(&root.section("budget")?)?;
        let workloads = workloads(&root, base, duration)?;
        check_monitoring(&root, &machine, &workloads)?;
        check_cpus(&root, &machine, &workloads)?;
        root.finish()?;
        Ok(Self { name, summary, machine, sizes, costs, budget, workloads, duration })
    }
}

/// Refuses DAMON beside a service, whose accesses are reported one by one.
fn check_monitoring(
    root: &Section<'_>,
    machine: &Machine,
    workloads: &[WorkloadSpec],
) -> Result<(), ConfigError> {
    let is_service =
        |workload: &&WorkloadSpec| matches!(workload.source, WorkloadSource::Service(_));
    match workloads.iter().find(is_service).filter(|_| machine.damon.is_some()) {
        None => Ok(()),
        Some(service) => {
            let problem = format!(
                "workload \"{}\" is a service, whose accesses are reported exactly; remove \
                 [machine.damon], or the service",
                service.name
            );
            Err(root.section("machine")?.error("damon", problem))
        }
    }
}

/// Refuses CPUs of workloads' own that the machine does not have, or that leave none for others.
fn check_cpus(
    root: &Section<'_>,
    machine: &Machine,
    workloads: &[WorkloadSpec],
) -> Result<(), ConfigError> {
    let own: u32 = workloads.iter().filter(|w| w.own_cpus).map(WorkloadSpec::cpus).sum();
    let problem = match machine.cpus {
        _ if own == 0 => return Ok(()),
        None => "missing; own_cpus of a workload needs the machine's number of CPUs".to_owned(),
        Some(cpus) if own < cpus => return Ok(()),
        Some(cpus) => format!(
            "found {cpus}; allowed: more than {own}, which workloads with own_cpus have for \
             themselves"
        ),
    };
    Err(root.section("machine")?.error("cpus", problem))
}

fn budget(section: &Section<'_>) -> Result<Budget, ConfigError> {
    // Beyond ten terabytes per second no memory is limited.
    let megabytes = section.number("bandwidth_mbps", 0.001..=1e7)?;
    section.finish()?;
    Ok(Budget { bandwidth: megabytes.map(|mb| Bandwidth((mb * 1e6) as u64)) })
}

fn workloads(
    root: &Section<'_>,
    base: &Path,
    duration: Option<Duration>,
) -> Result<Vec<WorkloadSpec>, ConfigError> {
    let sections = root.sections("workload")?;
    if sections.is_empty() {
        return Err(root.error("workload", "missing; write at least one [[workload]]"));
    }
    let mut workloads: Vec<WorkloadSpec> = Vec::with_capacity(sections.len());
    for section in &sections {
        let workload = workload::workload(section, base)?;
        if workloads.iter().any(|other| other.name == workload.name) {
            let problem = format!("found \"{}\" a second time; names are unique", workload.name);
            return Err(section.error("name", problem));
        }
        check_order(section, &workload, &workloads)?;
        check_times(section, &workload, duration)?;
        workloads.push(workload);
    }
    Ok(workloads)
}

/// Refuses a workload that follows none of those before it: so no two wait for each other.
fn check_order(
    section: &Section<'_>,
    workload: &WorkloadSpec,
    before: &[WorkloadSpec],
) -> Result<(), ConfigError> {
    let Some(after) = &workload.after else { return Ok(()) };
    if before.iter().any(|other| other.name == *after) {
        return Ok(());
    }
    let names: Vec<&str> = before.iter().map(|other| other.name.as_str()).collect();
    let allowed = match &names[..] {
        [] => "none, because it is the first; write the workload that it follows above it".into(),
        names => format!("the name of a workload above it: {}", names.join(", ")),
    };
    Err(section.error("after", format!("found \"{after}\"; allowed: {allowed}")))
}

fn check_times(
    section: &Section<'_>,
    workload: &WorkloadSpec,
    duration: Option<Duration>,
) -> Result<(), ConfigError> {
    if let Some(duration) = duration
        && workload.start >= duration
    {
        let found = workload.start.as_secs_f64();
        let problem = format!(
            "found {found}; allowed: less than duration_s, which is {}",
            duration.as_secs_f64()
        );
        return Err(section.error("start_s", problem));
    }
    if duration.is_some() || workload.stop.is_some() {
        return Ok(());
    }
    match &workload.source {
        WorkloadSource::Trace(_) => Ok(()),
        WorkloadSource::Generator(_, spec) if spec.windows.is_some() => Ok(()),
        WorkloadSource::Generator(..) => {
            let problem = "this workload never ends; give generator.windows, stop_s, or the \
                           scenario's duration_s";
            Err(section.error("generator", problem))
        }
        WorkloadSource::Service(_) => {
            let problem =
                "a service never ends by itself; give stop_s, or the scenario's duration_s";
            Err(section.error("service", problem))
        }
    }
}

/// Reads a name that fits in a table: some letters, no control characters.
fn name(section: &Section<'_>, key: &'static str) -> Result<String, ConfigError> {
    let name = section.required_text(key)?;
    let letters = name.chars().count();
    if letters == 0 || letters > NAME_LETTERS || name.chars().any(char::is_control) {
        let problem = format!(
            "found {name:?}; allowed: 1 to {NAME_LETTERS} letters without control characters"
        );
        return Err(section.error(key, problem));
    }
    Ok(name.to_owned())
}

fn seconds(
    section: &Section<'_>,
    key: &'static str,
    allowed: RangeInclusive<f64>,
) -> Result<Option<Duration>, ConfigError> {
    Ok(section.number(key, allowed)?.map(Duration::from_secs_f64))
}
