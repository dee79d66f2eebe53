//! `tierwise top`: shows the status of the running daemon continuously.

mod app;
mod draw;
mod tenants;
mod tiers;

use std::io::{self, IsTerminal};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use app::{KeyAction, TopState};

use crate::failure::{CommandResult, Failure};
use crate::live::Socket;
use crate::value::time;

/// Show the status of the running daemon continuously.
///
/// The screen has the tiers, the tenants with their memory against floor, cap and share, the pages
/// moved per second, the last decisions and the daemon's cost. Keys: q ends; p pauses or resumes,
/// after a confirmation; up and down select a tenant, enter shows the reasons for its memory.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  sudo tierwise top\n  sudo tierwise top --interval 5s")]
pub struct Top {
    /// Time between two queries of the daemon, such as 1s or 500ms.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time(INTERVAL))]
    interval: Duration,
    #[command(flatten)]
    socket: Socket,
}

/// The daemon updates its view once a second; for more than a minute `status` suffices.
const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);

impl Top {
    pub fn execute(&self) -> CommandResult {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::user(
                &"top needs a terminal; `tierwise status` prints the same once",
            ));
        }
        // This precedes the takeover of the terminal, so that a missing daemon is reported as by
        // other commands.
        let app = TopState::new(self.socket.snapshot()?);
        let mut terminal = ratatui::try_init()?;
        let outcome = self.show(&mut terminal, app);
        ratatui::restore();
        outcome
    }

    fn show(&self, terminal: &mut DefaultTerminal, mut app: TopState) -> CommandResult {
        let mut next = Instant::now() + self.interval;
        loop {
            terminal.draw(|frame| draw::draw(frame, &app))?;
            if event::poll(next.saturating_duration_since(Instant::now()))? {
                if let Event::Key(key) = event::read()?
                    && key.kind == KeyEventKind::Press
                {
                    match app.key(key) {
                        Some(KeyAction::Quit) => return Ok(()),
                        Some(KeyAction::Send(command)) => {
                            let answer = self.socket.call(&command);
                            app.show_reply(answer.map(|reply| reply.changed).map_err(words));
                            // The effect should be visible at once.
                            next = Instant::now();
                        }
                        None => {}
                    }
                }
            } else {
                app.take(self.socket.snapshot().map_err(words));
                next = Instant::now() + self.interval;
            }
        }
    }
}

/// Describes a failure on the screen instead of ending the command: the daemon may come back.
fn words(failure: Failure) -> String {
    match failure {
        Failure::User(message)
        | Failure::Internal(message)
        | Failure::Program(message)
        | Failure::Cut(message) => message,
        Failure::ClosedPipe => "the connection was closed".into(),
    }
}
