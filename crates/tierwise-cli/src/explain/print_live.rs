//! The running daemon's story of a tenant in words.

use std::io::Write;

use anstyle::Style;

use super::live::LiveStory;
use super::print::{against, size};
use crate::failure::CommandResult;
use crate::live::words;
use crate::number::{counted, grouped};
use crate::prose::paragraph;
use crate::table::{new_table, write_table};

const PLAIN: Style = Style::new();

/// Prints the story.
pub fn print(out: &mut impl Write, story: &LiveStory) -> CommandResult {
    let line = format!(
        "{} under {}, {}; tierwised {}{}",
        story.tenant,
        story.policy,
        counted(story.processes.into(), "process"),
        words::mode(story.mode),
        if story.mode_reason.is_empty() {
            String::new()
        } else {
            format!(": {}", story.mode_reason)
        }
    );
    paragraph(out, PLAIN, "", &line)?;
    if let Some(pod) = &story.pod {
        paragraph(out, PLAIN, "", &format!("It is {}.", words::pod(pod)))?;
        for problem in &pod.problems {
            paragraph(out, PLAIN, "", &format!("Its annotations: {problem}."))?;
        }
    }
    let known = [
        story.p99_ms.map(|ms| format!("P99 {ms:.2} ms")),
        story.slo_ms.map(|ms| format!("SLO {ms:.2} ms")),
        story
            .fast_access_ratio
            .map(|r| format!("{:.1} % of its sampled accesses are fast", r * 100.0)),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if !known.is_empty() {
        paragraph(out, PLAIN, "", &known.join(", "))?;
    }
    writeln!(out)?;
    holdings(out, story)?;
    decisions(out, story)?;
    moves(out, story)?;
    Ok(out.flush()?)
}

fn holdings(out: &mut impl Write, story: &LiveStory) -> CommandResult {
    for held in &story.holdings {
        let share = held
            .share_bytes
            .map_or_else(String::new, |share| format!("; its share is {}", size(share)));
        let (tier, bytes, limits) = (&held.tier, size(held.bytes), against(&held.as_recorded()));
        paragraph(out, PLAIN, "", &format!("In {tier} it holds {bytes}; {limits}{share}."))?;
    }
    if story.placed_bytes > 0 {
        let line = format!(
            "Its processes have placed {} in slower tiers themselves, which are not promoted.",
            size(story.placed_bytes)
        );
        paragraph(out, PLAIN, "", &line)?;
    }
    if !story.because.is_empty() {
        paragraph(out, PLAIN, "", &format!("That is because {}.", story.because))?;
    }
    Ok(writeln!(out)?)
}

fn decisions(out: &mut impl Write, story: &LiveStory) -> CommandResult {
    if story.decisions.is_empty() {
        return Ok(writeln!(out, "No change of its share is among the last decisions.\n")?);
    }
    writeln!(out, "The last changes of its share:")?;
    for decision in &story.decisions {
        let at = format!("  {:9.1} s  ", decision.at);
        paragraph(out, PLAIN, &at, &words::decision(decision))?;
    }
    Ok(writeln!(out)?)
}

fn moves(out: &mut impl Write, story: &LiveStory) -> CommandResult {
    if story.moves.is_empty() {
        return Ok(writeln!(out, "No block of its memory was moved.")?);
    }
    let mut table = new_table(["MOVE", "BLOCKS", "OUTCOME"].map(str::to_owned).to_vec());
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    for m in &story.moves {
        let way = if m.direction == "promotion" { "into" } else { "out of" };
        let name = format!("{} {way} {}", m.direction, m.tier);
        table.add_row([name, grouped(m.moves), m.outcome.to_owned()]);
    }
    write_table(out, &table, None)?;
    for cause in &story.causes {
        for (moves, way) in [(cause.promoted, "promoted"), (cause.demoted, "demoted")] {
            if moves > 0 {
                let moved = if moves == 1 { "was" } else { "were" };
                let line = format!("{} {moved} {way} {}.", counted(moves, "block"), cause.because);
                paragraph(out, PLAIN, "", &line)?;
            }
        }
    }
    if story.thrash_events > 0 {
        writeln!(out, "Demoted soon after promotion: {}.", counted(story.thrash_events, "block"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::live::collect;
    use crate::live::sample;
    use crate::output;

    #[test]
    fn share_holdings_reasons_and_moves_are_printed() {
        let snapshot = sample::snapshot();
        let mut out = Vec::new();
        print(&mut out, &collect(&snapshot, &snapshot.tenants[0])).unwrap();
        let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap();
        for part in [
            "shop under tierwise, 12 processes; tierwised manages\n\
             P99 6.25 ms, SLO 5.00 ms, 87.5 %",
            "In DRAM it holds 40 GiB; 8 GiB above its floor of 32 GiB, no cap; its share is 48 \
             GiB.",
            "Its processes have placed 2 GiB in slower tiers themselves, which are not promoted.",
            "That is because its P99 is above its SLO.",
            "     3700.0 s  shop in DRAM: floor 40 GiB",
            "promotion into DRAM    3,000  done",
            "3,000 blocks were promoted because its tenant's share grew.",
            "1 block was demoted because its tenant holds its share and has hotter pages.",
            "Demoted soon after promotion: 4 blocks.",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("batch"), "{text}");
    }

    #[test]
    fn pod_of_tenant_is_named() {
        let snapshot = sample::with_pod();
        let mut out = Vec::new();
        let pod = snapshot.tenants.last().unwrap();
        print(&mut out, &collect(&snapshot, pod)).unwrap();
        let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap();
        let text = text.replace('\n', " ");
        for part in [
            "It is container db of pod web-0 in namespace shop, Burstable, class gold; its floor",
            "Its annotations: weight: found \"0\"",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn every_line_keeps_to_the_width() {
        let mut snapshot = sample::snapshot();
        snapshot.tenants[0].name = "n".repeat(255);
        snapshot.decisions[0].tenant.clone_from(&snapshot.tenants[0].name);
        let mut out = Vec::new();
        print(&mut out, &collect(&snapshot, &snapshot.tenants[0])).unwrap();
        let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap();
        let width = usize::from(output::width());
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}
