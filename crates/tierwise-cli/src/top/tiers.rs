//! The tiers, each with a bar.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};
use tierwised::view::TierView;

use crate::live::words;

/// Columns of a bar: a step is five per cent.
const BAR: usize = 20;

/// Draws the tiers.
pub fn draw(frame: &mut Frame<'_>, area: Rect, tiers: &[TierView]) {
    let rows = tiers.iter().map(|tier| {
        let used = words::used(tier);
        Row::new([
            Line::from(tier.name.clone()),
            bar(used, tier.capacity_bytes),
            Line::from(format!("{} of {}", words::size(used), words::size(tier.capacity_bytes)))
                .right_aligned(),
            Line::from(format!("node {}", words::nodes(tier))),
            Line::from(words::latency(tier)),
        ])
    });
    let widths = [
        Constraint::Length(14),
        Constraint::Length(BAR as u16 + 5),
        Constraint::Length(22),
        Constraint::Length(10),
        Constraint::Min(10),
    ];
    let head = Row::new(["TIER", "USED", "", "", "LATENCY"]).bold();
    frame.render_widget(Table::new(rows, widths).header(head).column_spacing(2), area);
}

/// Draws "######....  60 %", which is readable without colours.
fn bar(used: u64, of: u64) -> Line<'static> {
    let part = if of == 0 { 0.0 } else { (used as f64 / of as f64).clamp(0.0, 1.0) };
    let full = (part * BAR as f64).round() as usize;
    Line::from(vec![
        Span::styled("█".repeat(full), Style::new().fg(Color::Cyan)),
        Span::styled("░".repeat(BAR - full), Style::new().fg(Color::DarkGray)),
        Span::raw(format!(" {:>3.0} %", part * 100.0)),
    ])
}
