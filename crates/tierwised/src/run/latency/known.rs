//! Each tenant's last known latency, or why it is unknown.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{LatencyOutcome, LatencyReading};

/// Min seconds between two log lines about one tenant's problem: a service may fail every other
/// second, and `status` shows the current problem anyway.
const LOG_INTERVAL_S: f64 = 60.0;

/// Latencies and problems by tenant.
#[derive(Debug, Default)]
pub(in crate::run) struct Known {
    tenants: BTreeMap<String, Tenant>,
}

#[derive(Debug, Default)]
struct Tenant {
    p99: Option<Duration>,
    problem: Option<String>,
    /// The last log line about a problem, in seconds after the daemon started.
    logged: Option<f64>,
}

impl Known {
    /// Sets a tenant's latency.
    pub(in crate::run) fn set(&mut self, tenant: &str, p99: Duration) {
        self.tenants.entry(tenant.to_owned()).or_default().p99 = Some(p99);
    }

    /// Records the outcome of reading a tenant's endpoint, and returns the reading if there is one.
    /// After a failure the latency is unknown.
    pub(in crate::run) fn read(
        &mut self,
        tenant: &str,
        outcome: LatencyOutcome,
        at: f64,
    ) -> Option<LatencyReading> {
        let known = self.tenants.entry(tenant.to_owned()).or_default();
        match outcome {
            Ok(reading) => {
                known.problem = None;
                reading
            }
            Err(problem) => {
                known.p99 = None;
                let is_new = known.problem.is_none();
                if is_new && known.logged.is_none_or(|logged| at - logged >= LOG_INTERVAL_S) {
                    known.logged = Some(at);
                    tracing::warn!("tenant {tenant:?}: its latency cannot be read: {problem}");
                }
                known.problem = Some(problem);
                None
            }
        }
    }

    /// Forgets all tenants but these.
    pub(in crate::run) fn keep(&mut self, stays: impl Fn(&str) -> bool) {
        self.tenants.retain(|tenant, _| stays(tenant));
    }

    /// Forgets the problems of tenants whose endpoint was removed.
    pub(in crate::run) fn forget_problems(&mut self, gone: impl Fn(&str) -> bool) {
        let gone = self.tenants.iter_mut().filter(|(tenant, _)| gone(tenant));
        gone.for_each(|(_, known)| known.problem = None);
    }

    /// A tenant's 99th percentile.
    pub(in crate::run) fn p99(&self, tenant: &str) -> Option<Duration> {
        self.tenants.get(tenant)?.p99
    }

    /// The reason why a tenant's endpoint cannot be read.
    pub(in crate::run) fn problem(&self, tenant: &str) -> Option<&str> {
        self.tenants.get(tenant)?.problem.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_latency_is_unknown_with_reason() {
        let mut known = Known::default();
        known.set("a", Duration::from_millis(3));
        known.set("b", Duration::from_millis(5));
        assert_eq!(known.read("a", Err("no process listens there".into()), 1.0), None);
        assert_eq!((known.p99("a"), known.problem("a")), (None, Some("no process listens there")));
        assert_eq!((known.p99("b"), known.problem("b")), (Some(Duration::from_millis(5)), None));
        let reading = LatencyReading { p99: Duration::from_millis(4), operations: 7 };
        assert_eq!(known.read("a", Ok(Some(reading)), 2.0), Some(reading));
        assert_eq!(known.problem("a"), None);
        known.read("b", Err("gone".into()), 3.0);
        known.forget_problems(|tenant| tenant == "b");
        assert_eq!(known.problem("b"), None);
        known.keep(|tenant| tenant != "b");
        assert_eq!(known.p99("b"), None);
    }
}
