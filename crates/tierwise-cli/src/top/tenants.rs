//! The tenants, one row each, and the reasons of the selected one.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};
use tierwised::view::TenantView;

use super::app::TopState;
use crate::live::{rates, words};
use crate::number::{counted, grouped};

/// Draws the table.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &TopState) {
    if app.now.tenants.is_empty() {
        let text =
            "There are no tenants; `tierwise daemon tenant add` or the configuration names some.";
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    }
    let names = words::TENANT_HEAD.iter().chain(&["PROMOTE/s", "DEMOTE/s"]).enumerate();
    let head = names
        .map(|(i, &name)| if i == 0 { Line::from(name) } else { Line::from(name).right_aligned() });
    let rows = app.now.tenants.iter().map(|tenant| row(app, tenant));
    // The name takes the remaining width; figures need no more than these.
    let widths = [Constraint::Min(10)]
        .into_iter()
        .chain([10, 10, 10, 10, 10, 9, 11, 11, 8, 9, 9].map(Constraint::Length));
    let table = Table::new(rows, widths)
        .header(Row::new(head).bold())
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .highlight_symbol("> ");
    let mut state = TableState::new().with_selected(Some(app.picked));
    frame.render_stateful_widget(table, area, &mut state);
}

fn row<'a>(app: &TopState, tenant: &TenantView) -> Row<'a> {
    let rates = app.before.as_ref().and_then(|before| rates::of_tenant(before, &app.now, tenant));
    let rate =
        |rate: Option<f64>| rate.map_or_else(|| words::NOTHING.into(), |r| format!("{r:.1}"));
    let moved = [rate(rates.map(|r| r.promotions)), rate(rates.map(|r| r.demotions))];
    let cells = words::tenant(tenant).into_iter().chain(moved).enumerate();
    let cells = cells.map(|(i, text)| {
        let line = if i == 0 { Line::from(text) } else { Line::from(text).right_aligned() };
        Cell::from(line)
    });
    let style = if words::misses_slo(tenant) { Style::new().fg(Color::Red) } else { Style::new() };
    Row::new(cells).style(style)
}

/// Draws the selected tenant's reasons over the table.
pub fn reasons(frame: &mut Frame<'_>, area: Rect, app: &TopState) {
    let Some(tenant) = app.now.tenants.get(app.picked) else { return };
    let mut lines = vec![Line::from(format!(
        "{}, {}",
        tenant.class,
        counted(tenant.processes.into(), "process")
    ))];
    if words::misses_slo(tenant) {
        lines.push(Line::from("It misses its SLO.").fg(Color::Red));
    }
    if !tenant.because.is_empty() {
        lines.push(Line::from(format!("It has its share because {}.", tenant.because)));
    }
    let (promoted, demoted) = rates::counts(tenant);
    lines.push(Line::from(format!(
        "{} promoted, {} demoted, {} demoted soon after their promotion",
        counted(promoted, "block"),
        grouped(demoted),
        grouped(tenant.thrash_events)
    )));
    lines.push(Line::default());
    let own = app.now.decisions.iter().rev().filter(|d| d.tenant == tenant.name);
    lines.extend(own.map(|d| Line::from(format!("{:9.1} s  {}", d.at, words::decision(d)))));
    let block = Block::bordered().title(format!(" {} ", tenant.name));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}
