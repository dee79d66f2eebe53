//! `tierwise advise`: finds the smallest sufficient fast memory.

mod limits;
mod point;
mod print;
mod search;
mod source;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;
use tierwise_sim::run::Prepared;

use crate::failure::{CommandResult, Failure};
use crate::output::NewFile;
use crate::run_args::RunArgs;
use crate::value::whole;
use crate::{input, output};

use limits::{LimitArgument, TenantLimit};
use point::{FastMemoryKnee, PolicyAlone, SizePoint, SufficientSize};
use search::Search;
use source::SearchedMachine;

/// Find the least fast memory that programs need, and under which policy.
///
/// The programs run on their machine with fastest tiers of different sizes, from none to a tenth
/// more than their resident memory. Each size runs under each policy considered, and the best
/// policy of a size counts: no answer comes from a policy that is worse than leaving pages where
/// they are (`static`). First comes a coarse sweep, then a bisection to 1 % of the resident memory
/// between the largest size that breaks a tenant's limit and the next that does not. A tenant's
/// limit is a slowdown against a machine with fast memory only, or, for a service, its SLO. The
/// knee is the point of the sweep farthest below the line from its first to its last (Kneedle,
/// Satopää et al. 2011).
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| {
    json.help("Print JSON: one object with limits, policies, points, answer and knee")
}))]
#[command(after_help = "EXAMPLE\n  \
                        tierwise advise scenarios/zipf.toml\n  \
                        tierwise advise scenarios/two-tenants.toml --slowdown 1.3 --slowdown \
                        store=1.1 --html advice.html\n  \
                        tierwise advise traces/redis-ycsb-d.twt --machine dram-optane --policy \
                        memtis --json")]
pub struct Advise {
    /// One scenario, or recorded traces, which run together on the machine of --machine, each for
    /// at least a minute.
    #[arg(required = true, value_name = "SCENARIO|TRACE")]
    sources: Vec<PathBuf>,
    /// The policies considered beside `static` (see `tierwise policies`).
    #[arg(long, default_value = "tierwise", value_name = "NAMES", value_delimiter = ',')]
    policy: Vec<String>,
    /// The allowed slowdown: for all, or for one as NAME=SLOWDOWN; may be repeated [default: 1.05
    /// for all without an SLO].
    #[arg(long, value_name = "LIMIT", value_parser = LimitArgument::parse)]
    slowdown: Vec<LimitArgument>,
    /// Sizes of the coarse sweep, including none and all.
    #[arg(long, default_value_t = 17, value_name = "NUMBER", value_parser = whole(3..=257_u32))]
    points: u32,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    machine: SearchedMachine,
}

/// The advice in the form of `--json`. Keys stay.
#[derive(Debug, Serialize)]
pub struct Advice {
    pub scenario: String,
    /// The policy of the answer, or of the largest size if there is none.
    pub policy: String,
    /// The policies considered, each with its own answer.
    pub policies: Vec<PolicyAlone>,
    pub seed: u64,
    pub resident_bytes: u64,
    pub limits: Vec<TenantLimit>,
    /// Ascending by fast memory.
    pub points: Vec<SizePoint>,
    /// The smallest fast memory from which on all limits were met; `None` if there is none.
    pub answer: Option<SufficientSize>,
    /// The size above which more fast memory helps less.
    pub knee: Option<FastMemoryKnee>,
    pub sentence: String,
}

impl Advise {
    pub fn execute(&self) -> CommandResult {
        let recipes = self.considered()?;
        let scenario = source::scenario(&self.sources, &self.machine)?;
        let name = self.sources[0].to_string_lossy();
        let prepared = Prepared::load(scenario).map_err(|e| Failure::from(e).of(&name))?;
        let limits = limits::resolve(&self.slowdown, &prepared)?;
        let html = self.run.html.as_deref().map(NewFile::create).transpose()?;
        let search = Search {
            prepared: &prepared,
            recipes: &recipes,
            limits: &limits,
            seed: self.run.seed,
            pool: self.run.jobs.pool()?,
        };
        let points = search.points(self.points).map_err(|failure| failure.of(&name))?;
        let advice = self.advice(&prepared, &recipes, limits, points);
        if let Some(file) = html {
            print::html(&advice, file)?;
        }
        if self.run.json { output::json(&advice) } else { print::print(&advice) }
    }

    /// Returns `static` first: it wins against an equal policy.
    fn considered(&self) -> Result<Vec<Recipe>, Failure> {
        let mut recipes = vec![input::policy_that_runs("static")?];
        for name in &self.policy {
            let recipe = input::policy_that_runs(name)?;
            if !recipes.contains(&recipe) {
                recipes.push(recipe);
            }
        }
        Ok(recipes)
    }

    fn advice(
        &self,
        prepared: &Prepared,
        recipes: &[Recipe],
        limits: Vec<TenantLimit>,
        points: Vec<SizePoint>,
    ) -> Advice {
        let page_size = prepared.machine().page_size.0;
        let resident = prepared.resident_pages() * page_size;
        let answer = search::answer(&points, resident);
        Advice {
            scenario: prepared.scenario().name.clone(),
            policy: answer
                .as_ref()
                .map(|answer| &answer.policy)
                .or_else(|| points.last().map(|last| &last.policy))
                .cloned()
                .unwrap_or_default(),
            policies: search::alone(&points, recipes),
            seed: self.run.seed,
            resident_bytes: resident,
            sentence: sentence(resident, &limits, &points, answer.as_ref()),
            limits,
            knee: search::knee(&points),
            answer,
            points,
        }
    }
}

/// Returns the answer as a sentence.
fn sentence(
    resident: u64,
    limits: &[TenantLimit],
    points: &[SizePoint],
    answer: Option<&SufficientSize>,
) -> String {
    let at = |bytes: u64| points.iter().find(|point| point.fast_bytes == bytes);
    let broken = |point: &SizePoint| {
        let tenants = point.tenants.iter().zip(limits).filter(|(tenant, _)| !tenant.meets);
        tenants.map(|(tenant, limit)| limit.broken_by(tenant)).collect::<Vec<_>>().join(", ")
    };
    let Some(answer) = answer else {
        return points.last().map_or_else(String::new, |last| {
            format!(
                "No fast memory is enough: even with {}, a tenth more than is resident, and under \
                 {}, {}.",
                Bytes(last.fast_bytes),
                last.policy,
                broken(last)
            )
        });
    };
    let mut text = format!(
        "Under {} {} of fast memory are enough: {:.0} % of the {} resident",
        answer.policy,
        Bytes(answer.fast_bytes),
        answer.share_of_resident * 100.0,
        Bytes(resident)
    );
    if let Some(point) = answer.too_small_bytes.and_then(at) {
        text += &format!("; with {} {}", Bytes(point.fast_bytes), broken(point));
    }
    text + "."
}
