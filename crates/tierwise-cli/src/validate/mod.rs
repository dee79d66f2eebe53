//! `tierwise validate`: replays the lab's runs in the simulator and compares.

mod counterpart;
mod figures;
mod guest;
mod print;
mod ranking;
mod record;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rayon::prelude::*;
use serde::Serialize;
use tierwise_sim::run::{Prepared, RunOptions, run};

use crate::failure::{CommandResult, Failure};
use crate::output;
use crate::progress::RunProgress;
use crate::run_args::Jobs;
use crate::trace::info;
use crate::value::whole;

use counterpart::Counterpart;
use figures::{Errors, PolicyFidelity, ProgramFidelity};
use guest::RecordedPart;
use record::{GuestRun, ProgramRecord};

/// Compare the simulator with a real kernel: replay a record of the lab's guests and print both
/// side by side.
///
/// `python3 -m tierlab bench --json` writes the record: run times, true misses, moves and tiering's
/// own CPU time of a program under several policies, with the free memory and the watermarks of
/// the guest. The same program's recording is replayed on a simulated machine with all of these.
/// Slowdowns are relative to the run with fast memory only.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  tierwise validate bench.json --traces target/lab/recordings\n  \
                        tierwise validate *.json --traces recordings --policy kernel-tiering \
                        --json"
)]
pub struct Validate {
    /// Records of the lab.
    #[arg(required = true, value_name = "RECORD.json")]
    records: Vec<PathBuf>,
    /// The directory of the programs' recordings: PROGRAM.twt.
    #[arg(long, value_name = "DIR", default_value = "target/lab/recordings")]
    traces: PathBuf,
    /// Compare this policy of the guests only; may be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    policy: Vec<String>,
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// Print JSON: one object with the programs and the errors over all of them.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print a page in Markdown.
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    jobs: Jobs,
}

/// All results in the form of `--json`. Keys stay.
#[derive(Debug, Serialize)]
pub struct Fidelity {
    pub seed: u64,
    pub programs: Vec<ProgramFidelity>,
    pub errors: Errors,
}

/// Interval of the simulated course: a hundredth of the shortest part of a run that is compared.
const COURSE_INTERVAL: Duration = Duration::from_millis(5);

impl Validate {
    pub fn execute(&self) -> CommandResult {
        let mut records = Vec::new();
        for path in &self.records {
            records.extend(record::read(path)?);
        }
        self.check_policies(&records)?;
        let progress = RunProgress::new(records.iter().map(|r| self.policies(r).len()).sum());
        let pool = self.jobs.pool()?;
        let mut programs = pool.install(|| {
            let one = |record: &ProgramRecord| self.program(record, &progress);
            records.par_iter().map(one).collect::<Result<Vec<_>, Failure>>()
        })?;
        drop(progress);
        // What the simulator predicts worst comes first.
        programs.sort_by(|a, b| b.errors.slowdown_worst.total_cmp(&a.errors.slowdown_worst));
        let all: Vec<_> = programs.iter().flat_map(|program| &program.policies).collect();
        let errors = Errors::of(&all);
        let fidelity = Fidelity { seed: self.seed, programs, errors };
        match (self.json, self.markdown) {
            (true, _) => output::json(&fidelity),
            (_, true) => print::markdown(&fidelity),
            _ => print::tables(&fidelity),
        }
    }

    fn check_policies(&self, records: &[ProgramRecord]) -> CommandResult {
        let known = |name: &String| records.iter().any(|r| r.policies().contains(&name.as_str()));
        let Some(name) = self.policy.iter().find(|name| !known(name)) else { return Ok(()) };
        let mut names: Vec<&str> = records.iter().flat_map(ProgramRecord::policies).collect();
        names.sort_unstable();
        names.dedup();
        Err(Failure::User(format!(
            "--policy {name}: no record has a run of it; there are {}",
            names.join(", ")
        )))
    }

    fn policies<'a>(&self, record: &'a ProgramRecord) -> Vec<&'a str> {
        let chosen =
            |name: &&str| self.policy.is_empty() || self.policy.iter().any(|one| one == name);
        record.policies().into_iter().filter(chosen).collect()
    }

    fn program(
        &self,
        record: &ProgramRecord,
        progress: &RunProgress,
    ) -> Result<ProgramFidelity, Failure> {
        let trace = self.traces.join(format!("{}.twt", record.program));
        if !trace.is_file() {
            return Err(Failure::User(format!(
                "{}: the recording of the program \"{}\" is not there; `python3 -m tierlab record \
                 --program {}` makes it, and --traces names its directory",
                trace.display(),
                record.program,
                record.program
            )));
        }
        let Some(recorded) = RecordedPart::new(&info::read(&trace, 0)?) else {
            return Err(Failure::User(format!(
                "{}: has no mark \"run\" where the work starts; `python3 -m tierlab record` \
                 sets it",
                trace.display()
            )));
        };
        let one = |policy: &&str| self.policy(record, policy, &recorded, progress);
        let found =
            self.policies(record).par_iter().map(one).collect::<Result<Vec<_>, Failure>>()?;
        let (mut policies, mut missing) = (Vec::new(), Vec::new());
        for (name, fidelity) in self.policies(record).into_iter().zip(found) {
            match fidelity {
                Some(fidelity) => policies.push(fidelity),
                None => missing.push(name.to_owned()),
            }
        }
        Ok(ProgramFidelity::new(record, recorded.misses, policies, missing))
    }

    /// Simulates a policy; `None` if the simulator does not have it.
    fn policy(
        &self,
        record: &ProgramRecord,
        policy: &str,
        recorded: &RecordedPart,
        progress: &RunProgress,
    ) -> Result<Option<PolicyFidelity>, Failure> {
        let mut job = progress.job(&record.program, policy);
        let Some(first) = record.runs_of(policy).next() else { return Ok(None) };
        let Some(counterpart) = counterpart::of(first, record)? else {
            job.done();
            return Ok(None);
        };
        let simulated = self
            .simulate(record, first, recorded, &counterpart, &mut |share| job.reached(share))
            .map_err(|failure| failure.of(&format!("{} under {policy}", record.program)))?;
        job.done();
        Ok(Some(PolicyFidelity {
            policy: policy.to_owned(),
            recipe: counterpart.recipe.name().to_owned(),
            guest: figures::of_guest(record, policy),
            simulated,
        }))
    }

    fn simulate(
        &self,
        record: &ProgramRecord,
        guest: &GuestRun,
        recorded: &RecordedPart,
        counterpart: &Counterpart,
        reached: &mut dyn FnMut(f64),
    ) -> Result<figures::RunFigures, Failure> {
        let directory: &Path = &self.traces;
        let by_page = counterpart.by_page;
        let scenario = guest::scenario(record, guest, recorded, by_page, directory)?;
        let granule = f64::from(1_u32 << scenario.machine.granule_order);
        let options = RunOptions {
            seed: self.seed,
            timeline: Some(COURSE_INTERVAL),
            policy_at_mark: true,
            ..RunOptions::default()
        };
        let prepared = Prepared::load(scenario)?;
        let output = run(&prepared, &counterpart.recipe, &options, reached)?;
        if let Some(why) = output.result.tenants.iter().find_map(|one| one.failure.as_ref()) {
            return Err(Failure::Internal(format!("its simulation failed: {why}")));
        }
        Ok(figures::of_simulation(&output, granule))
    }
}
