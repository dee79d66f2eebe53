//! `tierwise scenario`: checks and lists scenario files.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use tierwise_core::units::{Bytes, Pages};
use tierwise_sim::run::Prepared;
use tierwise_sim::scenario::{Scenario, WorkloadSource, WorkloadSpec};

use crate::failure::{CommandResult, Failure};
use crate::table::{new_table, write_table};
use crate::{input, output, shipped};

/// Check scenario files, or list those that come with Tierwise.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise scenario list\n  \
                        tierwise scenario check scenarios/zipf.toml")]
pub struct ScenarioCommand {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check scenario files and show the resulting tiers and tenants with their sizes.
    ///
    /// The command reads traces to their end.
    #[command(after_help = "EXAMPLE\n  tierwise scenario check my-scenario.toml")]
    Check {
        /// The files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print JSON: a list with one object per file.
        #[arg(long)]
        json: bool,
    },
    /// List scenarios: file, name and purpose.
    #[command(
        after_help = "EXAMPLE\n  tierwise scenario list\n  tierwise scenario list my-directory"
    )]
    List {
        /// The directory to search, including those below [default: the scenarios that come with
        /// Tierwise].
        directory: Option<PathBuf>,
        /// Print JSON: a list with one object per file.
        #[arg(long)]
        json: bool,
    },
}

impl ScenarioCommand {
    pub fn execute(&self) -> CommandResult {
        match &self.command {
            Action::Check { files, json } => check(files, *json),
            Action::List { directory, json } => list(directory.as_deref(), *json),
        }
    }
}

#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    name: String,
    summary: String,
    duration_seconds: Option<f64>,
    tiers: Vec<Tier>,
    tenants: Vec<Tenant>,
}

#[derive(Debug, Serialize)]
struct Tier {
    name: String,
    capacity_bytes: u64,
    load_ns: f64,
    read_gbps: f64,
}

#[derive(Debug, Serialize)]
struct Tenant {
    name: String,
    class: &'static str,
    runs: String,
    resident_bytes: u64,
}

fn check(files: &[PathBuf], json: bool) -> CommandResult {
    let checked = files.iter().map(|file| check_one(file)).collect::<Result<Vec<_>, _>>()?;
    if json { output::json(&checked) } else { checked.iter().try_for_each(print) }
}

fn check_one(path: &Path) -> Result<Checked, Failure> {
    let file = path.to_string_lossy().into_owned();
    let scenario = input::scenario(path)?;
    let prepared = Prepared::load(scenario).map_err(|error| Failure::from(error).of(&file))?;
    let scenario = prepared.scenario();
    let page_size = prepared.machine().page_size;
    let tiers = prepared.machine().tiers.iter().map(|tier| Tier {
        name: tier.name.clone(),
        capacity_bytes: tier.capacity.0,
        load_ns: tier.load_ns,
        read_gbps: tier.read_gbps,
    });
    let tenants = scenario.workloads.iter().enumerate().map(|(i, workload)| Tenant {
        name: workload.name.clone(),
        class: workload.class.name(),
        runs: what_runs(workload),
        resident_bytes: Pages(prepared.resident_of(i)).in_bytes(page_size).0,
    });
    Ok(Checked {
        file,
        name: scenario.name.clone(),
        summary: scenario.summary.clone(),
        duration_seconds: scenario.duration.map(|d| d.as_secs_f64()),
        tiers: tiers.collect(),
        tenants: tenants.collect(),
    })
}

fn what_runs(workload: &WorkloadSpec) -> String {
    match &workload.source {
        WorkloadSource::Trace(path) => path.display().to_string(),
        WorkloadSource::Generator(pattern, _) => format!("generator {pattern}"),
        WorkloadSource::Service(service) => {
            format!(
                "a service, {:.0} requests per second on average",
                service.arrivals.mean_per_second()
            )
        }
    }
}

fn print(checked: &Checked) -> CommandResult {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{}: {}: {}", checked.file, checked.name, checked.summary)?;
    let head = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let mut tiers = new_table(head(&["  TIER", "SIZE", "LOAD", "READ"]));
    for tier in &checked.tiers {
        tiers.add_row([
            format!("  {}", tier.name),
            Bytes(tier.capacity_bytes).to_string(),
            format!("{} ns", tier.load_ns),
            format!("{:.1} GB/s", tier.read_gbps),
        ]);
    }
    let mut tenants = new_table(head(&["  TENANT", "RESIDENT", "CLASS", "RUNS"]));
    for tenant in &checked.tenants {
        tenants.add_row([
            format!("  {}", tenant.name),
            Bytes(tenant.resident_bytes).to_string(),
            tenant.class.to_owned(),
            tenant.runs.clone(),
        ]);
    }
    left(&mut tenants, 3);
    write_table(&mut out, &tiers, None)?;
    write_table(&mut out, &tenants, None)?;
    Ok(out.flush()?)
}

#[derive(Debug, Serialize)]
struct Listed {
    file: String,
    name: String,
    summary: String,
}

fn list(directory: Option<&Path>, json: bool) -> CommandResult {
    let directory = match directory {
        Some(directory) => directory.to_owned(),
        None => shipped::scenarios()?,
    };
    let mut files = Vec::new();
    find(&directory, &mut files)?;
    files.sort();
    let listed = files.iter().map(|path| {
        let Scenario { name, summary, .. } = input::scenario(path)?;
        Ok(Listed { file: path.display().to_string(), name, summary })
    });
    let listed = listed.collect::<Result<Vec<_>, Failure>>()?;
    if json {
        return output::json(&listed);
    }
    let mut table = new_table(["FILE", "WHAT IT SHOWS"].map(str::to_owned).to_vec());
    for one in &listed {
        table.add_row([&one.file, &one.summary]);
    }
    left(&mut table, 1);
    write_table(&mut anstream::stdout().lock(), &table, None)
}

/// Aligns words of a column to the left, unlike figures.
fn left(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(CellAlignment::Left);
    }
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) -> CommandResult {
    let refuse = |error| Failure::User(format!("{}: {error}", directory.display()));
    for entry in directory.read_dir().map_err(refuse)? {
        let path = entry.map_err(refuse)?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}
