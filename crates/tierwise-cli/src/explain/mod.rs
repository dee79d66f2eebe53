//! `tierwise explain`: why a tenant has what it has, and why a page moved or did not.

mod page;
mod print;
mod story;

use std::path::PathBuf;

use clap::Args;
use tierwise_core::config::nearest;
use tierwise_sim::record::RunRecord;

use crate::failure::{Failure, Outcome};
use crate::{output, run_file};

/// Say of a recorded run why a tenant got what it got, and why a page moved or did not.
///
/// A run is recorded by `tierwise simulate --record-run FILE`. The answer has the tenant's share over
/// time with the numbers of the rule that decided, what it holds against it, and its moves by cause
/// and outcome; with --page, the history of one page.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  tierwise simulate scenarios/two-tenants.toml --policy equilibria \
                        --record-run run.json.zst > /dev/null\n  \
                        tierwise explain --tenant store run.json.zst\n  \
                        tierwise explain --tenant store --page 17 run.json.zst"
)]
pub struct Explain {
    /// The recorded run.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The tenant: the name of a workload.
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// One of its pages, by its number as `tierwise trace stat` shows it.
    #[arg(long, value_name = "NUMBER")]
    page: Option<u32>,
    /// Print JSON: one object with shares, holdings, moves and page.
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub fn execute(&self) -> Outcome {
        let record = run_file::read(&self.run)?;
        let tenant = self.tenant(&record)?;
        let page = self.page.map(|page| page_of(&record, tenant, page)).transpose()?;
        let story = story::tell(&record, tenant, page);
        if self.json { output::json(&story) } else { print::print(&story) }
    }

    fn tenant(&self, record: &RunRecord) -> Result<usize, Failure> {
        let names = || record.tenants.iter().map(|t| t.name.as_str());
        names().position(|name| name == self.tenant).ok_or_else(|| {
            let advice = nearest(&self.tenant, names())
                .map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
            let all = names().collect::<Vec<_>>().join(", ");
            Failure::User(format!(
                "{}: no tenant is called \"{}\"{advice} (there are {all})",
                self.run.display(),
                self.tenant
            ))
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
