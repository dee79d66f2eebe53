//! `tierwise compare`: several policies on the same programs.

mod jobs;
mod summary;
mod table;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tierwise_core::recipe::Recipe;
use tierwise_sim::run::RunOptions;
use tierwise_sim::scenario::Scenario;

use crate::bare_trace::TraceMachine;
use crate::comparison::Compared;
use crate::failure::{CommandResult, Failure};
use crate::output::NewFile;
use crate::run_args::RunArgs;
use crate::{input, output, report, shipped};

/// Run several policies on a scenario and report which served it best.
///
/// Every policy runs the same programs on the same simulated machine. Bounds come first: everything
/// in fast memory, everything in slow memory, and an oracle that knows the future. All results
/// depend only on the scenario and the seed.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| {
    json.help("Print JSON: one object for one scenario, a list of them for several")
}))]
#[command(mut_arg("html", |html| {
    html.help("Write a report with plots, as one HTML file that needs nothing else")
}))]
#[command(after_help = "EXAMPLE\n  tierwise compare\n  tierwise compare scenarios/zipf.toml\n  \
                        tierwise compare scenarios/*.toml --policies static,tpp,multi-clock \
                        --html report.html\n  \
                        tierwise compare scenarios/zipf.toml --recipe my-policy.toml --json\n  \
                        tierwise compare traces/redis-ycsb-d.twt --fast-share 0.25")]
pub struct Compare {
    /// The scenarios: machine, programs and their times; or recorded traces, each alone on a
    /// machine. Without one, Redis serving YCSB C, which comes with Tierwise.
    #[arg(value_name = "SCENARIO|TRACE")]
    scenarios: Vec<PathBuf>,
    #[command(flatten)]
    machine: TraceMachine,
    /// Compare these policies only, in this order (see `tierwise policies`).
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policies: Vec<String>,
    /// Add a policy of your own from a recipe file; may be repeated.
    #[arg(long, value_name = "FILE")]
    recipe: Vec<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
    /// Check the simulator's own rules after every step; several times slower.
    #[arg(long)]
    check: bool,
}

/// A report's curves would not show a finer interval.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

impl Compare {
    pub fn execute(&self) -> CommandResult {
        let paths = self.paths()?;
        let scenarios = self.scenarios(&paths)?;
        let recipes = self.recipes(&scenarios[0].1)?;
        let html = self.run.html.as_deref().map(NewFile::create).transpose()?;
        let options = RunOptions {
            seed: self.run.seed,
            check: self.check,
            timeline: html.is_some().then_some(REPORT_INTERVAL),
            heat_map: html.is_some(),
            ..RunOptions::default()
        };
        let print = |one: &Compared| if self.run.json { Ok(()) } else { table::print(one) };
        let pool = self.run.jobs.pool()?;
        let compared = jobs::run_all(&scenarios, &recipes, &options, &pool, print)?;
        if let Some(file) = html {
            report::write(&compared, file)?;
        }
        if self.run.json { print_json(&compared) } else { self.print_end(&compared) }
    }

    /// Returns the named files, or the one for a user who names none.
    fn paths(&self) -> Result<Cow<'_, [PathBuf]>, Failure> {
        if !self.scenarios.is_empty() {
            return Ok(Cow::Borrowed(&self.scenarios));
        }
        let first = shipped::first_scenario()?;
        output::print_error_line(format_args!(
            "compares on {}; `tierwise scenario list` lists more",
            first.display()
        ));
        Ok(Cow::Owned(vec![first]))
    }

    fn scenarios<'a>(&self, paths: &'a [PathBuf]) -> Result<Vec<(&'a Path, Scenario)>, Failure> {
        let read =
            |path: &'_ PathBuf| Ok((path.clone(), input::scenario_or_trace(path, &self.machine)?));
        let read = paths.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
        for (i, (path, scenario)) in read.iter().enumerate() {
            if let Some((other, _)) = read[..i].iter().find(|(_, s)| s.name == scenario.name) {
                return Err(Failure::User(format!(
                    "{}: the scenario \"{}\" is also in {}; results are distinguished by name, so \
                     names must differ",
                    path.display(),
                    scenario.name,
                    other.display()
                )));
            }
        }
        Ok(paths.iter().map(PathBuf::as_path).zip(read.into_iter().map(|r| r.1)).collect())
    }

    fn recipes(&self, machine: &Scenario) -> Result<Vec<Recipe>, Failure> {
        let mut recipes: Vec<Recipe> = if self.policies.is_empty() {
            // Recipes for a tier that the CPU manages run where there is one.
            let (topology, shows) = (machine.machine.topology(), machine.machine.capabilities());
            Recipe::shipped().filter(|recipe| recipe.runs_on(&topology, &shows)).collect()
        } else {
            let named = self.policies.iter().map(|name| input::policy(name.trim()));
            named.collect::<Result<_, _>>()?
        };
        for path in &self.recipe {
            recipes.push(input::recipe(path, machine)?);
        }
        for (i, recipe) in recipes.iter().enumerate() {
            if recipes[..i].iter().any(|other| other.name() == recipe.name()) {
                return Err(Failure::User(format!(
                    "the policy \"{}\" is named twice; change the name in the recipe file, or \
                     leave one out",
                    recipe.name()
                )));
            }
        }
        Ok(recipes)
    }

    fn print_end(&self, compared: &[Compared]) -> CommandResult {
        if compared.len() > 1 {
            summary::print(compared)?;
        }
        if let Some(path) = &self.run.html {
            output::print_error_line(format_args!("report written to {}", path.display()));
        }
        Ok(())
    }
}

fn print_json(compared: &[Compared]) -> CommandResult {
    match compared {
        [one] => output::json(&one.comparison()),
        several => output::json(&several.iter().map(Compared::comparison).collect::<Vec<_>>()),
    }
}
