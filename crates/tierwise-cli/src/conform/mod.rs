//! `tierwise conform`: tests that a policy holds the floors of tenants.

mod print;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Args;
use rayon::prelude::*;
use serde::Serialize;
use tierwise_core::recipe::Recipe;
use tierwise_sim::conform::{
    ADVERSARIES, Adversary, AloneThroughput, CHECK_INTERVAL, GRACE, Verdict, conform, machine,
};

use crate::failure::{CommandResult, Failure};
use crate::progress::RunProgress;
use crate::run_args::Jobs;
use crate::value::whole;
use crate::{input, output};

/// Test policies for isolation: do they hold a tenant's floor against bad neighbours?
///
/// One or two well-behaved tenants with floors in fast memory run beside each of seven adversaries,
/// on one small machine. A floor is held if its tenant never has less fast memory than the floor,
/// or than its resident set if that is less. The check starts 10 s after the tenant's start. Exit
/// code 1 if a floor was not held and --check is given.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise conform equilibria tpp\n  \
                        tierwise conform my-policy.toml --check --json\n  \
                        tierwise conform --all --markdown > conform.md")]
pub struct Conform {
    /// Policies by name (see `tierwise policies`), or recipe files: names that end in .toml.
    #[arg(value_name = "RECIPE", required_unless_present = "all")]
    recipes: Vec<OsString>,
    /// Every policy that comes with Tierwise.
    #[arg(long, conflicts_with = "recipes")]
    all: bool,
    /// Exit with code 1 unless every floor was held.
    #[arg(long)]
    check: bool,
    /// Print JSON: one object with the suite's times and, by policy, one verdict per victim.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print a page in Markdown.
    #[arg(long)]
    markdown: bool,
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = whole(0..=u64::MAX))]
    seed: u64,
    #[command(flatten)]
    jobs: Jobs,
}

/// All results in the form of `--json`. Keys stay.
#[derive(Debug, Serialize)]
pub struct ConformReport {
    pub seed: u64,
    pub grace_seconds: f64,
    pub monitoring_seconds: f64,
    pub policies: Vec<Conformed>,
    /// With --all: policies that cannot run on the suite's machine.
    pub left_out: Vec<LeftOut>,
}

/// A policy that could not be tested.
#[derive(Debug, Serialize)]
pub struct LeftOut {
    pub policy: String,
    pub why: String,
}

/// One policy's results.
#[derive(Debug, Serialize)]
pub struct Conformed {
    pub policy: String,
    pub floors: usize,
    pub held: usize,
    pub verdicts: Vec<Verdict>,
}

impl Conform {
    pub fn execute(&self) -> CommandResult {
        let recipes = self.recipes()?;
        let report = self.run(&recipes)?;
        match (self.json, self.markdown) {
            (true, _) => output::json(&report)?,
            (_, true) => print::markdown(&report, self.all)?,
            _ => print::tables(&report, &mut anstream::stdout().lock())?,
        }
        let (floors, held) =
            report.policies.iter().fold((0, 0), |sum, p| (sum.0 + p.floors, sum.1 + p.held));
        if self.check && held < floors {
            let broken = floors - held;
            return Err(Failure::Internal(format!("{broken} of {floors} floors were not held")));
        }
        Ok(())
    }

    fn recipes(&self) -> Result<Vec<Recipe>, Failure> {
        if self.all {
            return Ok(shipped());
        }
        let mut recipes: Vec<Recipe> = Vec::new();
        for name in &self.recipes {
            let recipe = named(name)?;
            if recipe.bound().is_some() {
                return Err(Failure::User(format!(
                    "\"{}\" is a bound, not a policy that could hold a floor; choose policies",
                    recipe.name()
                )));
            }
            if recipes.iter().any(|other| other.name() == recipe.name()) {
                return Err(Failure::User(format!(
                    "the policy \"{}\" is named twice; leave one out",
                    recipe.name()
                )));
            }
            recipes.push(recipe);
        }
        Ok(recipes)
    }

    fn run(&self, recipes: &[Recipe]) -> Result<ConformReport, Failure> {
        let pool = self.jobs.pool()?;
        // One run for each adversary, and those of the victims alone.
        let progress = RunProgress::new(recipes.len() * (ADVERSARIES.len() + 1));
        let one = |recipe: &Recipe| {
            let verdicts = self.suite(recipe, &progress);
            verdicts.map_err(|failure| failure.of(recipe.name()))
        };
        let results: Vec<Result<Conformed, Failure>> =
            pool.install(|| recipes.par_iter().map(one).collect());
        let (mut policies, mut left_out) = (Vec::new(), Vec::new());
        for (recipe, result) in recipes.iter().zip(results) {
            match result {
                Ok(conformed) => policies.push(conformed),
                // A policy that the user named must run; of all policies, some may need services or
                // profiles.
                Err(Failure::User(why)) if self.all => {
                    left_out.push(LeftOut { policy: recipe.name().to_owned(), why });
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(ConformReport {
            seed: self.seed,
            grace_seconds: GRACE.as_secs_f64(),
            monitoring_seconds: CHECK_INTERVAL.as_secs_f64(),
            policies,
            left_out,
        })
    }

    fn suite(&self, recipe: &Recipe, progress: &RunProgress) -> Result<Conformed, Failure> {
        let job = progress.job("victims alone", recipe.name());
        let alone = AloneThroughput::measure(recipe, self.seed)?;
        job.done();
        let one = |adversary: &Adversary| {
            let mut job = progress.job(adversary.name, recipe.name());
            let verdicts = conform(recipe, adversary, &alone, self.seed, &mut |s| job.reached(s))?;
            job.done();
            Ok(verdicts)
        };
        let verdicts = ADVERSARIES.par_iter().map(one).collect::<Result<Vec<_>, Failure>>()?;
        Ok(conformed(recipe, verdicts.concat()))
    }
}

/// The shipped policies that run on the suite's machine.
fn shipped() -> Vec<Recipe> {
    let machine = machine();
    let (topology, shows) = (machine.topology(), machine.capabilities());
    let runs = |recipe: &Recipe| recipe.bound().is_none() && recipe.runs_on(&topology, &shows);
    Recipe::shipped().filter(runs).collect()
}

fn conformed(recipe: &Recipe, verdicts: Vec<Verdict>) -> Conformed {
    Conformed {
        policy: recipe.name().to_owned(),
        floors: verdicts.len(),
        held: verdicts.iter().filter(|v| v.held).count(),
        verdicts,
    }
}

fn named(name: &OsStr) -> Result<Recipe, Failure> {
    let path = Path::new(name);
    if path.extension().is_none_or(|e| e != "toml") {
        return input::policy(&name.to_string_lossy());
    }
    input::recipe_on(path, &machine())
}
