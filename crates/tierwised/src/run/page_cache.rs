//! Page cache above a cap. The engine moves the pages that processes map. Only the kernel can
//! demote the rest of a control group's memory in the fastest tier: the daemon makes it do so while
//! the group exceeds its cap there. [`super::cache_promotion`] is the other direction.

use tierwise_core::units::{Bytes, Pages, TenantId};
use tierwise_linux::error::Result;
use tierwise_linux::migrate::page_cache::demotion;
use tierwise_linux::migrate::page_cache::groups::Groups;
use tierwise_linux::monitor::thread_cpu;
use tierwise_linux::roots::Roots;
use tierwise_linux::world::LiveWorld;

use super::Daemon;
use super::cache_promotion::CachePromotion;
use super::pace::{ORDERS, RestPace};
use super::refusal::Refusal;
use crate::config::LimitText;

/// Maximum demoted of a tenant per round: the call returns when it is done, and a round must be
/// short.
const MAX: Bytes = Bytes(32 << 20);

/// The state of both directions.
#[derive(Debug)]
pub(super) struct PageCache {
    pace: RestPace,
    pub(super) refusal: Refusal,
    pub(super) promotion: CachePromotion,
}

impl PageCache {
    pub(super) fn new() -> Self {
        Self {
            pace: RestPace::new(),
            refusal: Refusal::default(),
            promotion: CachePromotion::new(),
        }
    }
}

impl Daemon {
    /// Makes the kernel demote the page cache above caps, once per second. Reports a refusal once,
    /// and tries again later.
    pub(super) fn demote_page_cache(&mut self) {
        if !self.page_cache.pace.is_due() {
            return;
        }
        let before = thread_cpu();
        self.demote_above_caps();
        let cost = thread_cpu().saturating_sub(before);
        // The orders of each tenant have a limit of their own, and are the purpose.
        let orders = ORDERS * self.options.config.tenants.len() as u32;
        self.world.moving(cost.min(orders));
        let part = self.cpu_part();
        self.page_cache.pace.rest(cost.saturating_sub(orders), part);
    }

    pub(super) fn demote_above_caps(&mut self) {
        let wanted = self.options.config.moving.page_cache && !self.page_cache.refusal.holds();
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
                if self.page_cache.refusal.is_news() {
                    let at = self.uptime();
                    self.history.notice(at, format!("page cache is left where it is: {e}"));
                }
                return;
            }
        }
        self.page_cache.refusal.end();
    }
}

/// Demotes page cache of one tenant.
fn demote(roots: &Roots, world: &LiveWorld, tenant: TenantId, cap: Pages) -> Result<()> {
    let host = world.host();
    let held = world.usage(tenant).first().copied().unwrap_or(Pages(0));
    let most = held.saturating_sub(cap).in_bytes(host.page_size).min(MAX);
    let (nodes, groups) = (host.tiers.first(), world.tracker().groups(tenant));
    let Some(nodes) = nodes.map(|tier| &tier.nodes[..]) else { return Ok(()) };
    if most < host.page_size || groups.is_empty() {
        return Ok(());
    }
    let mut trees = Groups::default();
    groups.iter().for_each(|group| trees.add_tree(roots, &group.path));
    demotion::demote(roots, &trees, nodes, most, ORDERS).map(drop)
}
