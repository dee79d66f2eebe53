//! `tierwise status`: what the daemon does now, once, as text.

mod print;

use clap::Args;

use crate::failure::Outcome;
use crate::live::Socket;
use crate::output;

/// Say what the running daemon does: tiers, tenants, last decisions, cost.
///
/// `tierwise top` shows the same and keeps showing it.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise status\n  tierwise status --json | jq .tenants")]
pub struct Status {
    #[command(flatten)]
    socket: Socket,
    /// Print JSON: the daemon's whole snapshot, as /api/v1/snapshot has it.
    #[arg(long)]
    json: bool,
}

impl Status {
    pub fn execute(&self) -> Outcome {
        let snapshot = self.socket.snapshot()?;
        if self.json {
            return output::json(&snapshot);
        }
        print::print(&mut anstream::stdout().lock(), &snapshot)
    }
}
