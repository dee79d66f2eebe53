//! The answer on the terminal.

use std::io::Write;

use anstyle::Style;
use tierwise_core::units::Bytes;

use super::answer::{PlanAnswer, next_words};
use super::beside::{NextStep, PairCost};
use super::search::JudgedMachine;
use crate::failure::CommandResult;
use crate::prose::paragraph;
use crate::report::ReportTable;
use crate::table::{new_table, write_table};

/// Machines that do not meet the limits and are shown: the dearest, next to the answer.
const SHOWN_BELOW: usize = 5;

/// Prints the answer; its sentence stands last.
pub fn print(answer: &PlanAnswer) -> CommandResult {
    let mut out = anstream::stdout().lock();
    write(&mut out, &machines(answer))?;
    let say = |out: &mut dyn Write, text: &str| -> CommandResult {
        writeln!(out)?;
        paragraph(&mut { out }, Style::new(), "", text)
    };
    if !answer.curves.is_empty() {
        writeln!(out)?;
        write(&mut out, &enough(answer))?;
    }
    if let Some(next) = &answer.next {
        say(&mut out, &next_words(answer, next))?;
        write(&mut out, &gains(next))?;
    }
    if !answer.pairs.is_empty() {
        writeln!(out)?;
        write(&mut out, &together(answer))?;
    }
    say(&mut out, &answer.sentence)?;
    Ok(out.flush()?)
}

fn write(out: &mut impl Write, table: &ReportTable) -> CommandResult {
    let mut printed = new_table(table.head.iter().map(|name| name.to_uppercase()).collect());
    for row in &table.rows {
        printed.add_row(row);
    }
    write_table(out, &printed, table.marked)
}

/// The machines next to the answer, which is marked.
pub fn machines(answer: &PlanAnswer) -> ReportTable {
    let end = answer.recommended.unwrap_or(answer.machines.len());
    let first = end.saturating_sub(SHOWN_BELOW);
    let shown = &answer.machines[first..];
    ReportTable {
        title: "Machines, cheapest first".to_owned(),
        head: texts(["machine", "price", "fast", "slow", "policy", "nearest limit", "verdict"]),
        rows: shown.iter().map(|one| machine_row(answer, one)).collect(),
        marked: answer.recommended.map(|chosen| chosen - first),
    }
}

fn machine_row(answer: &PlanAnswer, one: &JudgedMachine) -> Vec<String> {
    let name = one.machine.split(" (").next().unwrap_or_default();
    let tightest = one.best.as_ref().and_then(|best| best.tightest());
    vec![
        short_name(&one.machine).unwrap_or_else(|| name.to_owned()),
        answer.money(one.price),
        Bytes(one.fast_bytes).to_string(),
        Bytes(one.slow_bytes).to_string(),
        one.best.as_ref().map_or_else(|| "-".to_owned(), |best| best.policy.clone()),
        tightest.map_or_else(
            || "-".to_owned(),
            |p| format!("{} {:.0} %", p.program, p.of_limit * 100.0),
        ),
        if one.meets {
            "ok".to_owned()
        } else if one.best.is_none() {
            "too small".to_owned()
        } else {
            "too slow".to_owned()
        },
    ]
}

/// "m, 2 x d16, 1 x c64": the machine without its sizes, which stand beside.
fn short_name(words: &str) -> Option<String> {
    let (name, modules) = words.split_once(" with ")?;
    let parts = modules.split(" and ").filter(|part| *part != "no CXL memory");
    let parts = parts.filter_map(|part| part.split(" (").next());
    Some(std::iter::once(name).chain(parts).collect::<Vec<_>>().join(", "))
}

/// The fast memory that each program alone needs under each policy.
pub fn enough(answer: &PlanAnswer) -> ReportTable {
    let mut policies: Vec<&str> = Vec::new();
    for curve in &answer.curves {
        if !policies.contains(&curve.policy.as_str()) {
            policies.push(&curve.policy);
        }
    }
    let row = |program: &super::answer::ProgramLimits| {
        let name = &program.program;
        let resident = Bytes(program.resident_bytes).to_string();
        let mut row = vec![name.clone(), program.count.to_string(), resident];
        row.push(answer.limit_words(name));
        for policy in &policies {
            let its = |c: &&super::curves::ProgramCurve| c.program == *name && c.policy == *policy;
            let bytes = answer.curves.iter().find(its).and_then(|curve| curve.enough_bytes);
            row.push(bytes.map_or_else(|| "no size".to_owned(), |b| Bytes(b).to_string()));
        }
        row
    };
    let mut head = texts(["alone", "number", "resident", "limit"]);
    head.extend(policies.iter().map(|policy| format!("{policy} needs")));
    ReportTable {
        title: "Fast memory that each program alone needs".to_owned(),
        head,
        rows: answer.programs.iter().map(row).collect(),
        marked: None,
    }
}

/// The gain of each program from the next step.
pub fn gains(next: &NextStep) -> ReportTable {
    let row = |gain: &super::beside::ProgramGain| {
        vec![
            gain.program.clone(),
            gain.before.words(),
            gain.after.words(),
            gain.verdict.words().to_owned(),
        ]
    };
    ReportTable {
        title: format!("The next {}", Bytes(next.step_bytes)),
        head: texts(["program", "slowdown now", "with the step", "gain"]),
        rows: next.programs.iter().map(row).collect(),
        marked: None,
    }
}

/// The slowdown of each program beside each other, on the machine shown.
pub fn together(answer: &PlanAnswer) -> ReportTable {
    let names: Vec<&str> = answer.programs.iter().map(|p| p.program.as_str()).collect();
    let find = |program: &str, beside: Option<&str>| {
        let its = |cost: &&PairCost| cost.program == program && cost.beside.as_deref() == beside;
        answer.pairs.iter().find(its)
    };
    let row = |&program: &&str| {
        let alone = find(program, None).map(|cost| format!("{:.3} x", cost.slowdown.mean));
        let mut row = vec![program.to_owned(), alone.unwrap_or_else(|| "-".to_owned())];
        for other in &names {
            let cost = find(program, Some(other));
            row.push(cost.map_or_else(
                || "-".to_owned(),
                |cost| crate::number::signed_percent(cost.of_alone - 1.0),
            ));
        }
        let all = answer.next.as_ref().map(|next| &next.before.programs);
        let all = all.and_then(|all| all.iter().find(|figure| figure.program == program));
        row.push(all.map_or_else(|| "-".to_owned(), |p| format!("{:.3} x", p.slowdown.mean)));
        row
    };
    let mut head = texts(["together", "alone"]);
    head.extend(names.iter().map(|name| format!("beside {name}")));
    head.push("all".to_owned());
    ReportTable {
        title: "What programs cost each other".to_owned(),
        head,
        rows: names.iter().map(row).collect(),
        marked: None,
    }
}

fn texts<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}
