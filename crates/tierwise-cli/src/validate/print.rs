//! Guest and simulator side by side, as tables and as a page in Markdown.

use std::io::{self, Write};

use super::Fidelity;
use super::figures::{Errors, PARTS, PolicyFidelity, ProgramFidelity, RunFigures};
use crate::failure::CommandResult;
use crate::number::{grouped, signed_percent};
use crate::table::{new_table, write_table};

const HEAD: [&str; 15] = [
    "POLICY", "SLOWDOWN", "SIM.", "ERROR", "FAST", "SIM.", "ERROR", "MOVED", "SIM.", "PROMOTED",
    "SIM.", "DEMOTED", "SIM.", "OWN CPU", "SIM.",
];

fn cells(one: &PolicyFidelity) -> [String; 15] {
    let (guest, simulated) = (&one.guest, &one.simulated);
    let pages = |pages: f64| grouped(pages.round() as u64);
    let counted = |count: Option<f64>| count.map_or_else(|| "-".to_owned(), pages);
    [
        one.policy.clone(),
        format!("{:.3} x", guest.slowdown),
        format!("{:.3} x", simulated.slowdown),
        signed_percent(one.slowdown_error()),
        percent(guest.fast_share),
        percent(simulated.fast_share),
        format!("{:+.1}", one.fast_error() * 100.0),
        pages(guest.moved),
        pages(simulated.moved),
        counted(guest.promoted),
        counted(simulated.promoted),
        counted(guest.demoted),
        counted(simulated.demoted),
        format!("{:.2} s", guest.own_seconds),
        format!("{:.2} s", simulated.own_seconds),
    ]
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The rows of the course: shares of fast misses in each tenth of the run.
fn course_head() -> Vec<String> {
    let parts = (1..=PARTS).map(|part| (part * 100 / PARTS).to_string());
    ["COURSE", "%"].map(str::to_owned).into_iter().chain(parts).collect()
}

fn course_rows(one: &PolicyFidelity) -> [Vec<String>; 2] {
    let row = |name: &str, of: &str, figures: &RunFigures| {
        let shares = figures.course.iter().map(|share| format!("{:.0}", share * 100.0));
        [name, of].map(str::to_owned).into_iter().chain(shares).collect()
    };
    [row(&one.policy, "guest", &one.guest), row("", "sim.", &one.simulated)]
}

/// Prints one table per program, and one over all of them.
pub fn tables(fidelity: &Fidelity) -> CommandResult {
    let mut out = anstream::stdout().lock();
    for program in &fidelity.programs {
        writeln!(out, "{}\n", heading(program))?;
        let mut table = new_table(HEAD.map(str::to_owned).to_vec());
        program.policies.iter().for_each(|one| {
            table.add_row(cells(one));
        });
        write_table(&mut out, &table, None)?;
        writeln!(out)?;
        let mut course = new_table(course_head());
        program.policies.iter().flat_map(course_rows).for_each(|row| {
            course.add_row(row);
        });
        write_table(&mut out, &course, None)?;
        writeln!(out, "\n{}\n", verdict(program))?;
    }
    if fidelity.programs.len() > 1 {
        let mut table = new_table(SUMMARY.map(str::to_owned).to_vec());
        summary_rows(fidelity).for_each(|row| {
            table.add_row(row);
        });
        write_table(&mut out, &table, None)?;
        writeln!(out)?;
    }
    writeln!(
        out,
        "Errors of slowdown are relative, those of shares of fast misses in points. The course is \
         the share of fast misses in each tenth of the run. Own CPU is the time of tiering's \
         threads beside the program."
    )?;
    Ok(out.flush()?)
}

const SUMMARY: [&str; 7] =
    ["PROGRAM", "POLICIES", "TAU", "SLOWDOWN ERROR", "WORST", "FAST ERROR", "WORST"];

fn summary_rows(fidelity: &Fidelity) -> impl Iterator<Item = [String; 7]> {
    let row = |name: &str, policies: usize, tau: String, errors: &Errors| {
        [
            name.to_owned(),
            policies.to_string(),
            tau,
            percent(errors.slowdown_mean),
            percent(errors.slowdown_worst),
            format!("{:.1}", errors.fast_mean * 100.0),
            format!("{:.1}", errors.fast_worst * 100.0),
        ]
    };
    let all: usize = fidelity.programs.iter().map(|program| program.policies.len()).sum();
    let last = row("all", all, "-".to_owned(), &fidelity.errors);
    let programs = fidelity.programs.iter();
    programs
        .map(move |p| row(&p.program, p.policies.len(), format!("{:.2}", p.tau), &p.errors))
        .chain(std::iter::once(last))
}

fn heading(program: &ProgramFidelity) -> String {
    format!(
        "{}: {}; kernel {}, {:.0} of {:.0} MiB fast at the start. Misses: {} in the guest, {} in \
         the recording.",
        program.program,
        program.about,
        program.kernel,
        program.fast_mib_at_start,
        program.resident_mib,
        grouped(program.guest_misses),
        grouped(program.recorded_misses)
    )
}

fn verdict(program: &ProgramFidelity) -> String {
    let order = match &program.disagreements[..] {
        [] => "no pair in another order".to_owned(),
        pairs => {
            let pairs: Vec<String> = pairs.iter().map(|(a, b)| format!("{a} and {b}")).collect();
            format!("in another order: {}", pairs.join(", "))
        }
    };
    let missing = match &program.not_simulated[..] {
        [] => String::new(),
        names => format!(" Not simulated: {}.", names.join(", ")),
    };
    let errors = &program.errors;
    format!(
        "Kendall's tau {:.2}, {order} (differences of up to {} are ties). Error of slowdown: {} in \
         the mean, {} at worst; of fast misses: {:.1} and {:.1} points; of the course: {:.1} \
         points.{missing}",
        program.tau,
        percent(program.tie),
        percent(errors.slowdown_mean),
        percent(errors.slowdown_worst),
        errors.fast_mean * 100.0,
        errors.fast_worst * 100.0,
        errors.course_mean * 100.0
    )
}

/// Prints the page `docs/fidelity.md`.
pub fn markdown(fidelity: &Fidelity) -> CommandResult {
    let mut out = io::stdout().lock();
    page(fidelity, &mut out)?;
    Ok(out.flush()?)
}

/// The text of the page before its tables.
pub const PAGE_TEXT: &str = "\
# Fidelity: does the simulator predict the machine?

Generated by `make lab-bench`, or from its record by `tierwise validate --markdown`.

Each program ran under several policies in the lab's guests: a stock Debian kernel, two memory
nodes, every true cache miss counted ([lab/README.md](../lab/README.md)). The simulator then
replayed the program's recording on a machine like the guest: its latencies, the free memory and
watermarks that its fast node had when the work started, its number of CPUs. Nothing is fitted to
the runs that are compared. One figure is fitted to another run, the one with fast memory only: the
time beside misses.

*Slowdown* is run time divided by that with fast memory only. *Fast* is the share of the program's
last-level misses that the fast node served. *Own CPU* is the time of the threads that tier beside
the program: kswapd, DAMON, the daemon. *Sim.* is the simulator's figure. Kendall's tau compares the
rankings by run time: 1 is the same order, 0 is unrelated.

The recipe `kernel-tiering` stands for the kernel's tiering
([kernel-tiering.md](kernel-tiering.md)).

Which programs were looked at: the rule of the scan period was found in all programs' counts of
poisoned pages. kswapd was traced in guests that ran uniform and stairs, and its rules were compared
with the traces. The placement of new memory was corrected by the recordings of graph and bc. The
page cache of others was found in the runs of memcached and redis, and the page colours in those of
bc. In the runs of btree, cc, sssp, tc, xsbench and zigzag no cause was looked for before the rules
were complete.

Known causes of errors:

- Records from before the hashed page colours of the modelled cache (recorder/common/cache_model.h)
  have misses that depend on page frames: bc missed 79 to 91 million times, graph 67 to 79 million
  times. They belong to recordings of the same model.
- A store's client takes CPU time of its own, as much per request as in the run with fast memory
  only. The scans follow the run time of the program's busiest thread, which the guest reports.
- The daemon's policies get DAMON's checks, as the daemon does (`[machine.damon]` of a scenario), a
  round late. The CPU time of DAMON's threads and of the daemon follows from what they took in a
  guest that ran none of these programs. What the daemon's budget makes it leave out is not
  simulated. Nor is a process that steers the kernel.
";

fn page(fidelity: &Fidelity, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{PAGE_TEXT}\n## All programs\n")?;
    rows(out, &SUMMARY, summary_rows(fidelity))?;
    for program in &fidelity.programs {
        writeln!(out, "\n## {}\n\n{}\n", program.program, wrapped(&heading(program)))?;
        rows(out, &HEAD, program.policies.iter().map(cells))?;
        writeln!(out)?;
        let head = course_head();
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        rows(out, &head, program.policies.iter().flat_map(course_rows))?;
        writeln!(out, "\n{}", wrapped(&verdict(program)))?;
    }
    Ok(())
}

fn rows<R: AsRef<[String]>>(
    out: &mut impl Write,
    head: &[&str],
    rows: impl Iterator<Item = R>,
) -> io::Result<()> {
    writeln!(out, "| {} |", head.join(" | ").to_lowercase())?;
    writeln!(out, "|---|{}", "---:|".repeat(head.len() - 1))?;
    for row in rows {
        writeln!(out, "| {} |", row.as_ref().join(" | "))?;
    }
    Ok(())
}

/// Breaks a paragraph into lines of at most a hundred columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.len() + 1 + word.len() <= 100);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}
