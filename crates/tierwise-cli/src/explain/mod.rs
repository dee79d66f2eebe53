//! `tierwise explain`: gives the reasons for a tenant's memory and for a page's moves.

mod live;
mod page;
mod print;
mod print_live;
mod record;
mod story;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::Args;
use tierwise_core::config::nearest;
use tierwise_sim::record::RunRecord;

use crate::failure::{CommandResult, Failure};
use crate::live::Socket;
use crate::value::whole;
use crate::{output, run_file};

/// Explain a tenant's share and moves: in a recorded run, or from the running daemon.
///
/// `tierwise simulate --record-run FILE` records a run. The answer has the tenant's share over time
/// with the numbers of the rule that set it, the memory that the tenant holds, and its moves by
/// cause and outcome. With --page it has the history of one page, and the reasons why it moved or
/// did not. Without a run, the answer comes from the running tierwised: the tenant's memory now,
/// the last decisions about it, and its moves.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  tierwise simulate scenarios/two-tenants.toml --policy equilibria \
                        --record-run run.json.zst > /dev/null\n  \
                        tierwise explain --tenant store run.json.zst\n  \
                        tierwise explain --tenant store --page 17 run.json.zst\n  \
                        tierwise explain --tenant shop"
)]
pub struct Explain {
    /// The recorded run; without one, the running daemon answers.
    #[arg(value_name = "RUN", conflicts_with = "socket")]
    run: Option<PathBuf>,
    /// The tenant: the name of a workload, or of a tenant of the daemon.
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// One of its pages, by its number in `tierwise trace stat`.
    #[arg(long, value_name = "NUMBER", requires = "run", value_parser = whole(0..=u32::MAX))]
    page: Option<u32>,
    /// Print JSON: one object with shares, holdings, moves and page; from the daemon, with
    /// holdings, decisions and moves.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: Socket,
}

impl Explain {
    pub fn execute(&self) -> CommandResult {
        match &self.run {
            Some(run) => self.recorded(run),
            None => self.running(),
        }
    }

    fn recorded(&self, run: &Path) -> CommandResult {
        let record = run_file::read(run)?;
        let names: Vec<&str> = record.tenants.iter().map(|t| t.name.as_str()).collect();
        let tenant = self.tenant(&names, &run.display())?;
        let page = self.page.map(|page| page_of(&record, tenant, page)).transpose()?;
        let story = story::collect(&record, tenant, page);
        if self.json { output::json(&story) } else { print::print(&story) }
    }

    fn running(&self) -> CommandResult {
        let snapshot = self.socket.snapshot()?;
        let names: Vec<&str> = snapshot.tenants.iter().map(|t| t.name.as_str()).collect();
        let tenant = self.tenant(&names, &"tierwised")?;
        let story = live::collect(&snapshot, &snapshot.tenants[tenant]);
        if self.json {
            return output::json(&story);
        }
        print_live::print(&mut anstream::stdout().lock(), &story)
    }

    fn tenant(&self, names: &[&str], who: &dyn Display) -> Result<usize, Failure> {
        names.iter().position(|name| *name == self.tenant).ok_or_else(|| {
            let advice = nearest(&self.tenant, names.iter().copied())
                .map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
            let all = names.join(", ");
            let problem =
                format!("no tenant is called \"{}\"{advice} (there are {all})", self.tenant);
            Failure::User(format!("{who}: {problem}"))
        })
    }
}

fn page_of(record: &RunRecord, tenant: usize, page: u32) -> Result<u32, Failure> {
    let tenant = &record.tenants[tenant];
    match tenant.pages {
        pages if page < pages => Ok(page),
        0 => Err(Failure::User(format!("\"{}\" never mapped a page", tenant.name))),
        pages => Err(Failure::User(format!(
            "\"{}\" has no page {page}; allowed: 0 to {}",
            tenant.name,
            pages - 1
        ))),
    }
}
