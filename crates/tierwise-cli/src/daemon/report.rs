//! `tierwise daemon report`: a tenant's latency.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;
use tierwised::control::ControlCommand;

use crate::failure::CommandResult;
use crate::live::Socket;
use crate::value::{time, whole};

/// Report a tenant's latency, for policies that keep SLOs.
///
/// The tenant, or a program that measures it, runs this every few seconds with the figures since
/// the last report. It prints nothing on success.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  tierwise daemon report --tenant shop --p99 12ms --operations 48000"
)]
pub struct ReportCommand {
    /// The tenant.
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// The 99th percentile of its requests' latency since the last report, such as 12ms or 850us.
    #[arg(long, value_name = "TIME", value_parser = time(LATENCY))]
    p99: Duration,
    /// Requests since the last report.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = whole(0..=u64::MAX))]
    operations: u64,
    #[command(flatten)]
    socket: Socket,
}

impl ReportCommand {
    pub fn execute(&self) -> CommandResult {
        self.socket.call(&ControlCommand::Latency {
            tenant: self.tenant.clone(),
            p99_ms: milliseconds(self.p99),
            operations: self.operations,
        })?;
        Ok(())
    }
}

/// A microsecond to a day: no request is faster, and none may wait longer.
const LATENCY: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(24 * 3600);

/// The daemon's unit.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
