//! The report as a table.

use std::io::Write;

use anstyle::{AnsiColor, Color, Style};
use comfy_table::{ContentArrangement, Table, presets};

use super::check::{CheckResult, HostCheck, Stops};
use super::{Can, DoctorReport};
use crate::failure::CommandResult;

const HEAD: Style = Style::new().bold();

/// Prints the report within `width` columns.
pub fn print(out: &mut impl Write, report: &DoctorReport, width: u16) -> CommandResult {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width);
    table.set_header(["", "CHECK", "FOUND"]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for check in &report.checks {
        let remedy =
            check.remedy.as_ref().map_or_else(String::new, |remedy| format!("\n-> {remedy}"));
        table.add_row([word(check.status), check.name, &format!("{}{remedy}", check.found)]);
    }
    for (i, line) in table.lines().enumerate() {
        let line = line.trim_end();
        // The first column is empty except in the first line of a check.
        match line.split_once(' ') {
            _ if i == 0 => writeln!(out, "{HEAD}{line}{HEAD:#}")?,
            Some((first, rest)) if !first.is_empty() => {
                let style = style(first);
                writeln!(out, "{style}{first}{style:#} {rest}")?;
            }
            _ => writeln!(out, "{line}")?,
        }
    }
    writeln!(out)?;
    if report.can == Can::Manage {
        writeln!(out, "{}", verdict(report.can, &report.checks))?;
    }
    Ok(out.flush()?)
}

const fn word(status: CheckResult) -> &'static str {
    match status {
        CheckResult::Ok => "ok",
        CheckResult::Note => "note",
        CheckResult::Missing => "missing",
    }
}

fn style(word: &str) -> Style {
    let color = match word {
        "ok" => AnsiColor::Green,
        "note" => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    };
    Style::new().bold().fg_color(Some(Color::Ansi(color)))
}

/// The conclusion, in a sentence.
pub fn verdict(can: Can, checks: &[HostCheck]) -> String {
    let why = |stops: Stops| {
        let names = checks.iter().filter(|check| check.stops == stops).map(|check| check.name);
        names.collect::<Vec<_>>().join(", ")
    };
    match can {
        Can::Manage => "tierwised could manage this machine's memory.".into(),
        Can::Observe => {
            format!("tierwised could only observe here; missing: {}", why(Stops::Managing))
        }
        Can::Nothing => {
            format!("tierwised could do nothing here; missing: {}", why(Stops::Everything))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> DoctorReport {
        let checks = vec![
            HostCheck::ok("kernel", "Linux 6.12"),
            HostCheck::missing("memory tiers", "all memory is on node 0", "add a node")
                .stopping(Stops::Managing),
            HostCheck::note("numa_balancing", "1", None),
        ];
        DoctorReport { can: Can::Observe, checks }
    }

    fn text(width: u16) -> String {
        let mut out = Vec::new();
        print(&mut out, &report(), width).unwrap();
        String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap()
    }

    #[test]
    fn check_prints_remedy_below_its_line() {
        assert_eq!(
            text(120),
            "         CHECK           FOUND\n\
             ok       kernel          Linux 6.12\n\
             missing  memory tiers    all memory is on node 0\n                         \
             -> add a node\n\
             note     numa_balancing  1\n\n"
        );
    }

    #[test]
    fn a_narrow_terminal_wraps_within_the_column() {
        let narrow = text(44);
        assert!(narrow.lines().all(|line| line.len() <= 44), "{narrow}");
        assert!(narrow.contains("missing  memory tiers    all memory is on"), "{narrow}");
    }

    #[test]
    fn the_verdict_names_what_stops() {
        let message = verdict(Can::Observe, &report().checks);
        assert!(message.ends_with("only observe here; missing: memory tiers"), "{message}");
    }
}
