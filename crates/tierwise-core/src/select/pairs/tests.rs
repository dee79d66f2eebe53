use std::time::Duration;

use super::*;
use crate::config::Document;
use crate::estimate::NoEstimator;
use crate::observe::TenantReading;
use crate::page::{Attributes, PageKind};
use crate::share::{Rule, Share};
use crate::topology::{Tier, Topology, Watermarks};
use crate::units::{Bandwidth, Bytes, Pages, Timestamp};

const TICK: Tick = Tick { now: Timestamp(0), updated: false, partitioned: true };

/// Two tenants of eight pages each. Of the first, pages 0 and 1 are dedicated and the others are in
/// colours 0, 1 and 2, two in each. Of the second, pages 8 to 13 are dedicated and the others share
/// colour 3.
struct Machine {
    topology: Topology,
    pages: PageTable,
    tenants: Vec<TenantReading>,
    shares: Shares,
}

fn machine() -> Machine {
    let tier = |name: &str| Tier {
        name: name.to_owned(),
        capacity: Pages(100),
        watermarks: Watermarks::NONE,
        load_latency: Duration::from_nanos(100),
        store_latency: Duration::from_nanos(100),
        bandwidth: Bandwidth(1),
    };
    let topology = Topology { page_size: Bytes(4096), tiers: vec![tier("DRAM"), tier("both")] };
    let mut pages = PageTable::default();
    for page in 0..16 {
        let tenant = TenantId(page / 8);
        let dedicated = page < 2 || (8..14).contains(&page);
        let tier = TierId(u8::from(!dedicated));
        let attributes = Attributes { tenant, tier, kind: PageKind::Anon, order: 0 };
        pages.insert(PageId(page.into()), attributes);
        if !dedicated {
            pages.set_colour(
                PageId(page.into()),
                u32::from(if page < 8 { page / 2 - 1 } else { 3 }),
            );
        }
    }
    let reading = |usage: [u64; 2]| TenantReading {
        usage: usage.map(Pages).to_vec(),
        running: true,
        ..TenantReading::default()
    };
    let tenants = vec![reading([2, 6]), reading([6, 2])];
    Machine { topology, pages, tenants, shares: Shares::default() }
}

impl Machine {
    fn should_hold(&mut self, tenant: u16, dedicated: u64) {
        let share = Share { floor: Pages(dedicated), ..Share::FREE };
        self.shares.set(Timestamp(0), TenantId(tenant), TierId(0), share, Rule::Configured);
    }

    fn select(&mut self, recipe: &str, estimator: &mut dyn Estimator) -> Vec<Move> {
        let document = Document::parse("pairs.toml", recipe).unwrap();
        let ctx = BuildContext::new(&self.topology, 1);
        let mut pairs = Pairs::build(&document.root(), &ctx).unwrap();
        let mut ctx = PlanContext {
            topology: &self.topology,
            pages: &mut self.pages,
            free: &[Pages(4), Pages(4)],
            tenants: &self.tenants,
            specs: &[],
            move_cost: None,
        };
        let mut plan = MigrationPlan::default();
        pairs.select(TICK, &mut ctx, estimator, &self.shares, &mut plan);
        plan.moves
    }
}

fn promoted(moves: &[Move]) -> Vec<u32> {
    let mut pages: Vec<u32> =
        moves.iter().filter(|m| m.to == TierId(0)).map(|m| m.page.0).collect();
    pages.sort_unstable();
    pages
}

#[test]
fn pages_of_a_colour_move_together() {
    let mut machine = machine();
    machine.should_hold(0, 5);
    machine.should_hold(1, 3);
    let moves = machine.select("", &mut NoEstimator);
    let up = promoted(&moves);
    // One group of two, and no second: three pages are lent, and a group is not split.
    assert_eq!((up.len(), up[0] % 2, up[1]), (2, 0, up[0] + 1));
    let down: Vec<u32> = moves.iter().filter(|m| m.to == TierId(1)).map(|m| m.page.0).collect();
    assert!(down.len() == 2 && down.iter().all(|page| (8..14).contains(page)), "{down:?}");
    // The promotions precede the demotions into their frames.
    let order: Vec<u8> = moves.iter().map(|m| m.to.0).collect();
    assert_eq!(order, [0, 0, 1, 1]);
}

#[test]
fn vanished_lender_leaves_no_half_move() {
    let mut machine = machine();
    machine.should_hold(0, 6);
    machine.should_hold(1, 2);
    (8..16).for_each(|page| machine.pages.remove(PageId(page)));
    assert!(machine.select("", &mut NoEstimator).is_empty());
    // The lender ended, and its pages are still being freed.
    let mut machine = self::machine();
    machine.should_hold(0, 6);
    machine.should_hold(1, 2);
    machine.tenants[1].running = false;
    assert!(machine.select("", &mut NoEstimator).is_empty());
}

#[test]
fn a_borrower_that_vanished_takes_nothing() {
    let mut machine = machine();
    machine.should_hold(0, 6);
    machine.should_hold(1, 2);
    (0..8).for_each(|page| machine.pages.remove(PageId(page)));
    assert!(machine.select("", &mut NoEstimator).is_empty());
}

/// Pages 2 and 3 are hot, the dedicated page 0 is cold and 1 is not.
#[test]
fn hot_managed_pages_replace_cold_dedicated_ones() {
    use crate::observe::{Observation, Region};
    let document = Document::parse("region.toml", "").unwrap();
    let mut regions = crate::estimate::RegionCounts::build(&document.root()).unwrap();
    let region =
        |first, pages, nr_accesses| Region { first: PageId(first), pages, nr_accesses, age: 0 };
    let obs = Observation {
        regions: vec![region(0, 1, 0), region(1, 1, 5), region(2, 2, 21), region(4, 12, 20)],
        ..Observation::default()
    };
    let mut machine = machine();
    regions.on_observation(Timestamp(0), &obs, &mut machine.pages);
    let text = "placement = \"hotness\"\nstep_ratio = 0.5\n";
    let moves: Vec<(u32, u8)> =
        machine.select(text, &mut regions).iter().map(|m| (m.page.0, m.to.0)).collect();
    assert_eq!(moves, [(2, 0), (0, 1)]);
}

#[test]
fn pages_move_only_after_a_partition() {
    let mut machine = machine();
    machine.should_hold(0, 6);
    machine.should_hold(1, 2);
    let ctx = BuildContext::new(&machine.topology, 1);
    let document = Document::parse("pairs.toml", "").unwrap();
    let mut pairs = Pairs::build(&document.root(), &ctx).unwrap();
    let mut ctx = PlanContext {
        topology: &machine.topology,
        pages: &mut machine.pages,
        free: &[Pages(4), Pages(4)],
        tenants: &machine.tenants,
        specs: &[],
        move_cost: None,
    };
    let mut plan = MigrationPlan::default();
    let tick = Tick { partitioned: false, ..TICK };
    pairs.select(tick, &mut ctx, &mut NoEstimator, &machine.shares, &mut plan);
    assert!(plan.moves.is_empty());
}
