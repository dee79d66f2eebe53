//! `tierwise reproduce all`: every figure of every paper, and one page of all claims.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use super::emt::EmtCommand;
use super::equilibria::EquilibriaCommand;
use super::measurements::Measurements;
use super::memstrata::MemstrataCommand;
use super::mtat::MtatCommand;
use super::multi_clock::MultiClockCommand;
use super::page::{self, Found, Paper};
use super::part::PaperPart;
use crate::failure::{CommandResult, Failure};
use crate::number::counted;
use crate::output::{print_error_line, whole_file};
use crate::run_args::PaperArgs;
use crate::value::whole;

/// Measure every figure of every paper, and write a page with all claims and their verdicts.
///
/// Results are kept in a directory by a hash of all content on which they depend, so a command that
/// was stopped goes on where it stopped, and what has not changed is not computed again. What is
/// not measured stands on the page with the reason.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  \
                  tierwise reproduce all --page docs/reproduction.md\n  \
                  tierwise reproduce all --only memstrata-12,memstrata-16")]
pub struct AllCommand {
    /// Measure these parts only, each a paper and a figure or a section.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Directory that has the directories `scenarios` and `traces`.
    #[arg(long, default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// Directory that keeps the results.
    #[arg(long, default_value = "reproduction", value_name = "DIR")]
    kept: PathBuf,
    /// The page, as Markdown.
    #[arg(long, default_value = "reproduction.md", value_name = "FILE")]
    page: PathBuf,
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = whole(0..=u64::MAX))]
    seed: u64,
}

/// The papers' commands.
struct Commands {
    equilibria: EquilibriaCommand,
    multi_clock: MultiClockCommand,
    mtat: MtatCommand,
    memstrata: MemstrataCommand,
    emt: EmtCommand,
}

impl Commands {
    /// Names, titles and parts, in the order of the page.
    fn papers(&self) -> [(&'static str, &'static str, Vec<PaperPart<'_>>); 5] {
        [
            ("equilibria", "Equilibria", self.equilibria.parts()),
            ("multi-clock", "MULTI-CLOCK (HPCA 2022)", self.multi_clock.parts()),
            ("mtat", "MTAT (Middleware 2025)", self.mtat.parts()),
            ("memstrata", "Memstrata (OSDI 2024)", self.memstrata.parts()),
            ("emt", "EMT", self.emt.parts()),
        ]
    }
}

impl AllCommand {
    pub fn execute(&self) -> CommandResult {
        let paper = || PaperArgs { seed: self.seed, json: false };
        let commands = Commands {
            equilibria: EquilibriaCommand::below(&self.root, paper()),
            multi_clock: MultiClockCommand::below(&self.root, paper()),
            mtat: MtatCommand::below(&self.root, paper()),
            memstrata: MemstrataCommand::below(&self.root, paper()),
            emt: EmtCommand::below(&self.root, paper()),
        };
        let papers = commands.papers();
        self.check_names(papers.iter().flat_map(|(.., parts)| parts))?;
        let wanted = papers.iter().flat_map(|(.., parts)| parts);
        let jobs = wanted.filter(|part| self.wants(part)).map(|part| part.jobs).sum();
        let measurements = Measurements::kept_in(&self.kept, self.seed, jobs)?;
        let start = Instant::now();
        let mut found = Vec::new();
        for (name, title, parts) in papers {
            let parts = parts.iter().map(|part| self.measure(part, &measurements));
            found.push(Paper { name, title, parts: parts.collect::<Result<_, Failure>>()? });
        }
        measurements.sync()?;
        whole_file(&self.page, page::markdown(&found, self.seed).as_bytes())?;
        let (computed, kept) = measurements.counts();
        drop(measurements);
        let counts = page::counts(&found).map(|(verdict, count)| format!("{count} {verdict}"));
        let mut out = anstream::stdout().lock();
        let took = start.elapsed().as_secs_f64();
        let computed = counted(computed as u64, "result");
        writeln!(out, "{computed} computed in {took:.0} s, {kept} kept from before")?;
        writeln!(out, "{}: {}", self.page.display(), counts.join(", "))?;
        Ok(out.flush()?)
    }

    fn wants(&self, part: &PaperPart<'_>) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == part.name)
    }

    /// Refuses names of parts that no paper has.
    fn check_names<'a>(&self, parts: impl Iterator<Item = &'a PaperPart<'a>>) -> CommandResult {
        let known: Vec<&str> = parts.map(|part| part.name).collect();
        match self.only.iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let allowed = known.join(", ");
                Err(Failure::User(format!("--only: found {name:?}; allowed: {allowed}")))
            }
        }
    }

    /// Measures a part. One whose files are missing or wrong does not keep the others from the
    /// page; a failure of the system ends the command, which goes on from there when run again.
    fn measure(&self, part: &PaperPart<'_>, measurements: &Measurements) -> Result<Found, Failure> {
        if !self.wants(part) {
            return Ok(Found::not_measured(part.claims, "left out by --only"));
        }
        match (part.measure)(measurements) {
            Ok(measured) if measured.here.len() == part.claims.len() => {
                Ok(Found { claims: part.claims, here: measured.here, tables: measured.tables })
            }
            Ok(measured) => {
                let (here, claims) = (measured.here.len(), part.claims.len());
                let problem = format!("{}: {here} results for {claims} claims", part.name);
                Err(Failure::Internal(format!("{problem}; please report this")))
            }
            Err(Failure::User(why)) => {
                measurements.pause(|| print_error_line(format_args!("{}: {why}", part.name)));
                Ok(Found::not_measured(part.claims, why))
            }
            Err(failure) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::claims::unmeasured::UNMEASURED;
    use super::super::multi_clock_stores;
    use super::*;

    fn commands() -> Commands {
        let (root, paper) = (PathBuf::new(), || PaperArgs { seed: 1, json: false });
        Commands {
            equilibria: EquilibriaCommand::below(&root, paper()),
            multi_clock: MultiClockCommand::below(&root, paper()),
            mtat: MtatCommand::below(&root, paper()),
            memstrata: MemstrataCommand::below(&root, paper()),
            emt: EmtCommand::below(&root, paper()),
        }
    }

    #[test]
    fn every_claim_stands_on_the_page() {
        let commands = commands();
        let papers = commands.papers().map(|(name, title, parts)| {
            let found = parts.iter().map(|part| Found::not_measured(part.claims, "not now"));
            Paper { name, title, parts: found.collect() }
        });
        let page = page::markdown(&papers, 1);
        let claims = papers.iter().flat_map(|paper| &paper.parts).flat_map(|part| part.claims);
        let all: Vec<_> = claims.chain(UNMEASURED.iter().map(|row| &row.claim)).collect();
        for claim in &all {
            let start = format!("| {} | {} | {} |", claim.place, claim.what, claim.published());
            assert_eq!(page.matches(&start).count(), 1, "{start}");
        }
        let rows = page.lines().filter(|line| line.contains("| not measured |")).count();
        assert_eq!(rows, all.len());
    }

    /// Figures change with the simulator; statements, papers' figures and causes are the present
    /// ones.
    #[test]
    fn shipped_page_has_every_present_claim() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reproduction.md");
        let page = std::fs::read_to_string(path).unwrap();
        let commands = commands();
        let papers = commands.papers();
        let claims = papers.iter().flat_map(|(.., parts)| parts).flat_map(|part| part.claims);
        let all: Vec<_> = claims.chain(UNMEASURED.iter().map(|row| &row.claim)).collect();
        let rows: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| ") && !line.contains("| where |"))
            .collect();
        assert_eq!(rows.len(), all.len());
        for (claim, row) in all.iter().map(|claim| (claim, row_of(claim, &rows))) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let [.., verdict, cause] = cells[..] else { panic!("{row}") };
            match verdict {
                "agrees" => assert_eq!(cause, "", "{row}"),
                "near" | "differs" if claim.cause.is_empty() => assert_eq!(cause, "unknown"),
                "near" | "differs" => assert_eq!(cause, claim.cause),
                "not measured" => assert_ne!(cause, "", "{row}"),
                _ => panic!("{row}"),
            }
        }
        for (name, title, _) in &papers {
            assert!(page.contains(&format!("\n## {title}\n")), "{name}");
        }
    }

    fn row_of<'a>(claim: &super::super::claims::Claim, rows: &[&'a str]) -> &'a str {
        let start = format!("| {} | {} | {} |", claim.place, claim.what, claim.published());
        let found: Vec<&&str> = rows.iter().filter(|row| row.starts_with(&start)).collect();
        assert_eq!(found.len(), 1, "{start}");
        found[0]
    }

    #[test]
    fn every_part_has_its_own_name() {
        let commands = commands();
        let papers = commands.papers();
        let mut names: Vec<&str> =
            papers.iter().flat_map(|(.., parts)| parts).map(|part| part.name).collect();
        for (paper, _, parts) in &papers {
            assert!(parts.iter().all(|part| part.name.starts_with(paper)), "{paper}");
            assert!(parts.iter().all(|part| !part.claims.is_empty()), "{paper}");
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn parts_end_as_many_jobs_as_declared() {
        let directory = tempfile::tempdir().unwrap();
        let scenario = "name = \"s\"\nsummary = \"s\"\n[machine]\npreset = \"dram-optane\"\n\
                        fast_share = 0.3333\ncpus = 1\n[[workload]]\nname = \"w\"\n\
                        [workload.generator]\npattern = \"zipf\"\nfootprint = \"1MiB\"\n\
                        accesses_per_window = 500\nwindows = 5\n";
        for name in ["store-a", "store-b", "store-c", "store-f", "store-w", "store-d", "base-pages"]
        {
            std::fs::write(directory.path().join(format!("{name}.toml")), scenario).unwrap();
        }
        for part in multi_clock_stores::parts(directory.path()) {
            let measurements = Measurements::new(1, part.jobs);
            let measured = (part.measure)(&measurements).unwrap();
            assert_eq!(measurements.jobs(), part.jobs, "{}", part.name);
            assert_eq!(measured.here.len(), part.claims.len(), "{}", part.name);
        }
    }
}
