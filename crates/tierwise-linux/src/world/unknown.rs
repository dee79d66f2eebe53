//! Tenants whose accesses were not monitored yet.
//!
//! Before the first access report every page of a tenant would seem cold
//! ([`TenantReading::unmonitored`]). A tenant counts as unknown from the survey that finds it
//! running until the first report on one of its processes.

use std::time::Duration;

use tierwise_core::observe::TenantReading;
use tierwise_core::units::{TenantId, Timestamp};

use crate::process::Process;

/// The longest time for which a tenant counts as unknown. The first report comes after an
/// aggregation interval, 0.4 s at the default, or after a turn of each of its processes. A tenant
/// that keeps its address space locked is never reported, and must not keep memory that others may
/// use for longer than this.
const MAX_UNKNOWN: Duration = Duration::from_secs(60);

/// By tenant: the time at which it was found running.
#[derive(Debug, Default)]
pub(super) struct UnknownTenants {
    since: Vec<Timestamp>,
}

impl UnknownTenants {
    /// Follows a new reading of a tenant; `ran` is true if it ran at the last one.
    pub(super) fn follow(
        &mut self,
        tenant: TenantId,
        now: Timestamp,
        ran: bool,
        reading: &mut TenantReading,
    ) {
        if self.since.len() <= tenant.index() {
            self.since.resize(tenant.index() + 1, Timestamp::ZERO);
        }
        let since = &mut self.since[tenant.index()];
        if reading.running && !ran {
            (*since, reading.unmonitored) = (now, true);
        }
        reading.unmonitored &= reading.running && now.since(*since) < MAX_UNKNOWN;
    }

    /// Handles the processes of an access report.
    pub(super) fn monitored<M: Iterator<Item = Process>>(
        &self,
        sampled: &[Process],
        members: impl Fn(TenantId) -> M,
        readings: &mut [TenantReading],
    ) {
        let unknown = readings.iter_mut().enumerate().filter(|(_, reading)| reading.unmonitored);
        for (index, reading) in unknown {
            let mut members = members(TenantId(index as u16));
            reading.unmonitored = !members.any(|process| sampled.contains(&process));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_is_unknown_until_its_report() {
        let (mut unknown, mut readings) = (UnknownTenants::default(), Vec::new());
        readings.resize_with(2, || TenantReading { running: true, ..TenantReading::default() });
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let process = |pid| Process { pid, start_time: 1 };
        let members = |tenant: TenantId| [process(i32::from(tenant.0))].into_iter();
        let unmonitored =
            |readings: &[TenantReading]| [readings[0].unmonitored, readings[1].unmonitored];
        for (index, reading) in readings.iter_mut().enumerate() {
            unknown.follow(TenantId(index as u16), at(1), false, reading);
        }
        assert_eq!(unmonitored(&readings), [true, true]);
        unknown.monitored(&[process(1), process(7)], members, &mut readings);
        assert_eq!(unmonitored(&readings), [true, false]);
        // Neither another reading nor one process more makes a known tenant unknown.
        unknown.follow(TenantId(1), at(2), true, &mut readings[1]);
        unknown.follow(TenantId(0), at(60), true, &mut readings[0]);
        assert_eq!(unmonitored(&readings), [true, false]);
        // A tenant that hides its memory is treated like any other after a minute.
        unknown.follow(TenantId(0), at(61), true, &mut readings[0]);
        assert_eq!(unmonitored(&readings), [false, false]);
        readings[1].running = false;
        unknown.follow(TenantId(1), at(70), true, &mut readings[1]);
        readings[1].running = true;
        unknown.follow(TenantId(1), at(71), false, &mut readings[1]);
        assert_eq!(unmonitored(&readings), [false, true]);
    }
}
