//! `tierwise plan`: the cheapest machine of a catalogue for programs with limits.

mod answer;
mod beside;
mod catalogue;
mod curves;
mod file;
mod host;
mod measure;
mod page;
#[cfg(feature = "parquet")]
mod parquet;
mod print;
mod programs;
mod sampled;
mod search;

use std::path::{Path, PathBuf};

use clap::Args;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;

use self::answer::PlanAnswer;
use self::catalogue::FittedMachine;
use self::file::{MAX_PROGRAMS, PlanFile, ProgramEntry, ProgramSource, SHARES};
use self::measure::Measurer;
use self::programs::PlannedHost;
use crate::failure::{CommandResult, Failure};
use crate::output::NewFile;
use crate::prose::printable;
use crate::run_args::RunArgs;
use crate::value::{number, whole};
use crate::{input, output};

/// Find the cheapest machine of a catalogue on which programs keep their limits.
///
/// A plan (TOML) has memory modules and machines with their prices, and programs with their number
/// per host, real size and limit. Machines are tried cheapest first, each with all programs
/// together and under each policy, until one keeps every limit in every run. Runs differ in seed
/// and in the programs' phases; a figure's range is from the lowest to the highest of them. On the
/// recommended machine follow the slowdown of each program over its fast memory, the gain from the
/// next step of memory, and what each program costs each other. docs/planning.md describes the file
/// and what the figures leave out.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| {
    json.help("Print JSON: one object with machines, curves, next step, pairs and sentence")
}))]
#[command(mut_arg("html", |html| {
    html.help("Write a report with plots, as one HTML file that needs nothing else")
}))]
#[command(after_help = "EXAMPLE\n  \
                        tierwise plan plans/host.toml\n  \
                        tierwise plan plans/host.toml --html plan.html --parquet \
                        plan.parquet\n  \
                        tierwise plan plans/host.toml traces/redis-ycsb-d.twt --policy \
                        tierwise --json")]
pub struct Plan {
    /// The plan: modules, machines, programs and limits.
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Recorded traces, of `record` or `record-live`, beside the plan's programs: one of each, as
    /// recorded, with the plan's limit.
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The share of its time that each TRACE waits for memory with everything fast; needed with
    /// those of `record-live`.
    #[arg(long, value_name = "SHARE", requires = "traces", value_parser = number(SHARES))]
    memory_bound: Option<f64>,
    /// The policies considered, instead of the plan's (see `tierwise policies`).
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policy: Vec<String>,
    /// Runs of each measurement, with other seeds and phases.
    #[arg(long, default_value_t = 3, value_name = "NUMBER", value_parser = whole(1..=100_u64))]
    repeats: u64,
    /// Sizes of a curve before it is refined, including none and all.
    #[arg(long, default_value_t = 9, value_name = "NUMBER", value_parser = whole(3..=65_u32))]
    points: u32,
    /// Machines shown beyond the recommended one that keep the limits too.
    #[arg(long, default_value_t = 3, value_name = "NUMBER", value_parser = whole(0..=64_usize))]
    alternatives: usize,
    /// Write every measurement as a row of a Parquet file.
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
}

impl Plan {
    pub fn execute(&self) -> CommandResult {
        let name = self.plan.to_string_lossy();
        let base = self.plan.parent().unwrap_or(Path::new("."));
        let mut plan = PlanFile::parse(&name, &input::plan_text(&self.plan)?, base)?;
        self.add_traces(&mut plan)?;
        let recipes = self.recipes(&plan)?;
        let machines = self.machines(&plan)?;
        #[cfg(not(feature = "parquet"))]
        if self.parquet.is_some() {
            return Err(Failure::without_parquet());
        }
        let html = self.run.html.as_deref().map(NewFile::create).transpose()?;
        #[cfg(feature = "parquet")]
        let table = self.parquet.as_deref().map(NewFile::create).transpose()?;
        let pool = self.run.jobs.pool()?;
        let answer = pool
            .install(|| self.answer(&plan, &machines, &recipes))
            .map_err(|failure| failure.of(&name))?;
        if let Some(file) = html {
            page::write(&answer, file)?;
        }
        #[cfg(feature = "parquet")]
        if let Some(file) = table {
            parquet::write(&answer, file)?;
        }
        if self.run.json { output::json(&answer) } else { print::print(&answer) }
    }

    fn add_traces(&self, plan: &mut PlanFile) -> CommandResult {
        for path in &self.traces {
            let stem = path.file_stem().unwrap_or(path.as_os_str());
            let name = printable(&stem.to_string_lossy());
            if plan.programs.iter().any(|other| other.name == name) {
                return Err(Failure::User(format!(
                    "{}: there is already a program called \"{name}\"; rename the file, or \
                     write count in the plan",
                    path.display()
                )));
            }
            let (source, count) = (ProgramSource::Trace(path.clone()), 1);
            let (size, slowdown, memory_bound) = (None, None, self.memory_bound);
            let (weight, threads) = (tierwise_core::tenant::DEFAULT_WEIGHT, 1);
            plan.programs.push(ProgramEntry {
                name,
                source,
                count,
                size,
                memory_bound,
                slowdown,
                weight,
                threads,
            });
        }
        let found = plan.programs.len();
        if (1..=MAX_PROGRAMS).contains(&found) {
            return Ok(());
        }
        Err(Failure::User(format!(
            "{}: program: found {found} programs with those of the command; allowed: 1 to \
             {MAX_PROGRAMS}; write [[program]] tables, or name traces after the plan",
            self.plan.display()
        )))
    }

    fn recipes(&self, plan: &PlanFile) -> Result<Vec<Recipe>, Failure> {
        let names = if self.policy.is_empty() { &plan.policies } else { &self.policy };
        let mut recipes = Vec::new();
        for name in names {
            let recipe = input::policy_that_runs(name.trim())?;
            if !recipes.contains(&recipe) {
                recipes.push(recipe);
            }
        }
        Ok(recipes)
    }

    fn machines(&self, plan: &PlanFile) -> Result<Vec<FittedMachine>, Failure> {
        let machines = catalogue::fitted(&plan.machines, &plan.modules);
        if machines.len() <= search::MAX_MACHINES {
            return Ok(machines);
        }
        Err(Failure::User(format!(
            "{}: machine: the modules fit in {} ways; allowed: up to {}; write dram_counts and \
             cxl_counts, or leave modules out",
            self.plan.display(),
            machines.len(),
            search::MAX_MACHINES
        )))
    }

    fn answer(
        &self,
        plan: &PlanFile,
        machines: &[FittedMachine],
        recipes: &[Recipe],
    ) -> Result<PlanAnswer, Failure> {
        let fastest = fastest(machines);
        let host = programs::open(plan, fastest)?;
        let measurer = self.measurer(&host, machines, fastest)?;
        let judged = search::judge(machines, &measurer, recipes, self.alternatives)?;
        let chosen = search::recommended(&judged);
        // Without an answer the largest machine shows how far the limits are.
        let shown = chosen.or_else(|| last_that_ran(&judged));
        let mut answer = PlanAnswer::new(plan, &host, machines.len(), judged);
        answer.seed = self.run.seed;
        answer.repeats = self.repeats;
        answer.recommended = chosen;
        if let Some(shown) = shown {
            self.details(&mut answer, &machines[shown], shown, &measurer, recipes, plan)?;
        }
        answer.sentence = answer::sentence(&answer);
        Ok(answer)
    }

    fn measurer<'a>(
        &self,
        host: &'a PlannedHost,
        machines: &[FittedMachine],
        fastest: f64,
    ) -> Result<Measurer<'a>, Failure> {
        let (seed, repeats) = (self.run.seed, self.repeats);
        let mut measurer = Measurer { host, seed, repeats, references: Vec::new() };
        let one = |machine: &FittedMachine, program: usize| {
            let mut tiers = machine.tiers();
            tiers.truncate(1);
            tiers[0].capacity = Bytes(host.programs[program].resident * 2);
            measure::all_fast_ns(&measurer, &tiers, program)
        };
        let with = |ns| machines.iter().find(|machine| machine.dram.module.load_ns == ns);
        let mut latencies: Vec<f64> = machines.iter().map(|m| m.dram.module.load_ns).collect();
        latencies.sort_by(f64::total_cmp);
        latencies.dedup();
        let mut references = Vec::new();
        for &ns in latencies.iter().filter(|&&ns| ns != fastest) {
            let (Some(fast), Some(slower)) = (with(fastest), with(ns)) else { continue };
            let factor = |i| Ok(one(slower, i)? / one(fast, i)?);
            let factors = (0..host.programs.len()).map(factor);
            references.push((ns, factors.collect::<Result<Vec<f64>, Failure>>()?));
        }
        measurer.references = references;
        Ok(measurer)
    }

    /// Adds what is measured on one machine.
    fn details(
        &self,
        answer: &mut PlanAnswer,
        machine: &FittedMachine,
        index: usize,
        measurer: &Measurer<'_>,
        recipes: &[Recipe],
        plan: &PlanFile,
    ) -> CommandResult {
        answer.shown = Some(index);
        let policy = answer.machines[index].best.as_ref().map(|best| best.policy.clone());
        let recipe = recipes.iter().find(|recipe| Some(recipe.name()) == policy.as_deref());
        let Some(recipe) = recipe else { return Ok(()) };
        let tiers = machine.tiers();
        let price = machine.dram.module.price * machine.dram.count as f64;
        let slow = slow_tier(machine, plan);
        let two = [tiers[0].clone(), slow];
        answer.curves = curves::curves(measurer, &two, recipes, self.points)?;
        answer.next = Some(beside::next_step(measurer, &tiers, recipe, plan.step, price)?);
        answer.pairs = beside::pairs(measurer, &tiers, recipe)?;
        answer.course = Some(host::course(measurer, &tiers, recipe)?);
        Ok(())
    }
}

/// Returns the slow tier of a machine's curves: its own, or that of the catalogue's first CXL
/// module.
fn slow_tier(machine: &FittedMachine, plan: &PlanFile) -> tierwise_sim::machine::TierModel {
    let own = machine.cxl.clone();
    let module = plan.modules.iter().find(|module| module.kind == catalogue::ModuleKind::Cxl);
    let first = module.map(|module| catalogue::FittedModules { module: module.clone(), count: 1 });
    own.or(first).unwrap_or_else(|| machine.dram.clone()).tier()
}

/// Returns the lowest latency of DRAM.
fn fastest(machines: &[FittedMachine]) -> f64 {
    machines.iter().map(|machine| machine.dram.module.load_ns).fold(f64::INFINITY, f64::min)
}

/// Returns the last machine on which the programs ran.
fn last_that_ran(judged: &[search::JudgedMachine]) -> Option<usize> {
    judged.iter().rposition(|one| one.best.is_some())
}
