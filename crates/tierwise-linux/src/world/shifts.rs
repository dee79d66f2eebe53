//! What moves change of the tenants' memory by tier until it is read again. A reading may be
//! seconds old, because surveys wait for their budget; a decision that did not know of the moves
//! since then would make them a second time.

use tierwise_core::observe::TenantReading;
use tierwise_core::units::{Pages, TenantId};

use crate::migrate::{MoveRequest, Moved};
use crate::process::resident::PAGE_SIZE;
use crate::topology::LinuxHost;

/// Memory of a tenant that moved between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shift {
    tenant: TenantId,
    from: u32,
    to: u32,
    bytes: u64,
}

/// The moves since the tenants' memory was last corrected.
#[derive(Debug, Default)]
pub(super) struct Shifts(Vec<Shift>);

impl Shifts {
    /// Adds the pages that moved.
    pub(super) fn add(&mut self, requests: &[MoveRequest], moved: &[Moved]) {
        for (request, moved) in requests.iter().zip(moved) {
            let (Ok(()), Some(from)) = (moved.result, moved.from) else { continue };
            let shift =
                Shift { tenant: request.tenant, from, to: request.node, bytes: request.bytes };
            match self.0.last_mut() {
                Some(last)
                    if (last.tenant, last.from, last.to) == (shift.tenant, from, shift.to) =>
                {
                    last.bytes += shift.bytes;
                }
                _ => self.0.push(shift),
            }
        }
    }

    /// Corrects the tenants' memory by tier.
    pub(super) fn correct(&mut self, host: &LinuxHost, tenants: &mut [TenantReading]) {
        let tier = |node: u32| host.tiers.iter().position(|tier| tier.nodes.contains(&node));
        for Shift { tenant, from, to, bytes } in self.0.drain(..) {
            let Some(reading) = tenants.get_mut(tenant.index()) else { continue };
            let (Some(from), Some(to)) = (tier(from), tier(to)) else { continue };
            let held = reading.usage.get(from).copied().unwrap_or_default();
            // A reading that was made during the moves has some of them already.
            let pages = Pages(bytes / PAGE_SIZE).min(held);
            if let Some(there) = reading.usage.get_mut(to) {
                *there += pages;
                reading.usage[from] = held - pages;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tierwise_core::migrate::FailReason;

    use super::*;
    use crate::process::Process;
    use crate::roots::Roots;
    use crate::topology::fixture;

    #[test]
    fn moves_correct_the_tenants_memory() {
        let (_tree, roots): (_, Roots) = fixture::copy("hmat-two-tier");
        let host = LinuxHost::discover(&roots, None).unwrap();
        let [fast, slow] = [0, 1].map(|tier: usize| host.tiers[tier].nodes[0]);
        let request = |tenant, node| MoveRequest {
            tenant: TenantId(tenant),
            process: Process { pid: 1, start_time: 1 },
            address: 0,
            bytes: 2 * PAGE_SIZE,
            node,
            room_on: None,
        };
        let moved = |from, result| Moved { from, result };
        let mut shifts = Shifts::default();
        shifts.add(
            &[request(0, slow), request(0, slow), request(1, fast), request(7, fast)],
            &[
                moved(Some(fast), Ok(())),
                moved(Some(fast), Err(FailReason::Busy)),
                moved(Some(slow), Ok(())),
                moved(Some(slow), Ok(())),
            ],
        );
        let reading = |fast, slow| TenantReading {
            usage: vec![Pages(fast), Pages(slow)],
            ..TenantReading::default()
        };
        let mut tenants = [reading(5, 0), reading(0, 1)];
        shifts.correct(&host, &mut tenants);
        assert_eq!(tenants[0].usage, [Pages(3), Pages(2)]);
        assert_eq!(tenants[1].usage, [Pages(1), Pages(0)], "it was read during the moves");
        shifts.correct(&host, &mut tenants);
        assert_eq!(tenants[0].usage, [Pages(3), Pages(2)], "once");
    }
}
