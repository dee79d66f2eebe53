//! Rates per second between two views.

use tierwised::view::{Snapshot, TenantView};

/// Pages moved in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Promoted.
    pub promotions: f64,
    /// Demoted.
    pub demotions: f64,
}

/// Returns a tenant's rates between two views; `None` if the daemon or the tenant started in
/// between.
pub fn of_tenant(before: &Snapshot, now: &Snapshot, tenant: &TenantView) -> Option<Rates> {
    let was = before.tenants.iter().find(|t| t.name == tenant.name)?;
    between(before, now, counts(was), counts(tenant))
}

/// The rates of all tenants together.
pub fn of_all(before: &Snapshot, now: &Snapshot) -> Option<Rates> {
    let all = |s: &Snapshot| (s.counters.promote_success, s.counters.demote_success);
    between(before, now, all(before), all(now))
}

/// Pages promoted and demoted so far, over all tiers.
pub fn counts(tenant: &TenantView) -> (u64, u64) {
    tenant.tiers.iter().fold((0, 0), |(promoted, demoted), tier| {
        (promoted + tier.promote_success, demoted + tier.demote_success)
    })
}

fn between(before: &Snapshot, now: &Snapshot, was: (u64, u64), is: (u64, u64)) -> Option<Rates> {
    let seconds = now.uptime - before.uptime;
    // A restarted daemon counts from zero, and two views of the same moment give no rate.
    if seconds <= 0.0 {
        return None;
    }
    let rate = |was: u64, is: u64| is.checked_sub(was).map(|moved| moved as f64 / seconds);
    Some(Rates { promotions: rate(was.0, is.0)?, demotions: rate(was.1, is.1)? })
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn rate_is_difference_over_elapsed_time() {
        let before = sample::snapshot();
        let mut now = before.clone();
        now.uptime += 2.0;
        now.tenants[0].tiers[0].promote_success += 10;
        now.tenants[0].tiers[0].demote_success += 3;
        let rates = of_tenant(&before, &now, &now.tenants[0]);
        assert_eq!(rates, Some(Rates { promotions: 5.0, demotions: 1.5 }));
        assert_eq!(of_tenant(&before, &now, &now.tenants[1]), Some(Rates::default()));
        now.counters.promote_success += 12;
        assert_eq!(of_all(&before, &now).map(|r| r.promotions), Some(6.0));
    }

    #[test]
    fn no_rate_spans_a_restart() {
        let before = sample::snapshot();
        let mut now = before.clone();
        assert_eq!(of_all(&before, &now), None, "no time passed");
        now.uptime = 1.0;
        assert_eq!(of_all(&before, &now), None, "the daemon is younger than before");
        now.uptime = before.uptime + 1.0;
        now.counters.promote_success = 0;
        assert_eq!(of_all(&before, &now), None, "counted backwards");
        now.tenants[0].name = "new".into();
        assert_eq!(of_tenant(&before, &now, &now.tenants[0]), None);
    }
}
