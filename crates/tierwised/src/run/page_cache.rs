//! Page cache above a cap. The engine moves the pages that processes map. Only the kernel can
//! demote the rest of a control group's memory in the fastest tier: the daemon makes it do so while
//! the group exceeds its cap there. [`super::cache_promotion`] is the other direction.

use std::time::{Duration, Instant};

use tierwise_core::units::{Bytes, Pages, TenantId};
use tierwise_linux::error::Result;
use tierwise_linux::migrate::page_cache::demotion;
use tierwise_linux::roots::Roots;
use tierwise_linux::world::LiveWorld;

use super::Daemon;
use super::cache_promotion::CachePromotion;
use crate::config::LimitText;

/// Interval between two demotions of page cache above caps.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum demoted of a tenant per round: the call returns when it is done, and a round must be
/// short.
const MAX: Bytes = Bytes(32 << 20);

/// The state of both directions.
#[derive(Debug)]
pub(super) struct PageCache {
    demoted_at: Instant,
    /// True if the kernel cannot demote page cache and the log has the reason.
    pub(super) refused: bool,
    pub(super) promotion: CachePromotion,
}

impl PageCache {
    pub(super) fn new() -> Self {
        Self { demoted_at: Instant::now(), refused: false, promotion: CachePromotion::new() }
    }
}

impl Daemon {
    /// Makes the kernel demote the page cache above caps, once per second. Reports a refusal once,
    /// and then stops until the configuration changes.
    pub(super) fn demote_page_cache(&mut self) {
        if self.page_cache.demoted_at.elapsed() < INTERVAL {
            return;
        }
        self.page_cache.demoted_at = Instant::now();
        let wanted = self.options.config.moving.page_cache && !self.page_cache.refused;
        let world = &self.world;
        let idle = world.cpu_budget().suspended() || world.unreadable().is_some();
        if !wanted || !self.activity.manages() || idle {
            return;
        }
        for (index, config) in self.options.config.tenants.iter().enumerate() {
            let tenant = TenantId(index as u16);
            let resident = self.world.usage(tenant).iter().copied().sum();
            let limit = config.cap.as_ref().map(LimitText::limit);
            let page_size = self.world.host().page_size;
            let Some(cap) = limit.and_then(|limit| limit.pages(resident, page_size)) else {
                continue;
            };
            if let Err(e) = demote(&self.options.roots, &self.world, tenant, cap) {
                self.page_cache.refused = true;
                let at = self.uptime();
                self.history.notice(at, format!("page cache is left where it is: {e}"));
                return;
            }
        }
    }
}

/// Demotes page cache of one tenant.
fn demote(roots: &Roots, world: &LiveWorld, tenant: TenantId, cap: Pages) -> Result<()> {
    let host = world.host();
    let held = world.usage(tenant).first().copied().unwrap_or(Pages(0));
    let mut left = held.saturating_sub(cap).in_bytes(host.page_size).min(MAX);
    let nodes = host.tiers.first().map_or(&[][..], |tier| &tier.nodes);
    for group in world.tracker().groups(tenant) {
        for &node in nodes {
            if left < host.page_size {
                return Ok(());
            }
            left = Bytes(left.0 - demotion::demote(roots, &group.path, node, left)?.0);
        }
    }
    Ok(())
}
