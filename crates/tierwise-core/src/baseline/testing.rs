//! A test machine of a hundred pages per tier, on which every move succeeds.

use crate::bits::PageBits;
use crate::config::Document;
use crate::migrate::{MigrationPlan, MoveOutcome};
use crate::observe::{Allocated, HintFault, Observation, TenantReading};
use crate::page::{Attributes, PageKind, PageTable};
use crate::policy::{PlanContext, Policy};
use crate::registry::BuildContext;
use crate::tenant::TenantSpec;
use crate::topology::{Tier, Topology, Watermarks};
use crate::units::{Bandwidth, Bytes, PageId, Pages, TenantId, TierId, Timestamp};
use std::ops::Range;
use std::time::Duration;

pub(super) const SECOND: u64 = 1_000_000_000;

/// Tiers of 100 pages with watermarks 2, 4, 6 and 8.
pub(crate) fn topology(tiers: usize) -> Topology {
    let watermarks = Watermarks { min: Pages(2), low: Pages(4), high: Pages(6), promo: Pages(8) };
    let tier = |i: usize| Tier {
        name: format!("tier {i}"),
        capacity: Pages(100),
        watermarks,
        load_latency: Duration::from_nanos(100 + 100 * i as u64),
        store_latency: Duration::from_nanos(100 + 100 * i as u64),
        bandwidth: Bandwidth(30_000_000_000),
    };
    Topology { page_size: Bytes(4096), tiers: (0..tiers).map(tier).collect() }
}

pub(crate) struct PolicyFixture {
    pub(crate) topology: Topology,
    pub(crate) pages: PageTable,
    pub(crate) free: Vec<Pages>,
    pub(crate) tenants: Vec<TenantReading>,
    pub(crate) specs: Vec<TenantSpec>,
    pub(crate) move_cost: Option<Duration>,
    pub(crate) obs: Observation,
}

impl PolicyFixture {
    pub(crate) fn new(tiers: usize) -> Self {
        Self {
            topology: topology(tiers),
            pages: PageTable::default(),
            free: vec![Pages(100); tiers],
            tenants: Vec::new(),
            specs: Vec::new(),
            move_cost: None,
            obs: Observation::default(),
        }
    }

    pub(super) fn two_tiers() -> Self {
        Self::new(2)
    }

    pub(crate) fn allocated(&mut self, pages: Range<u32>, tier: u8) -> &mut Self {
        let attributes =
            Attributes { tenant: TenantId(0), tier: TierId(tier), kind: PageKind::Anon, order: 0 };
        self.allocate(pages, attributes)
    }

    pub(crate) fn allocated_huge(&mut self, page: u32, order: u8, tier: u8) -> &mut Self {
        let attributes =
            Attributes { tenant: TenantId(0), tier: TierId(tier), kind: PageKind::Anon, order };
        self.allocate(page..page + 1, attributes)
    }

    /// Allocates pages of the tenant `tenant`.
    pub(crate) fn allocated_by(&mut self, tenant: u16, pages: Range<u32>, tier: u8) -> &mut Self {
        let (tenant, tier) = (TenantId(tenant), TierId(tier));
        self.allocate(pages, Attributes { tenant, tier, kind: PageKind::Anon, order: 0 })
    }

    fn allocate(&mut self, pages: Range<u32>, attributes: Attributes) -> &mut Self {
        let tier = attributes.tier.index();
        let count = pages.len() as u32;
        self.obs.allocated.push(Allocated { first: PageId(pages.start), count, attributes });
        for page in pages {
            self.pages.insert(PageId(page), attributes);
            self.free[tier] = self.free[tier] - Pages(self.pages.frames(PageId(page)));
        }
        self
    }

    pub(crate) fn context(&mut self) -> PlanContext<'_> {
        PlanContext {
            topology: &self.topology,
            pages: &mut self.pages,
            free: &self.free,
            tenants: &self.tenants,
            specs: &self.specs,
            move_cost: self.move_cost,
        }
    }

    /// Applies a plan and returns its outcomes.
    pub(crate) fn execute(&mut self, plan: &MigrationPlan) -> Vec<MoveOutcome> {
        let mut outcomes = Vec::new();
        for m in &plan.moves {
            let from = self.pages.tier(m.page).unwrap();
            let frames = Pages(self.pages.frames(m.page));
            self.free[m.to.index()] = self.free[m.to.index()] - frames;
            self.free[from.index()] += frames;
            self.pages.set_tier(m.page, m.to);
            outcomes.push(MoveOutcome { page: m.page, from: Some(from), to: m.to, result: Ok(()) });
        }
        outcomes
    }
}

/// A machine and a policy on it.
pub(super) struct Driven {
    pub(super) machine: PolicyFixture,
    pub(super) poisoned: Vec<(u32, u32)>,
    pub(super) policy: Box<dyn Policy>,
}

impl Driven {
    pub(super) fn new(section: &str) -> Self {
        Self::on(section, 2)
    }

    pub(super) fn three_tiers(section: &str) -> Self {
        Self::on(section, 3)
    }

    fn on(section: &str, tiers: usize) -> Self {
        let machine = PolicyFixture::new(tiers);
        let document = Document::parse("t.toml", section).unwrap();
        let root = document.root();
        let name = root.text("algorithm").unwrap().unwrap();
        let row = super::TABLE.iter().find(|row| row.name == name).unwrap();
        let build = BuildContext::new(&machine.topology, 0);
        let policy = (row.build)(&root, &build).unwrap();
        root.finish().unwrap();
        Self { machine, poisoned: Vec::new(), policy }
    }

    pub(super) fn fault(&mut self, page: u32, poisoned_at: u64, at: u64) {
        self.machine.obs.hint_faults.push(HintFault {
            page: PageId(page),
            poisoned_at: Timestamp(poisoned_at),
            at: Timestamp(at),
            write: false,
        });
    }

    /// Another program moves a page.
    pub(super) fn external_move(&mut self, page: u32, to: u8) {
        let (page, to) = (PageId(page), TierId(to));
        let mut plan = MigrationPlan::default();
        plan.background(page, to);
        let outcomes = self.machine.execute(&plan);
        self.policy.on_outcomes(Timestamp::ZERO, &outcomes, &mut self.machine.pages);
    }

    pub(super) fn reference(&mut self, page: u32) {
        self.machine.obs.referenced.set(PageId(page));
    }

    /// Runs one round of the loop and returns its moves, which all succeed.
    pub(super) fn plan(&mut self, at: u64) -> Vec<(u32, u8)> {
        let machine = &mut self.machine;
        let mut referenced: PageBits = std::mem::take(&mut machine.obs.referenced);
        referenced.drain(|page| machine.pages.mark_referenced(page));
        self.policy.on_observation(Timestamp(at), &machine.obs, &mut machine.pages);
        machine.obs.clear();
        let mut plan = MigrationPlan::default();
        self.policy.plan(Timestamp(at), &mut machine.context(), &mut plan);
        self.poisoned = plan.poison.iter().map(|r| (r.first.0, r.count)).collect();
        let outcomes = machine.execute(&plan);
        self.policy.on_outcomes(Timestamp(at), &outcomes, &mut machine.pages);
        plan.moves.iter().map(|m| (m.page.0, m.to.0)).collect()
    }
}
