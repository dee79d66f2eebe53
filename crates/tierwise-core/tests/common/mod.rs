//! A machine small enough for calculations by hand. It applies plans at once and in order, and a
//! move fails when its page is locked or its target is full.

// Each test file compiles this module for itself and uses a part of it.
#![allow(dead_code)]
// What clippy allows in tests does not reach a module beside them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::learn::Null;
use tierwise_core::lru::{LruList, LruLists};
use tierwise_core::migrate::{FailReason, Move, MoveOutcome};
use tierwise_core::observe::{Allocated, Capabilities, Observation, TierReading};
use tierwise_core::page::{Attributes, Flag, PageKind, PageTable};
use tierwise_core::recipe::Recipe;
use tierwise_core::topology::{Tier, Topology, Watermarks};
use tierwise_core::units::{Bandwidth, Bytes, PageId, Pages, TenantId, TierId, Timestamp};

/// Tiers of these capacities in base pages, each with watermarks one, two, three and four
/// sixteenths.
pub fn topology(capacities: &[u64]) -> Topology {
    let tier = |(i, &capacity): (usize, &u64)| Tier {
        name: format!("tier {i}"),
        capacity: Pages(capacity),
        watermarks: Watermarks {
            min: Pages(capacity / 16),
            low: Pages(capacity * 2 / 16),
            high: Pages(capacity * 3 / 16),
            promo: Pages(capacity * 4 / 16),
        },
        load_latency: Duration::from_nanos(100 * (i as u64 + 1)),
        store_latency: Duration::from_nanos(100 * (i as u64 + 1)),
        bandwidth: Bandwidth(30_000_000_000),
    };
    let tiers = capacities.iter().enumerate().map(tier).collect();
    Topology { page_size: Bytes(4096), tiers }
}

/// A base page of the first tenant.
pub fn base_page(tier: u8, kind: PageKind) -> Attributes {
    Attributes { tenant: TenantId(0), tier: TierId(tier), kind, order: 0 }
}

/// A recipe by its name, with the text `changes` applied.
pub fn recipe(name: &str, changes: &[(&str, &str)]) -> Recipe {
    let shipped = Recipe::named(name).unwrap();
    let mut text = shipped.text().to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no \"{from}\"");
        text = text.replace(from, to);
    }
    Recipe::parse("changed.toml", &text).unwrap()
}

/// An engine, and the machine for which it decides.
pub struct EngineFixture {
    pub engine: Engine,
    pub obs: Observation,
    pub free: Vec<u64>,
    pub locked: BTreeSet<PageId>,
    /// The last plan's moves.
    pub moves: Vec<Move>,
    outcomes: Vec<MoveOutcome>,
    now: Timestamp,
}

impl EngineFixture {
    pub fn new(recipe: Recipe, capacities: &[u64]) -> Self {
        let mut config = EngineConfig::new(recipe);
        config.learning = Some(Arc::new(Null));
        let engine = Engine::new(&config, topology(capacities), &Capabilities::ALL, 1).unwrap();
        Self {
            engine,
            obs: Observation::default(),
            free: capacities.to_vec(),
            locked: BTreeSet::new(),
            moves: Vec::new(),
            outcomes: Vec::new(),
            now: Timestamp::ZERO,
        }
    }

    pub fn allocated(&mut self, first: u32, count: u32, attributes: Attributes) {
        self.free[attributes.tier.index()] -= u64::from(count) << attributes.order;
        self.obs.allocated.push(Allocated { first: PageId(first), count, attributes });
    }

    pub fn freed(&mut self, page: u32) {
        let page = PageId(page);
        let tier = self.engine.pages().tier(page).unwrap();
        self.free[tier.index()] += self.engine.pages().frames(page);
        self.obs.freed.push(page);
    }

    pub fn touch(&mut self, pages: impl IntoIterator<Item = u32>) {
        pages.into_iter().for_each(|page| self.obs.referenced.set(PageId(page)));
    }

    /// Observes, plans and applies the plan, the time `after` later than the last call.
    pub fn drive(&mut self, after: Duration) {
        self.now = self.now + after;
        self.obs.tiers.clear();
        let reading = |&free: &u64| TierReading { free: Pages(free), ..TierReading::default() };
        self.obs.tiers.extend(self.free.iter().map(reading));
        self.engine.handle_observation(self.now, &self.obs);
        self.obs.clear();
        self.moves.clear();
        if let Some(plan) = self.engine.poll_plan(self.now) {
            self.moves.extend_from_slice(&plan.moves);
        }
        self.outcomes.clear();
        for i in 0..self.moves.len() {
            let outcome = self.execute(self.moves[i]);
            self.outcomes.push(outcome);
        }
        self.engine.handle_outcomes(self.now, &self.outcomes);
    }

    fn execute(&mut self, m: Move) -> MoveOutcome {
        let pages = self.engine.pages();
        let (from, frames) = (pages.tier(m.page), pages.frames(m.page));
        let result = match from {
            None => Err(FailReason::NotPresent),
            Some(_) if self.locked.contains(&m.page) => Err(FailReason::Busy),
            Some(_) if self.free[m.to.index()] < frames => Err(FailReason::TargetFull),
            Some(from) => {
                self.free[from.index()] += frames;
                self.free[m.to.index()] -= frames;
                Ok(())
            }
        };
        MoveOutcome { page: m.page, from, to: m.to, result }
    }

    /// Runs one scan interval in which these pages are accessed through memory.
    pub fn scan(&mut self, touched: impl IntoIterator<Item = u32>) {
        self.touch(touched);
        self.drive(Duration::from_secs(1));
    }

    /// Accesses these pages through system calls. No time passes, so no page is scanned.
    pub fn call(&mut self, supervised: impl IntoIterator<Item = u32>) {
        self.obs.supervised.extend(supervised.into_iter().map(PageId));
        self.drive(Duration::ZERO);
    }

    /// Tier, list and `PG_referenced` of a page.
    pub fn state(&self, page: u32) -> Option<(u8, LruList, bool)> {
        state(PageId(page), self.engine.pages())
    }

    pub fn tier(&self, page: u32) -> u8 {
        self.engine.pages().tier(PageId(page)).unwrap().0
    }
}

fn state(page: PageId, pages: &PageTable) -> Option<(u8, LruList, bool)> {
    let tier = pages.tier(page)?;
    Some((tier.0, LruLists::which(page, pages), pages.flag(page, Flag::Referenced)))
}
