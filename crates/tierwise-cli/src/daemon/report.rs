//! `tierwise daemon report`: a tenant's latency.

use std::time::Duration;

use clap::Args;
use tierwised::control::Command;

use crate::failure::Outcome;
use crate::live::Socket;

/// Report a tenant's latency, for policies that keep SLOs.
///
/// The tenant, or a program that measures it, calls this every few seconds with the figures since
/// the last report. Says nothing when all is well.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  tierwise daemon report --tenant shop --p99 12ms --operations 48000"
)]
pub struct Report {
    /// The tenant.
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// The 99th percentile of its requests' latency since the last report, such as 12ms or 850us.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    p99: Duration,
    /// Requests since the last report.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    operations: u64,
    #[command(flatten)]
    socket: Socket,
}

impl Report {
    pub fn execute(&self) -> Outcome {
        self.socket.call(&Command::Latency {
            tenant: self.tenant.clone(),
            p99_ms: milliseconds(self.p99),
            operations: self.operations,
        })?;
        Ok(())
    }
}

/// A time with its unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| {
        format!("{error}; write a whole number with a unit, such as 12ms or 850us")
    })
}

/// As the daemon counts.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
