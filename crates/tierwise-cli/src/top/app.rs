//! The state of the screen and the effects of keys, without input or output.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tierwised::control::ControlCommand;
use tierwised::view::{DaemonMode, Snapshot};

/// The state that the screen shows.
#[derive(Debug)]
pub struct TopState {
    pub now: Snapshot,
    /// The previous view, for rates.
    pub before: Option<Snapshot>,
    /// Index of the selected tenant.
    pub picked: usize,
    /// True while the selected tenant's reasons are shown.
    pub reasons: bool,
    /// The command that waits for a confirmation.
    pub asking: Option<ControlCommand>,
    /// The daemon's last answer, or the reason why there was none.
    pub message: Option<String>,
    /// True while the daemon does not answer, so that the view is old.
    pub stale: bool,
}

/// The request that a key makes.
#[derive(Debug, PartialEq)]
pub enum KeyAction {
    Quit,
    Send(Box<ControlCommand>),
}

impl TopState {
    pub fn new(now: Snapshot) -> Self {
        Self {
            now,
            before: None,
            picked: 0,
            reasons: false,
            asking: None,
            message: None,
            stale: false,
        }
    }

    /// Takes a new view, or the reason why there is none; the old one stays on the screen then.
    pub fn take(&mut self, answer: Result<Snapshot, String>) {
        match answer {
            Ok(now) => {
                let now = Box::new(now);
                // The daemon makes its view once a second: the same view twice gives no rates.
                if now.uptime != self.now.uptime {
                    self.before = Some(std::mem::replace(&mut self.now, *now));
                } else {
                    self.now = *now;
                }
                if self.stale {
                    (self.stale, self.message) = (false, None);
                }
                self.picked = self.picked.min(self.now.tenants.len().saturating_sub(1));
            }
            Err(problem) => (self.stale, self.message) = (true, Some(problem)),
        }
    }

    /// Takes the answer to a command.
    pub fn show_reply(&mut self, answer: Result<Vec<String>, String>) {
        self.message = Some(match answer {
            Ok(changed) if changed.is_empty() => "nothing changed".into(),
            Ok(changed) => changed.join("; "),
            Err(problem) => problem,
        });
    }

    pub fn key(&mut self, key: KeyEvent) -> Option<KeyAction> {
        let interrupted =
            key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        if interrupted {
            return Some(KeyAction::Quit);
        }
        if let Some(command) = self.asking.take() {
            return (key.code == KeyCode::Char('y')).then_some(KeyAction::Send(Box::new(command)));
        }
        match key.code {
            KeyCode::Char('q') => return Some(KeyAction::Quit),
            KeyCode::Esc if self.reasons => self.reasons = false,
            KeyCode::Esc => return Some(KeyAction::Quit),
            KeyCode::Char('p') => self.asking = Some(self.other_way()),
            KeyCode::Up => self.picked = self.picked.saturating_sub(1),
            KeyCode::Down if self.picked + 1 < self.now.tenants.len() => self.picked += 1,
            KeyCode::Enter => self.reasons = !self.reasons,
            _ => {}
        }
        None
    }

    /// Returns the command that pauses a running daemon, or resumes a paused one.
    fn other_way(&self) -> ControlCommand {
        if self.now.mode == DaemonMode::Paused {
            ControlCommand::Resume
        } else {
            ControlCommand::Pause
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::sample;

    fn press(app: &mut TopState, code: KeyCode) -> Option<KeyAction> {
        app.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn pausing_is_asked_before_it_is_done() {
        let mut app = TopState::new(sample::snapshot());
        assert_eq!(press(&mut app, KeyCode::Char('p')), None);
        assert_eq!(app.asking, Some(ControlCommand::Pause));
        assert_eq!(press(&mut app, KeyCode::Char('q')), None, "any other key only says no");
        assert_eq!(app.asking, None);
        press(&mut app, KeyCode::Char('p'));
        assert_eq!(
            press(&mut app, KeyCode::Char('y')),
            Some(KeyAction::Send(Box::new(ControlCommand::Pause)))
        );
        app.now.mode = DaemonMode::Paused;
        press(&mut app, KeyCode::Char('p'));
        assert_eq!(
            press(&mut app, KeyCode::Char('y')),
            Some(KeyAction::Send(Box::new(ControlCommand::Resume)))
        );
        assert_eq!(press(&mut app, KeyCode::Char('q')), Some(KeyAction::Quit));
    }

    #[test]
    fn the_pick_stays_among_the_tenants() {
        let mut app = TopState::new(sample::snapshot());
        press(&mut app, KeyCode::Up);
        assert_eq!(app.picked, 0);
        (0..9).for_each(|_| assert_eq!(press(&mut app, KeyCode::Down), None));
        assert_eq!(app.picked, 2);
        let mut fewer = sample::snapshot();
        fewer.tenants.truncate(1);
        app.take(Ok(fewer));
        assert_eq!(app.picked, 0);
        app.take(Ok(Snapshot::default()));
        press(&mut app, KeyCode::Down);
        assert_eq!(app.picked, 0, "there is no tenant");
    }

    #[test]
    fn silent_daemon_leaves_the_last_view() {
        let mut app = TopState::new(sample::snapshot());
        app.take(Err("gone".into()));
        assert!(app.stale && app.now.policy == "tierwise");
        let mut later = sample::snapshot();
        later.uptime += 1.0;
        app.take(Ok(later.clone()));
        assert!(!app.stale && app.message.is_none());
        assert_eq!(app.before, Some(sample::snapshot()));
        app.take(Ok(later));
        assert_eq!(
            app.before,
            Some(sample::snapshot()),
            "the same view twice says nothing of rates"
        );
    }

    #[test]
    fn reasons_come_and_go() {
        let mut app = TopState::new(sample::snapshot());
        press(&mut app, KeyCode::Enter);
        assert!(app.reasons);
        assert_eq!(press(&mut app, KeyCode::Esc), None);
        assert!(!app.reasons);
        assert_eq!(press(&mut app, KeyCode::Esc), Some(KeyAction::Quit));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.key(interrupt), Some(KeyAction::Quit));
    }
}
