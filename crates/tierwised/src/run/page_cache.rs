//! Page cache above a cap. The engine moves what processes map; the rest of what a control group
//! holds of the fastest tier is the kernel's to demote, and it is told to as long as the group has
//! more there than its cap. [`super::cache_promotion`] is the other way.

use tierwise_core::units::{Bytes, Pages, TenantId};
use tierwise_linux::error::Result;
use tierwise_linux::migrate::page_cache;
use tierwise_linux::roots::Roots;
use tierwise_linux::world::LiveWorld;

use super::Daemon;
use crate::config::LimitText;
use crate::view::Mode;

/// Most that is demoted of a tenant in one round: the call returns when it is done, and a round
/// must not be long.
const MAX: Bytes = Bytes(32 << 20);

impl Daemon {
    /// Has the kernel demote what is above caps. A kernel that cannot is said once, and not asked
    /// again.
    pub(super) fn demote_page_cache(&mut self) {
        let wanted = self.start.config.moving.page_cache && !self.page_cache_refused;
        let world = &self.world;
        let idle = world.cpu_budget().suspended() || world.unreadable().is_some();
        if !wanted || self.paused || self.mode != Mode::Manage || idle {
            return;
        }
        for (index, config) in self.start.config.tenants.iter().enumerate() {
            let tenant = TenantId(index as u16);
            let resident = self.world.usage(tenant).iter().copied().sum();
            let limit = config.cap.as_ref().map(LimitText::limit);
            let page_size = self.world.host().page_size;
            let Some(cap) = limit.and_then(|limit| limit.pages(resident, page_size)) else {
                continue;
            };
            if let Err(e) = cache_demoted_at(&self.start.roots, &self.world, tenant, cap) {
                self.page_cache_refused = true;
                let at = self.uptime();
                self.history.notice(at, format!("page cache is left where it is: {e}"));
                return;
            }
        }
    }
}

/// Of one tenant.
fn cache_demoted_at(roots: &Roots, world: &LiveWorld, tenant: TenantId, cap: Pages) -> Result<()> {
    let host = world.host();
    let held = world.usage(tenant).first().copied().unwrap_or(Pages(0));
    let mut left = held.saturating_sub(cap).in_bytes(host.page_size).min(MAX);
    let nodes = host.tiers.first().map_or(&[][..], |tier| &tier.nodes);
    for group in world.tracker().groups(tenant) {
        for &node in nodes {
            if left < host.page_size {
                return Ok(());
            }
            left = Bytes(left.0 - page_cache::demote(roots, &group.path, node, left)?.0);
        }
    }
    Ok(())
}
