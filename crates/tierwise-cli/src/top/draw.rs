//! The whole screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use tierwised::control::ControlCommand;
use tierwised::view::DaemonMode;

use super::app::TopState;
use super::{tenants, tiers};
use crate::live::{rates, words};

/// Lines for decisions and notices: the latest ones, with space left for tenants on a screen of 24
/// lines.
const NEWS: u16 = 6;

/// Draws the screen.
pub fn draw(frame: &mut Frame<'_>, app: &TopState) {
    let tiers = app.now.tiers.len() as u16 + 1;
    let [title, why, _, tier_area, _, tenant_area, news, foot, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(tiers),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(NEWS + 1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let color = if app.now.mode == DaemonMode::Manage { Color::Green } else { Color::Yellow };
    frame.render_widget(Line::from(words::title(&app.now)).bold().fg(color), title);
    frame.render_widget(Line::from(why_line(app)), why);
    tiers::draw(frame, tier_area, &app.now.tiers);
    tenants::draw(frame, tenant_area, app);
    frame.render_widget(Paragraph::new(news_lines(app)), news);
    frame.render_widget(Line::from(format!("costs {}", words::cost(&app.now.cost))), foot);
    frame.render_widget(key_line(app), keys);
    if app.reasons {
        tenants::reasons(frame, tenant_area.union(news), app);
    }
}

/// The reason of the mode, or the monitoring source.
fn why_line(app: &TopState) -> String {
    if app.now.mode_reason.is_empty() {
        format!("monitors accesses with {}", app.now.monitoring)
    } else {
        app.now.mode_reason.replace('\n', " ")
    }
}

/// The newest decisions and notices, newest first.
fn news_lines(app: &TopState) -> Vec<Line<'static>> {
    let decisions = app.now.decisions.iter().map(|d| (d.at, words::decision(d)));
    let notices = app.now.notices.iter().map(|n| (n.at, n.text.clone()));
    let mut news: Vec<(f64, String)> = decisions.chain(notices).collect();
    news.sort_by(|a, b| b.0.total_cmp(&a.0));
    let moved = app.before.as_ref().and_then(|before| rates::of_all(before, &app.now));
    let moved = moved.map_or_else(String::new, |r| {
        format!(" ({:.1} blocks promoted per second, {:.1} demoted)", r.promotions, r.demotions)
    });
    let head = Line::from(format!("LAST DECISIONS{moved}")).bold();
    let lines = news.into_iter().take(usize::from(NEWS));
    std::iter::once(head)
        .chain(lines.map(|(at, text)| Line::from(format!("{at:9.1} s  {text}"))))
        .collect()
}

fn key_line(app: &TopState) -> Line<'static> {
    let warn = Style::new().fg(Color::Yellow).bold();
    if let Some(command) = &app.asking {
        let what = if *command == ControlCommand::Pause { "Pause" } else { "Resume" };
        return Line::styled(format!("{what} tierwised? y: yes, any other key: no"), warn);
    }
    let keys = "q quit   p pause/resume   up/down pick a tenant   enter why";
    match &app.message {
        Some(message) if app.stale => {
            Line::styled(format!("NO ANSWER: {message}"), Style::new().fg(Color::Red).bold())
        }
        Some(message) => Line::styled(format!("{message}   ({keys})"), warn),
        None => Line::from(keys).dim(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use tierwised::view::Snapshot;

    use super::*;
    use crate::live::sample;

    /// The screen as text, without colours.
    fn screen(app: &TopState, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, app)).unwrap();
        let buffer = terminal.backend().buffer();
        let lines = buffer.content().chunks(width.into());
        let lines = lines.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>());
        lines.map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// Compares with a file below tests/golden. TIERWISE_BLESS=1 writes it again; check the
    /// difference.
    fn golden(name: &str, shown: &str) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        if std::env::var_os("TIERWISE_BLESS").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, shown).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(shown == expected, "{}:\n{expected}\nis now:\n{shown}", file.display());
    }

    fn running() -> TopState {
        let before = sample::snapshot();
        let mut app = TopState::new(before.clone());
        let mut now = before;
        now.uptime += 2.0;
        now.counters.promote_success += 40;
        now.tenants[0].tiers[0].promote_success += 40;
        app.take(Ok(now));
        app
    }

    #[test]
    fn tiers_tenants_decisions_and_cost() {
        golden("top.txt", &screen(&running(), 140, 24));
    }

    #[test]
    fn the_reasons_of_the_tenant_picked() {
        let mut app = running();
        (app.picked, app.reasons) = (1, true);
        golden("top-reasons.txt", &screen(&app, 140, 24));
    }

    #[test]
    fn narrow_screen_cuts_without_breaking() {
        golden("top-narrow.txt", &screen(&running(), 80, 24));
    }

    #[test]
    fn prompt_and_errors_use_the_last_line() {
        let mut app = running();
        app.asking = Some(ControlCommand::Pause);
        assert!(screen(&app, 140, 24).ends_with("Pause tierwised? y: yes, any other key: no\n"));
        app.asking = None;
        app.take(Err("no listener".into()));
        assert!(screen(&app, 140, 24).ends_with("NO ANSWER: no listener\n"));
    }

    #[test]
    fn any_size_and_empty_view_draw() {
        for (width, height) in [(1, 1), (10, 3), (40, 10), (300, 100)] {
            screen(&running(), width, height);
            screen(&TopState::new(Snapshot::default()), width, height);
        }
        let empty = screen(&TopState::new(Snapshot::default()), 120, 24);
        assert!(empty.contains("There are no tenants"), "{empty}");
    }
}
