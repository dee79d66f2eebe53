//! `tierwise profile`: measures a program's throughput at different sizes of fast memory.

mod measure;
mod sheet;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use tierwise_core::config::nearest;
use tierwise_core::tenant::Class;
use tierwise_core::units::Bytes;
use tierwise_sim::run::{Prepared, ProfileFile};

use crate::failure::{CommandResult, Failure};
use crate::number::rate;
use crate::output::NewFile;
use crate::run_args::RunArgs;
use crate::table::{new_table, write_table};
use crate::value::whole;
use crate::{input, output};

use measure::{Profiled, measure};

/// Measure each best-effort program's throughput against its fast memory, for policies that divide
/// by it.
///
/// Each program runs alone on the scenario's machine, with its fastest tier at evenly spaced sizes
/// from nothing to its full size, under a policy that keeps the hottest pages there. A scenario
/// names the files with `profile = "FILE"` in its workloads.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| {
    json.help("Print JSON: a list with one profile per workload, as in the files")
}))]
#[command(after_help = "EXAMPLE\n  tierwise profile scenarios/zipf.toml --points 9\n  \
                        tierwise profile scenarios/two-tenants.toml --workload scan --out profiles \
                        --html scan.html")]
pub struct ProfileCommand {
    /// The scenario.
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Profile this workload only; may be repeated [default: all best-effort ones].
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Sizes of fast memory, including none and all.
    #[arg(long, default_value_t = 33, value_name = "NUMBER", value_parser = whole(2..=1025_u32))]
    points: u32,
    /// The policy that selects the pages in fast memory (see `tierwise policies`): the one that
    /// will divide by the profiles, as another may find other pages.
    #[arg(long, default_value = "mtat", value_name = "NAME")]
    policy: String,
    /// Write one file per workload into this directory: WORKLOAD.json.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
}

impl ProfileCommand {
    pub fn execute(&self) -> CommandResult {
        let recipe = input::policy_that_runs(&self.policy)?;
        let scenario = input::scenario(&self.scenario)?;
        let name = self.scenario.to_string_lossy();
        let prepared = Prepared::load(scenario).map_err(|e| Failure::from(e).of(&name))?;
        let chosen = self.chosen(&prepared)?;
        let mut files = self.files(&prepared, &chosen)?;
        let html = self.run.html.as_deref().map(NewFile::create).transpose()?;
        let profiled = measure(self, &prepared, &chosen, &recipe).map_err(|e| e.of(&name))?;
        for (one, file) in profiled.iter().zip(files.drain(..)) {
            write(&one.file, file)?;
        }
        if let Some(file) = html {
            sheet::write(&profiled, &self.policy, file)?;
        }
        if self.run.json {
            let files: Vec<&ProfileFile> = profiled.iter().map(|one| &one.file).collect();
            return output::json(&files);
        }
        self.print(&profiled)
    }

    /// Returns the workloads to profile, by index.
    fn chosen(&self, prepared: &Prepared) -> Result<Vec<usize>, Failure> {
        let all = &prepared.scenario().workloads;
        let best_effort = |i: &usize| all[*i].class == Class::BestEffort;
        if self.workload.is_empty() {
            let chosen: Vec<usize> = (0..all.len()).filter(best_effort).collect();
            if chosen.is_empty() {
                return Err(Failure::User(format!(
                    "{}: no workload is best-effort; a latency-critical one has no use for a \
                     profile",
                    self.scenario.display()
                )));
            }
            return Ok(chosen);
        }
        let find = |name: &String| {
            let Some(found) = all.iter().position(|w| w.name == *name) else {
                let names = || all.iter().map(|w| w.name.as_str());
                let advice = nearest(name, names())
                    .map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
                let known = names().collect::<Vec<_>>().join(", ");
                return Err(Failure::User(format!(
                    "{}: no workload is called \"{name}\"{advice} (there are {known})",
                    self.scenario.display()
                )));
            };
            if !best_effort(&found) {
                return Err(Failure::User(format!(
                    "\"{name}\" is latency-critical: it is judged by its requests and has no use \
                     for a profile"
                )));
            }
            Ok(found)
        };
        self.workload.iter().map(find).collect()
    }

    /// Creates one file per workload, if `--out` names a directory.
    fn files(&self, prepared: &Prepared, chosen: &[usize]) -> Result<Vec<NewFile>, Failure> {
        let Some(directory) = &self.out else { return Ok(Vec::new()) };
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::User(format!("{}: cannot be made: {error}", directory.display()))
        })?;
        let workloads = &prepared.scenario().workloads;
        chosen.iter().map(|&i| NewFile::create(&file_name(directory, &workloads[i].name))).collect()
    }

    fn print(&self, profiled: &[Profiled]) -> CommandResult {
        let mut out = anstream::stdout().lock();
        for one in profiled {
            writeln!(out, "{}: {}", one.file.name, one.file.source)?;
            writeln!(out)?;
            let head = ["FAST MEMORY", "INSTR/S", "OF FULL", "SLOWDOWN", "FAST HITS"];
            let mut table = new_table(head.map(str::to_owned).to_vec());
            for (point, measured) in one.file.points.iter().zip(&one.measured) {
                table.add_row([
                    Bytes(point.fast_bytes).to_string(),
                    rate(point.throughput),
                    format!("{:.1} %", point.throughput / one.full() * 100.0),
                    format!("{:.3} x", measured.slowdown),
                    format!("{:.1} %", measured.fast_access_ratio * 100.0),
                ]);
            }
            write_table(&mut out, &table, None)?;
            writeln!(out)?;
            if let Some(directory) = &self.out {
                crate::output::print_error_line(format_args!(
                    "written to {}",
                    file_name(directory, &one.file.name).display()
                ));
            }
        }
        Ok(out.flush()?)
    }
}

/// Replaces slashes: a workload's name may hold them, a file's may not.
fn file_name(directory: &Path, workload: &str) -> PathBuf {
    directory.join(format!("{}.json", workload.replace('/', "_")))
}

fn write(profile: &ProfileFile, mut file: NewFile) -> CommandResult {
    serde_json::to_writer_pretty(&mut file, profile)?;
    writeln!(file)?;
    file.finish()
}
