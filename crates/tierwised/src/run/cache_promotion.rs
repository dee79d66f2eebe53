//! Promotion of page cache in slow memory that is read repeatedly. The kernel promotes it, within
//! its tenant's share and the free memory of the fastest tier.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tierwise_core::units::{Bytes, Pages, TenantId, TierId};
use tierwise_linux::bytes::shown_path;
use tierwise_linux::cgroup::{Buffers, Cgroup, MAX_BELOW};
use tierwise_linux::directories::Visit;
use tierwise_linux::error::Result;
use tierwise_linux::migrate::page_cache::promotion::{
    CachePromoter, MAX_GROUPS, PromotionRequest, cache_record,
};
use tierwise_linux::topology::nodes;
use tierwise_linux::world::LiveWorld;

use super::Daemon;
use crate::config::LimitText;

/// Interval between two settings of the rates: several of DAMON's aggregation intervals, so that
/// the effect of the last rates shows in the groups' usage.
const INTERVAL: Duration = Duration::from_secs(5);

/// Time until the first request. Access monitoring by DAMON takes its kdamonds first, and has
/// started by then.
const FIRST: Duration = Duration::from_secs(10);

/// Page cache or headroom below this is not worth a DAMON scheme.
const MIN: Bytes = Bytes(1 << 20);

/// The promoter and the state between two requests.
#[derive(Debug)]
pub(super) struct CachePromotion {
    promoter: Option<CachePromoter>,
    due: Instant,
    buffers: Buffers,
    /// Each group's page cache in slow memory, including the groups below it.
    held: Vec<(PathBuf, u64)>,
    /// The target of promotion.
    node: Option<u32>,
    /// The last reported problem.
    problem: String,
}

impl CachePromotion {
    pub(super) fn new() -> Self {
        Self {
            promoter: None,
            due: Instant::now() + FIRST,
            buffers: Buffers::default(),
            held: Vec::new(),
            node: None,
            problem: String::new(),
        }
    }

    /// Bytes promoted, by the last count.
    pub(super) fn moved(&self) -> Bytes {
        self.promoter.as_ref().map_or(Bytes(0), CachePromoter::moved)
    }

    /// Stops the promoter's kdamond.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.promoter.take().map_or(Ok(()), CachePromoter::stop)
    }

    /// Page cache of a tenant's groups in slow memory, each group's own.
    fn find(&mut self, world: &LiveWorld, tenant: TenantId, out: &mut Vec<(PathBuf, u64)>) {
        let slow =
            |node: u32| world.host().tiers[1..].iter().any(|tier| tier.nodes.contains(&node));
        self.held.clear();
        for group in world.tracker().groups(tenant) {
            let Buffers { reader, directories, .. } = &mut self.buffers;
            let mut usage = Vec::new();
            let held = &mut self.held;
            let mut left = MAX_BELOW;
            let walked = directories.walk(&group.path, |path| {
                // The rest is not promoted, as its processes are not managed.
                left = match left.checked_sub(1) {
                    Some(left) => left,
                    None => return Ok(Visit::Pass),
                };
                usage.clear();
                // A group that was removed, or is without the controller, holds none of its own.
                if Cgroup::new(path).page_cache(reader, &mut usage).is_ok() {
                    let bytes =
                        usage.iter().filter(|(node, _)| slow(*node)).map(|(_, b)| b.0).sum();
                    held.push((path.to_owned(), bytes));
                }
                Ok(Visit::Enter)
            });
            // The survey of processes walks the same directories and reports those that it cannot
            // list.
            directories.faults().clear();
            if let Err(e) = walked {
                tracing::debug!("page cache of {}: {e}", shown_path(&group.path));
            }
        }
        out.extend(own(&self.held).filter(|(_, bytes)| *bytes >= MIN.0));
    }
}

/// Each group's page cache without that of its direct children.
fn own(held: &[(PathBuf, u64)]) -> impl Iterator<Item = (PathBuf, u64)> + '_ {
    let mut below: BTreeMap<&Path, u64> = BTreeMap::new();
    for (path, bytes) in held {
        if let Some(above) = path.parent() {
            *below.entry(above).or_default() += bytes;
        }
    }
    held.iter().map(move |(path, bytes)| {
        let below = below.get(path.as_path()).copied().unwrap_or(0);
        (path.clone(), bytes.saturating_sub(below))
    })
}

impl Daemon {
    /// Makes the kernel promote page cache, every few seconds. Reports a problem once.
    pub(super) fn promote_page_cache(&mut self) {
        if Instant::now() < self.page_cache.promotion.due {
            return;
        }
        self.page_cache.promotion.due = Instant::now() + INTERVAL;
        let wanted = self.options.config.moving.promote_page_cache
            && self.activity.manages()
            && !self.world.cpu_budget().suspended();
        let order = if wanted { self.cache_order() } else { PromotionRequest::default() };
        if let Err(e) = self.send_order(order) {
            let problem = e.to_string();
            if problem != self.page_cache.promotion.problem {
                let at = self.uptime();
                self.history.notice(at, format!("page cache is not promoted: {problem}"));
                self.page_cache.promotion.problem = problem;
            }
        }
    }

    fn send_order(&mut self, order: PromotionRequest) -> Result<()> {
        let (promotion, config) = (&mut self.page_cache.promotion, &self.options.config);
        if promotion.promoter.is_none() {
            if order.groups.is_empty() {
                return Ok(());
            }
            let record = cache_record(&config.state);
            let regions = config.monitor.regions as u32;
            promotion.promoter = Some(CachePromoter::start(&self.options.roots, record, regions)?);
        }
        let Some(promoter) = &mut promotion.promoter else { return Ok(()) };
        let answer = promoter.order(order);
        self.world.promoting(promoter.cpu());
        answer
    }

    /// Returns the groups to promote, with bytes per second for each.
    fn cache_order(&mut self) -> PromotionRequest {
        let host = self.world.host();
        let (Some(fastest), Some(_)) = (host.tiers.first(), host.tiers.get(1)) else {
            return PromotionRequest::default();
        };
        let page = host.page_size;
        let mut from: Vec<u32> = host.tiers[1..].iter().flat_map(|t| &t.nodes).copied().collect();
        from.sort_unstable();
        let free = self.world.free().first().copied().unwrap_or(Pages(0));
        let mut left = free.saturating_sub(fastest.watermarks.high).in_bytes(page).0;
        let (mut groups, mut found) = (Vec::new(), Vec::new());
        for index in 0..self.options.config.tenants.len() {
            let tenant = TenantId(index as u16);
            let headroom = self.cache_headroom(tenant, index).min(left);
            if headroom < MIN.0 {
                continue;
            }
            found.clear();
            self.page_cache.promotion.find(&self.world, tenant, &mut found);
            let rate = headroom / INTERVAL.as_secs().max(1);
            let rate = rate.min(self.options.config.moving.rate.bytes().0);
            if !found.is_empty() {
                left -= headroom;
            }
            shares(&self.options.roots.cgroup, &found, rate, &mut groups);
        }
        groups.sort_unstable_by_key(|(_, bytes): &(String, u64)| std::cmp::Reverse(*bytes));
        groups.truncate(MAX_GROUPS);
        PromotionRequest { from, to: self.roomiest_fast_node(), groups }
    }

    /// Returns the bytes of the fastest tier that a tenant may still take, up to its cap and its
    /// share.
    fn cache_headroom(&self, tenant: TenantId, index: usize) -> u64 {
        let page = self.world.host().page_size;
        let usage = self.world.usage(tenant);
        let resident = usage.iter().copied().sum();
        let limit = self.options.config.tenants[index].cap.as_ref().map(LimitText::limit);
        let cap = limit.and_then(|limit| limit.pages(resident, page)).unwrap_or(Pages(u64::MAX));
        let share =
            self.history.share(tenant, TierId(0)).map_or(Pages(u64::MAX), |s| s.0.entitled());
        let limit = cap.min(share);
        let held = usage.first().copied().unwrap_or(Pages(0));
        Pages(limit.saturating_sub(held).0.min(u64::MAX / page.0)).in_bytes(page).0
    }

    /// Returns the target of promotion. It stays the same as long as it is in the tier, because
    /// with another target the kernel starts again.
    fn roomiest_fast_node(&mut self) -> u32 {
        let nodes = &self.world.host().tiers[0].nodes;
        if let Some(node) = self.page_cache.promotion.node.filter(|node| nodes.contains(node)) {
            return node;
        }
        let reader = &mut self.page_cache.promotion.buffers.reader;
        let free = |node: &u32| nodes::free(&self.options.roots, reader, *node).map_or(0, |f| f.0);
        let node = nodes.iter().copied().max_by_key(free).unwrap_or(0);
        self.page_cache.promotion.node = Some(node);
        node
    }
}

/// Divides a rate among groups by their page cache. Groups whose paths are not text get none,
/// because DAMON takes paths as text. Rates are powers of two, so that they change rarely: other
/// users of DAMON wait for each change.
fn shares(root: &Path, found: &[(PathBuf, u64)], rate: u64, out: &mut Vec<(String, u64)>) {
    let all: u64 = found.iter().map(|(_, bytes)| bytes).sum();
    for (path, bytes) in found {
        let Some(below) = path.strip_prefix(root).ok().and_then(Path::to_str) else { continue };
        let part = (u128::from(rate) * u128::from(*bytes) / u128::from(all.max(1))) as u64;
        let rate = part.checked_ilog2().map_or(0, |power| 1 << power);
        out.push((format!("/{below}"), rate));
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn own_cache_excludes_children() {
        let held = [("/c/a", 100), ("/c/a/b", 30), ("/c/a/b/d", 30), ("/c/a/e", 20)];
        let held = held.map(|(path, bytes)| (PathBuf::from(path), bytes));
        let own: Vec<u64> = own(&held).map(|(_, bytes)| bytes).collect();
        assert_eq!(own, [50, 0, 30, 20]);
    }

    #[test]
    fn rates_are_proportional_powers_of_two() {
        let found = [(&b"/c/a"[..], 3 << 20), (b"/c/b", 1 << 20), (b"/c/\xff", 1)];
        let found = found.map(|(path, bytes)| (PathBuf::from(OsStr::from_bytes(path)), bytes));
        let mut out = Vec::new();
        shares(Path::new("/c"), &found, 1000, &mut out);
        assert_eq!(out, [("/a".to_owned(), 512), ("/b".to_owned(), 128)]);
    }
}
