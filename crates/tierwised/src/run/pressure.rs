//! Tenants' memory pressure (PSI).

use tierwise_core::units::TenantId;
use tierwise_linux::cgroup::Cgroup;
use tierwise_linux::process::Reader;
use tierwise_linux::tenant::TenantTracker;

/// The memory pressure of tenants that are control groups.
#[derive(Debug, Default)]
pub(super) struct TenantPressure {
    percent: Vec<Option<f64>>,
    reader: Reader,
}

impl TenantPressure {
    /// Reads the pressure of the first `tenants` tenants.
    pub(super) fn read(&mut self, tracker: &TenantTracker, tenants: usize) {
        let Self { percent, reader } = self;
        let mut some = |group: &Cgroup| {
            group.pressure(reader).ok().flatten().map(|pressure| pressure.some.avg10)
        };
        percent.clear();
        for index in 0..tenants {
            let groups = tracker.groups(TenantId(index as u16));
            // The worst of several groups: that is where a task waits.
            percent.push(groups.iter().filter_map(&mut some).reduce(f64::max));
        }
    }

    /// Returns the part of the last ten seconds in which some of a tenant's tasks waited for
    /// memory, in percent.
    pub(super) fn percent(&self, tenant: usize) -> Option<f64> {
        self.percent.get(tenant).copied().flatten()
    }
}
