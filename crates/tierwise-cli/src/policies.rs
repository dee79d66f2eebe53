//! `tierwise policies`: lists the policies.

use std::io::Write;

use clap::{Args, Subcommand};
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use tierwise_core::observe::Signals;
use tierwise_core::recipe::Recipe;
use tierwise_core::topology::Topology;
use tierwise_core::units::Bytes;
use tierwise_sim::machine::Machine;

use crate::failure::{CommandResult, Failure};
use crate::{input, output};

/// List the policies with their summaries, required signals and sources.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "EXAMPLE\n  \
                  tierwise policies\n  \
                  tierwise policies show multi-clock > my-policy.toml"
)]
pub struct Policies {
    /// Print JSON: one object per policy, with name, summary, needs, source and bound.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Show>,
}

#[derive(Debug, Subcommand)]
enum Show {
    /// Print a policy's recipe, as a start for one of your own (`compare --recipe`).
    #[command(after_help = "EXAMPLE\n  tierwise policies show tpp")]
    Show {
        /// The policy.
        name: String,
    },
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    summary: String,
    needs: Vec<String>,
    source: String,
    bound: bool,
}

impl Policies {
    pub fn execute(&self) -> CommandResult {
        if let Some(Show::Show { name }) = &self.command {
            let text = input::policy(name)?.text().to_owned();
            return Ok(std::io::stdout().write_all(text.as_bytes())?);
        }
        let topology = any_machine();
        let rows = Recipe::shipped().map(|recipe| row(&recipe, &topology));
        let rows = rows.collect::<Result<Vec<_>, Failure>>()?;
        if self.json { output::json(&rows) } else { print(&rows) }
    }
}

/// A policy's signals do not depend on the sizes of the tiers.
fn any_machine() -> Topology {
    let size = Bytes(1 << 30);
    Machine::preset("dram-cxl", size, size).map_or_else(
        || Topology { page_size: Bytes(4096), tiers: Vec::new() },
        |machine| machine.topology(),
    )
}

fn row(recipe: &Recipe, topology: &Topology) -> Result<Row, Failure> {
    let needs = match recipe.bound() {
        Some(_) => Vec::new(),
        None => needs(&input::signals(recipe, topology)?),
    };
    Ok(Row {
        name: recipe.name().to_owned(),
        summary: recipe.summary().to_owned(),
        needs,
        source: recipe.source().to_owned(),
        bound: recipe.bound().is_some(),
    })
}

fn needs(signals: &Signals) -> Vec<String> {
    let mut needs = Vec::new();
    let mut wish = |wanted, what: &str| {
        if wanted {
            needs.push(what.to_owned());
        }
    };
    wish(signals.reference_bits, "reference bits");
    wish(signals.dirty_bits, "dirty bits");
    wish(signals.hint_faults, "hint faults");
    wish(signals.sample_period > 0, &format!("1 sample in {} misses", signals.sample_period));
    wish(signals.regions.is_some(), "DAMON regions");
    wish(signals.exact_counts, "exact counts");
    wish(signals.objects, "the hotness of objects");
    wish(signals.counters, "CPU counters");
    wish(signals.flat_memory, "Flat Memory Mode");
    wish(signals.two_level, "2LM");
    needs
}

fn print(rows: &[Row]) -> CommandResult {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(output::width());
    table.set_header(["POLICY", "WHAT IT DOES", "NEEDS TO SEE", "SOURCE"]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for row in rows {
        let needs = match (row.bound, row.needs.is_empty()) {
            (true, _) => "a bound, not a policy".to_owned(),
            (false, true) => "nothing".to_owned(),
            (false, false) => row.needs.join(", "),
        };
        table.add_row([&row.name, &row.summary, &needs, &row.source]);
    }
    let mut out = anstream::stdout().lock();
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
