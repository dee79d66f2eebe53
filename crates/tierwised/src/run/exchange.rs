//! The exchange with processes of tenants: once a second their reports are taken, and what they may
//! read is written ([`crate::tenants`]).

use std::time::{Duration, Instant};

use tierwise_core::units::{TenantId, TierId};

use super::Daemon;
use crate::tenants::TenantEntitlement;

/// Interval of the exchange: placement changes over seconds, and the lists of all tenants'
/// processes are copied each time.
const INTERVAL: Duration = Duration::from_secs(1);

/// The time of the last exchange.
#[derive(Debug, Default)]
pub(super) struct Exchange(Option<Instant>);

impl Daemon {
    /// Exchanges, if the socket is configured and it is time.
    pub(super) fn exchange(&mut self) {
        let on = self.options.config.control.tenants_socket().is_some();
        let due = self.exchange.0.is_none_or(|last| last.elapsed() >= INTERVAL);
        if on && due {
            self.exchange.0 = Some(Instant::now());
            self.exchange_now();
        }
    }

    pub(super) fn exchange_now(&mut self) {
        for (process, ranges) in self.channels.tenants.take() {
            if let Err(e) = self.world.set_placed(process, ranges) {
                // It concerns that process alone, which sees that nothing is left where it is.
                tracing::debug!("report of process {}: {e}", process.pid);
            }
        }
        let tracker = self.world.tracker();
        let tenants = 0..self.options.config.tenants.len();
        let members = tenants.clone().flat_map(|index| {
            tracker.members(TenantId(index as u16)).map(move |process| (process, index))
        });
        let entitlements = tenants.map(|i| self.entitlement(i)).collect();
        self.channels.tenants.write(members, entitlements, Instant::now());
    }

    fn entitlement(&self, index: usize) -> TenantEntitlement {
        let (config, id) = (&self.options.config.tenants[index], TenantId(index as u16));
        let host = self.world.host();
        let bytes = |pages: Option<&tierwise_core::units::Pages>| {
            pages.map_or(0, |pages| pages.in_bytes(host.page_size).0)
        };
        let fast = self.tenant_tier(config, id, TierId::FASTEST, &Default::default());
        let mut tiers = host.tiers.iter().map(|tier| tier.nodes.clone());
        TenantEntitlement {
            tenant: config.name.clone(),
            mode: self.current_mode().0,
            fast_nodes: tiers.next().unwrap_or_default(),
            slow_nodes: tiers.flatten().collect(),
            usage_bytes: bytes(self.world.usage(id).first()),
            floor_bytes: fast.floor_bytes,
            cap_bytes: fast.cap_bytes,
            share_bytes: fast.share_bytes,
            free_bytes: bytes(self.world.free().first()),
            placed_bytes: self.world.placed(id).0,
        }
    }
}
