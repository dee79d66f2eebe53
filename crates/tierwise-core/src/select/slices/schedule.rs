//! MTAT's algorithm 3: the pages that each tenant gives and takes in a time slice.

use crate::units::{Pages, TenantId};

/// The remaining change of a tenant's partition, and the part of it in this slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The tenant; `None` for all tenants without a partition together.
    pub tenant: Option<TenantId>,
    /// True if the tenant is latency-critical: its pages move first.
    pub critical: bool,
    /// Delta: its share less its memory, in base pages.
    pub delta: i64,
    /// The part of the delta in this slice, of the same sign.
    pub step: i64,
}

impl Change {
    /// Makes a change whose step is zero.
    pub const fn new(tenant: Option<TenantId>, critical: bool, delta: i64) -> Self {
        Self { tenant, critical, delta, step: 0 }
    }
}

/// Sets every step of a slice of at most `limit` base pages each way (MTAT, algorithm 3, lines 3 to
/// 12).
///
/// Latency-critical tenants move first. If they gain pages in sum, best-effort tenants with a
/// negative delta give as many, in proportion to their deltas. If they lose pages in sum,
/// best-effort tenants with a positive delta take them. If no latency-critical tenant moves,
/// best-effort tenants give and take as much as the slice allows. The paper has one
/// latency-critical tenant; several share the slice in proportion.
///
/// ```
/// use tierwise_core::select::{Change, plan_slice};
/// use tierwise_core::units::{Pages, TenantId};
///
/// let tenant = |i, critical, delta| Change::new(Some(TenantId(i)), critical, delta);
/// let steps = |changes: &[Change]| changes.iter().map(|c| c.step).collect::<Vec<_>>();
///
/// // 100 pages more for the latency-critical tenant: two give, 3 to 1, and the third has to wait.
/// let best_effort = [tenant(1, false, -90), tenant(2, false, -30), tenant(3, false, 20)];
/// let mut all = [&[tenant(0, true, 100)], &best_effort[..]].concat();
/// plan_slice(&mut all, Pages(40));
/// assert_eq!(steps(&all), [40, -30, -10, 0]);
///
/// // It has its share: now the best-effort tenants exchange among themselves.
/// let best_effort = [tenant(1, false, -15), tenant(2, false, -5), tenant(3, false, 20)];
/// let mut all = [&[tenant(0, true, 0)], &best_effort[..]].concat();
/// plan_slice(&mut all, Pages(12));
/// assert_eq!(steps(&all), [0, -9, -3, 12]);
/// ```
pub fn plan_slice(changes: &mut [Change], limit: Pages) {
    changes.iter_mut().for_each(|change| change.step = 0);
    let limit = i64::try_from(limit.0).unwrap_or(i64::MAX);
    let taken = distribute(changes, true, true, limit);
    let given = distribute(changes, true, false, limit);
    if taken == 0 && given == 0 {
        distribute(changes, false, true, limit);
        distribute(changes, false, false, limit);
    } else if taken > given {
        distribute(changes, false, false, taken - given);
    } else {
        distribute(changes, false, true, given - taken);
    }
}

/// Distributes up to `limit` pages over the tenants of a class that take, or that give, in
/// proportion to their deltas. Returns the pages distributed. The parts are differences of a
/// rounded running sum, so that they add up exactly and none is above its delta.
fn distribute(changes: &mut [Change], critical: bool, taking: bool, limit: i64) -> i64 {
    let concerned = |c: &Change| c.critical == critical && c.delta != 0 && (c.delta > 0) == taking;
    let delta = |c: &Change| i128::from(c.delta.unsigned_abs());
    let all: i128 = changes.iter().filter(|c| concerned(c)).map(delta).sum();
    let total = all.min(i128::from(limit));
    let (mut sum, mut before) = (0, 0);
    for change in changes.iter_mut().filter(|c| concerned(c)) {
        sum += delta(change);
        let until = total * sum / all;
        let part = (until - before) as i64;
        before = until;
        change.step = if taking { part } else { -part };
    }
    total as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steps(deltas: &[(bool, i64)], limit: u64) -> Vec<i64> {
        let change = |&(critical, delta): &(bool, i64)| Change::new(None, critical, delta);
        let mut changes: Vec<Change> = deltas.iter().map(change).collect();
        plan_slice(&mut changes, Pages(limit));
        changes.iter().map(|c| c.step).collect()
    }

    #[test]
    fn shrinking_critical_tenant_gives_to_takers() {
        let deltas = [(true, -50), (false, 30), (false, 20), (false, -10)];
        assert_eq!(steps(&deltas, 10), [-10, 6, 4, 0]);
        assert_eq!(steps(&deltas, 80), [-50, 30, 20, 0]);
    }

    #[test]
    fn critical_tenants_share_slice_among_themselves() {
        let deltas = [(true, 60), (true, 20), (true, -16), (false, -64)];
        // 40 to take, 3 to 1; 16 come from the third, and 24 from the best-effort tenant.
        assert_eq!(steps(&deltas, 40), [30, 10, -16, -24]);
    }

    /// Runs algorithm 3 to its end: slices until all deltas are zero.
    #[test]
    fn slices_add_up_to_the_partition() {
        let mut deltas = [(true, 100), (false, -90), (false, -30), (false, 20)];
        let mut slices = Vec::new();
        while deltas.iter().any(|d| d.1 != 0) {
            let now = steps(&deltas, 40);
            deltas.iter_mut().zip(&now).for_each(|(d, step)| d.1 -= step);
            slices.push(now);
        }
        let expected = [
            vec![40, -30, -10, 0],
            vec![40, -30, -10, 0],
            vec![20, -15, -5, 0],
            vec![0, -15, -5, 20],
        ];
        assert_eq!(slices, expected);
    }

    proptest! {
        #[test]
        fn steps_stay_within_delta_and_slice(
            deltas in prop::collection::vec((any::<bool>(), -1000i64..1000), 0..12),
            limit in 0u64..500,
        ) {
            let steps = steps(&deltas, limit);
            let sum = |up: bool| -> i64 { steps.iter().filter(|&&s| (s > 0) == up).sum() };
            prop_assert!(sum(true) <= limit as i64 && -sum(false) <= limit as i64);
            for (&(_, delta), &step) in deltas.iter().zip(&steps) {
                prop_assert!(step.abs() <= delta.abs() && step * delta >= 0);
            }
        }
    }
}
