//! A story in words.

use std::io::Write;

use tierwise_core::units::Bytes;

use super::page::PageStory;
use super::record::ShareChange;
use super::story::{Holding, Story};
use crate::failure::CommandResult;
use crate::number::{counted, grouped};
use crate::table::{new_table, write_table};

/// Rows of a list that are printed: half from its start, half from its end. `--json` has all.
const ROWS: usize = 40;

/// Prints the story.
pub fn print(story: &Story) -> CommandResult {
    let mut out = anstream::stdout().lock();
    let end = story.ended_seconds.map_or_else(String::new, |at| format!(", ended at {at:.1} s"));
    writeln!(
        out,
        "{} under {} in {} (seed {}, {:.1} virtual seconds){end}",
        story.tenant, story.policy, story.scenario, story.seed, story.seconds
    )?;
    writeln!(out)?;
    shares(&mut out, story)?;
    holdings(&mut out, story)?;
    moves(&mut out, story)?;
    if let Some(page) = &story.page {
        writeln!(out)?;
        history(&mut out, page)?;
    }
    Ok(out.flush()?)
}

pub(super) fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

fn cap(cap: Option<u64>) -> String {
    cap.map_or_else(|| "none".to_owned(), size)
}

/// Returns the indices of a list that are printed, and the number left out between its halves.
fn shown(all: usize) -> (Vec<usize>, usize) {
    if all <= ROWS {
        return ((0..all).collect(), 0);
    }
    ((0..ROWS / 2).chain(all - ROWS / 2..all).collect(), all - ROWS)
}

fn shares(out: &mut impl Write, story: &Story) -> CommandResult {
    if story.shares.is_empty() {
        let policy = &story.policy;
        writeln!(out, "No partitioner runs under {policy}: tenants compete page by page.")?;
        return Ok(writeln!(out)?);
    }
    let head = ["AT", "TIER", "FLOOR", "CAP", "PROMOTION", "BECAUSE"];
    let mut table = new_table(head.map(str::to_owned).to_vec());
    if let Some(column) = table.column_mut(5) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    let reported: Vec<&ShareChange> = story.shares.iter().filter(|s| has_news(story, s)).collect();
    let (rows, left_out) = shown(reported.len());
    for i in rows {
        let s = reported[i];
        table.add_row([
            format!("{:.1} s", s.at_seconds),
            s.tier.clone(),
            size(s.floor_bytes),
            cap(s.cap_bytes),
            format!("{:.1} %", s.promotion * 100.0),
            s.words.clone(),
        ]);
    }
    writeln!(out, "Its share, whenever it changed by an eighth or for another reason:")?;
    write_table(out, &table, None)?;
    if left_out > 0 {
        writeln!(out, "({left_out} changes in the middle are left out; --json has all)")?;
    }
    Ok(writeln!(out)?)
}

/// Nothing is promoted into the slowest tier, so its share is only its floor and cap.
fn has_news(story: &Story, share: &ShareChange) -> bool {
    let slowest = story.holdings.last().is_some_and(|held| held.tier == share.tier);
    !slowest || share.floor_bytes > 0 || share.cap_bytes.is_some()
}

fn holdings(out: &mut impl Write, story: &Story) -> CommandResult {
    for held in &story.holdings {
        writeln!(
            out,
            "In {} it held {} at the end, {} at most; {}.",
            held.tier,
            size(held.bytes),
            size(held.most_bytes),
            against(held)
        )?;
    }
    Ok(writeln!(out)?)
}

pub(super) fn against(held: &Holding) -> String {
    let Some(floor) = held.floor_bytes else { return "no share was set".to_owned() };
    let floor = match held.bytes.cmp(&floor) {
        _ if floor == 0 => "no floor".to_owned(),
        std::cmp::Ordering::Less => {
            format!("{} below its floor of {}", size(floor - held.bytes), size(floor))
        }
        std::cmp::Ordering::Equal => format!("exactly its floor of {}", size(floor)),
        std::cmp::Ordering::Greater => {
            format!("{} above its floor of {}", size(held.bytes - floor), size(floor))
        }
    };
    match held.cap_bytes {
        None => format!("{floor}, no cap"),
        Some(cap) if held.bytes > cap => {
            format!("{floor}, {} above its cap of {}", size(held.bytes - cap), size(cap))
        }
        Some(cap) => format!("{floor}, within its cap of {}", size(cap)),
    }
}

fn moves(out: &mut impl Write, story: &Story) -> CommandResult {
    if story.moves.is_empty() {
        return Ok(writeln!(out, "No move of its pages was planned.")?);
    }
    let head = ["MOVE", "PAGES", "OUTCOME", "WHY"];
    let mut table = new_table(head.map(str::to_owned).to_vec());
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Left);
        }
    }
    for m in &story.moves {
        let from = m.from.as_deref().unwrap_or("gone");
        table.add_row([
            format!("{from} to {}", m.to),
            grouped(m.moves),
            m.outcome.replace('_', " "),
            m.words.clone(),
        ]);
    }
    write_table(out, &table, None)
}

fn history(out: &mut impl Write, page: &PageStory) -> CommandResult {
    writeln!(out, "Page {}:", page.page)?;
    let (rows, left_out) = shown(page.events.len());
    let mut reported: Option<&ShareChange> = None;
    for i in rows {
        let event = &page.events[i];
        writeln!(out, "  {:9.3} s  {}", event.at_seconds, event.words)?;
        // A share is printed once.
        if let Some(share) = event.share.as_ref().filter(|&share| reported != Some(share)) {
            writeln!(
                out,
                "               its tenant's share of {} since {:.1} s: floor {}, cap {}, \
                 promotion {:.1} %: {}",
                share.tier,
                share.at_seconds,
                size(share.floor_bytes),
                cap(share.cap_bytes),
                share.promotion * 100.0,
                share.words
            )?;
            reported = Some(share);
        }
    }
    if left_out > 0 {
        writeln!(
            out,
            "  (in the middle, left out: {}; --json has all)",
            counted(left_out as u64, "event")
        )?;
    }
    for line in &page.verdict {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
