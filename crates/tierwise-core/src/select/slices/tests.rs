use super::*;
use crate::baseline::testing::PolicyFixture;
use crate::config::Document;
use crate::estimate::TenantHistogram;
use crate::observe::{Sample, TenantReading};
use crate::share::Rule;
use crate::tenant::{Limit, TenantSpec};
use crate::units::{Bytes, TenantId};

const SLICE: u64 = 100_000_000;

/// Tenants with pages of their own; tenant 0 is latency-critical.
struct Enforced {
    machine: PolicyFixture,
    estimator: TenantHistogram,
    selector: Slices,
    shares: Shares,
    slices: u64,
    unmonitored: bool,
}

impl Enforced {
    fn new(tenants: usize, parameters: &str) -> Self {
        Self::on(2, tenants, parameters)
    }

    fn on(tiers: usize, tenants: usize, parameters: &str) -> Self {
        let mut machine = PolicyFixture::new(tiers);
        machine.specs = (0..tenants).map(|i| TenantSpec::new(format!("t{i}"))).collect();
        machine.specs[0].class = Class::LatencyCritical;
        let build = BuildContext::new(&machine.topology, 0);
        let document = Document::parse("t.toml", parameters).unwrap();
        let selector = Slices::build(&document.root(), &build).unwrap();
        let estimator = TenantHistogram::build(&Section::empty()).unwrap();
        let shares = Shares::default();
        Self { machine, estimator, selector, shares, slices: 0, unmonitored: false }
    }

    fn share(&mut self, tenant: u16, share: Share) {
        let (tenant, tier) = (TenantId(tenant), TierId::FASTEST);
        self.shares.set(Timestamp(0), tenant, tier, share, Rule::Configured);
    }

    fn partition(&mut self, pages: &[u64]) {
        for (tenant, &pages) in pages.iter().enumerate() {
            self.share(tenant as u16, Share::partition(Pages(pages)));
        }
    }

    /// Samples each page `times` times.
    fn sample(&mut self, pages: std::ops::Range<u32>, times: usize) {
        for page in pages {
            let sample = Sample { page: PageId(page), tier: TierId(0), write: false };
            self.machine.obs.samples.extend(std::iter::repeat_n(sample, times));
        }
    }

    /// Unmanaged memory takes all free pages above the high watermark.
    fn nothing_is_free(&mut self) {
        self.machine.free[0] = self.machine.topology.tiers[0].watermarks.high;
    }

    fn held(&self) -> Vec<u64> {
        self.machine.tenants.iter().map(|reading| reading.usage[0].0).collect()
    }

    fn read_tenants(&mut self) {
        let machine = &mut self.machine;
        let reading = TenantReading { unmonitored: self.unmonitored, ..TenantReading::default() };
        machine.tenants = vec![reading; machine.specs.len()];
        let tiers = machine.topology.tiers.len();
        machine.tenants.iter_mut().for_each(|reading| reading.usage = vec![Pages(0); tiers]);
        for page in (0..machine.pages.len() as u32).map(PageId) {
            if let Some(tier) = machine.pages.tier(page) {
                let usage = &mut machine.tenants[machine.pages.tenant(page).index()].usage;
                usage[tier.index()] += Pages(machine.pages.frames(page));
            }
        }
    }

    /// Runs one slice. Returns the moves as page, tier and cause.
    fn slice(&mut self) -> Vec<(u32, u8, Cause)> {
        self.slices += 1;
        self.at(self.slices * SLICE)
    }

    fn at(&mut self, now: u64) -> Vec<(u32, u8, Cause)> {
        self.read_tenants();
        let (machine, now) = (&mut self.machine, Timestamp(now));
        self.estimator.on_observation(now, &machine.obs, &mut machine.pages);
        machine.obs.clear();
        let mut plan = MigrationPlan::default();
        let tick = Tick { now, updated: false, partitioned: false };
        let estimator = &mut self.estimator;
        self.selector.select(tick, &mut machine.context(), estimator, &self.shares, &mut plan);
        let outcomes = machine.execute(&plan);
        self.estimator.on_outcomes(now, &outcomes, &mut machine.pages);
        self.read_tenants();
        plan.moves.iter().map(|m| (m.page.0, m.to.0, m.cause)).collect()
    }
}

/// Tenant 0 holds 10 pages and its share is 40; tenants 1 and 2 hold 50 and 30 and their shares are
/// 30 and 20. In slices of 12 pages, tenant 0 gains 12, which the others give 2 to 1.
#[test]
fn critical_tenant_moves_first_others_give_proportionally() {
    let mut enforced = Enforced::new(3, "p_max = 12");
    enforced.machine.allocated_by(0, 0..10, 0).allocated_by(0, 10..60, 1);
    enforced.machine.allocated_by(1, 100..150, 0).allocated_by(2, 200..230, 0);
    enforced.nothing_is_free();
    enforced.partition(&[40, 30, 20]);
    enforced.sample(30..40, 2);
    enforced.sample(100..145, 1);
    let moves = enforced.slice();
    let grown: Vec<u32> = moves.iter().filter(|m| m.2 == Cause::Grow).map(|m| m.0).collect();
    assert_eq!(grown[..10].iter().filter(|p| (30..40).contains(*p)).count(), 10, "sampled first");
    assert_eq!(enforced.held(), [22, 42, 26]);
    let freed = |m: &&(u32, u8, Cause)| m.2 == Cause::Shrink && m.0 < 200;
    let freed: Vec<u32> = moves.iter().filter(freed).map(|m| m.0).collect();
    assert_eq!(freed[..5], [145, 146, 147, 148, 149], "never sampled: the lowest bin");
    enforced.slice();
    assert_eq!(enforced.held(), [34, 34, 22]);
    enforced.slice();
    assert_eq!(enforced.held(), [40, 30, 20]);
    assert_eq!(enforced.slice(), []);
}

/// Nothing is known of the accesses of tenant 1, which holds none of its share of 30.
#[test]
fn floors_are_filled_without_accesses() {
    let held = |floor: Option<u64>| {
        let mut enforced = Enforced::new(2, "fill = \"latency-critical\"");
        enforced.machine.allocated_by(0, 0..50, 0).allocated_by(1, 100..150, 1);
        enforced.machine.specs[0].class = Class::BestEffort;
        enforced.machine.specs[1].floors =
            vec![floor.map(|pages| Limit::Bytes(Bytes(pages * 4096)))];
        enforced.partition(&[20, 30]);
        enforced.slice();
        enforced.slice();
        enforced.held()[1]
    };
    assert_eq!((held(None), held(Some(20)), held(Some(40))), (0, 20, 30));
}

/// Tenant 1 lacks 30 pages of its share, of which some were accessed. Tenant 0 holds more than its
/// share.
#[test]
fn none_gives_what_stays_free() {
    let held = |accessed: u32, fill: &str| {
        let mut enforced = Enforced::new(2, fill);
        enforced.machine.allocated_by(0, 0..50, 0).allocated_by(1, 100..150, 1);
        enforced.machine.specs[0].class = Class::BestEffort;
        enforced.nothing_is_free();
        enforced.partition(&[20, 30]);
        enforced.sample(100..100 + accessed, 2);
        enforced.slice();
        enforced.slice();
        enforced.held()
    };
    let hot_only = "fill = \"latency-critical\"";
    assert_eq!(held(0, hot_only), [50, 0]);
    assert_eq!(held(5, hot_only), [45, 5]);
    assert_eq!(held(40, hot_only), [20, 30]);
    assert_eq!(held(5, ""), [20, 30], "filled with pages that were not accessed");
}

/// Tenant 0 has blocks of eight pages and a configured floor of twelve.
#[test]
fn blocks_round_floors_up() {
    let with_floor = |fast: u32| {
        let mut enforced = Enforced::new(2, "");
        let spec = &mut enforced.machine.specs[0];
        spec.class = Class::BestEffort;
        spec.floors = vec![Some(Limit::Bytes(Bytes(12 * 4096)))];
        for block in 0..4 {
            enforced.machine.allocated_huge(8 * block, 3, u8::from(block >= fast));
        }
        enforced
    };
    // One block is too little.
    let mut enforced = with_floor(1);
    enforced.partition(&[12, 0]);
    (0..3).for_each(|_| drop(enforced.slice()));
    assert_eq!(enforced.held(), [16, 0]);
    // What another tenant lacks comes from the third: four pages too many are less than a block.
    let mut enforced = with_floor(2);
    enforced.machine.specs.push(TenantSpec::new("t2"));
    enforced.machine.allocated_by(1, 100..140, 1).allocated_by(2, 200..230, 0);
    enforced.nothing_is_free();
    enforced.partition(&[12, 10, 20]);
    (0..8).for_each(|_| drop(enforced.slice()));
    assert_eq!(enforced.held()[..2], [16, 10]);
}

#[test]
fn floors_grow_before_the_rest() {
    let mut enforced = Enforced::new(3, "");
    enforced.machine.allocated_by(0, 0..50, 0).allocated_by(1, 100..150, 1);
    enforced.machine.allocated_by(2, 200..250, 1);
    enforced.machine.specs[0].class = Class::BestEffort;
    enforced.machine.specs[2].floors = vec![Some(Limit::Bytes(Bytes(10 * 4096)))];
    enforced.partition(&[10, 20, 20]);
    let moves = enforced.slice();
    let grown: Vec<u32> = moves.iter().filter(|m| m.2 == Cause::Grow).map(|m| m.0).collect();
    let of_floor = |page: &u32| *page >= 200;
    assert!(grown[..10].iter().all(of_floor) && !grown[10..30].iter().any(of_floor), "{grown:?}");
}

#[test]
fn best_effort_exchanges_when_critical_rests() {
    let mut enforced = Enforced::new(3, "p_max = 5");
    enforced.machine.allocated_by(0, 0..10, 0).allocated_by(1, 100..140, 0);
    enforced.machine.allocated_by(2, 200..210, 0).allocated_by(2, 210..240, 1);
    enforced.nothing_is_free();
    enforced.partition(&[10, 30, 20]);
    enforced.slice();
    assert_eq!(enforced.held(), [10, 35, 15]);
    enforced.slice();
    assert_eq!(enforced.held(), [10, 30, 20]);
}

#[test]
fn hotter_pages_swap_within_their_tenant() {
    let mut enforced = Enforced::new(2, "");
    enforced.machine.allocated_by(0, 0..10, 0).allocated_by(0, 10..30, 1);
    enforced.machine.allocated_by(1, 100..150, 0).allocated_by(1, 150..160, 1);
    enforced.partition(&[10, 50]);
    enforced.sample(0..5, 4);
    enforced.sample(5..10, 1);
    // Two are hotter than the coldest of their own, three are hotter than none.
    enforced.sample(10..12, 2);
    enforced.sample(12..15, 1);
    enforced.sample(100..150, 8);
    enforced.sample(150..160, 8);
    let moves = enforced.slice();
    let (down, up) = (Cause::AtShare, Cause::Hot);
    assert_eq!(moves.len(), 4);
    assert!(moves.iter().all(|m| m.0 < 100), "tenant 1's slow pages are as hot as its fast ones");
    assert_eq!(
        moves.iter().filter(|m| m.1 == 0 && m.2 == up && (10..12).contains(&m.0)).count(),
        2
    );
    assert_eq!(
        moves.iter().filter(|m| m.1 == 1 && m.2 == down && (5..10).contains(&m.0)).count(),
        2
    );
    assert_eq!(enforced.held(), [10, 50]);
    assert_eq!(enforced.slice(), [], "no page is left to exchange");
}

/// Ten new pages are hot in every slice, and those of the slice before are cold again.
#[test]
fn slowed_promotion_slows_exchange_equally() {
    let mut enforced = Enforced::new(1, "");
    enforced.machine.allocated_by(0, 0..20, 0).allocated_by(0, 20..100, 1);
    enforced.partition(&[20]);
    let exchanged = |enforced: &mut Enforced, from: u32| {
        enforced.sample(from..from + 10, 1 << (from / 10));
        enforced.slice().iter().filter(|m| m.1 == 0).count()
    };
    assert_eq!(exchanged(&mut enforced, 20), 10);
    enforced.share(0, Share { promotion: 0.5, ..Share::partition(Pages(20)) });
    assert_eq!(exchanged(&mut enforced, 30), 5);
    enforced.share(0, Share { promotion: 0.01, ..Share::partition(Pages(20)) });
    assert_eq!(exchanged(&mut enforced, 40), 1, "slowed down, never stopped");
    enforced.share(0, Share::partition(Pages(20)));
    assert_eq!(exchanged(&mut enforced, 50), 19, "the twenty hottest, of which one is fast");
}

#[test]
fn slower_tiers_exchange_pages_too() {
    let mut enforced = Enforced::on(3, 1, "");
    enforced.machine.allocated_by(0, 0..10, 0).allocated_by(0, 10..20, 1).allocated_by(
        0,
        20..30,
        2,
    );
    enforced.partition(&[10]);
    enforced.sample(0..10, 8);
    enforced.sample(20..25, 2);
    enforced.slice();
    let tier = |page: u32| enforced.machine.pages.tier(PageId(page)).unwrap().0;
    assert!((0..10).all(|page| tier(page) == 0));
    assert!((20..25).all(|page| tier(page) == 1), "hotter than the pages that were there");
    assert_eq!((10..20).filter(|&page| tier(page) == 2).count(), 5);
    assert!((25..30).all(|page| tier(page) == 2));
}

/// Tenants 1 and 2 compete for the memory beside tenant 0's partition, and keep 6 pages (the high
/// watermark) free.
#[test]
fn unpartitioned_tenants_compete_by_hotness() {
    let mut enforced = Enforced::new(3, "");
    enforced.machine.allocated_by(0, 0..20, 0).allocated_by(0, 20..40, 1);
    enforced.machine.allocated_by(1, 100..160, 0).allocated_by(2, 200..280, 1);
    enforced.share(0, Share::partition(Pages(30)));
    enforced.share(1, Share::FREE);
    enforced.share(2, Share::FREE);
    enforced.sample(100..110, 1);
    enforced.sample(200..260, 2);
    (0..20).for_each(|_| drop(enforced.slice()));
    // 94 pages are used: 30 by tenant 0, 60 by the hottest pages, and 4 by others with a sample.
    assert_eq!(enforced.held(), [30, 4, 60]);
    assert_eq!(enforced.machine.free[0], Pages(6));
}

#[test]
fn without_shares_hottest_pages_are_fast() {
    let mut enforced = Enforced::new(1, "");
    enforced.machine.allocated_by(0, 0..94, 0).allocated_by(0, 100..180, 1);
    enforced.sample(150..170, 3);
    (0..5).for_each(|_| drop(enforced.slice()));
    let fast = |page: u32| enforced.machine.pages.tier(PageId(page)) == Some(TierId(0));
    assert!((150..170).all(fast));
    assert_eq!(enforced.machine.free[0], Pages(6));
}

#[test]
fn short_tier_is_relieved_between_slices() {
    let mut enforced = Enforced::new(2, "");
    enforced.machine.allocated_by(0, 0..40, 0).allocated_by(1, 100..157, 0);
    enforced.partition(&[40, 50]);
    // Three are free, the low watermark is four and the high one six.
    let moves = enforced.at(1);
    assert_eq!(moves.len(), 3);
    assert!(moves.iter().all(|m| m.0 >= 100 && m.2 == Cause::Pressure));
}

/// A live machine's shares may exceed the memory that another program left. 100 pages, of which
/// four stay free.
#[test]
fn overcommitted_shares_stay_stable() {
    let mut enforced = Enforced::new(2, "");
    enforced.machine.allocated_by(1, 0..90, 0).allocated_by(1, 90..120, 1);
    enforced.partition(&[0, 99]);
    enforced.sample(0..120, 1);
    let moved: usize = (0..100).map(|_| enforced.slice().len()).sum();
    // Some eight up and some four down, four times in ten seconds and not a hundred times.
    assert!((8..80).contains(&moved), "{moved} moves");
}

#[test]
fn slice_is_half_the_slower_tiers_bandwidth() {
    let enforced = Enforced::new(1, "slice_ms = 10");
    // 30 GB/s, 10 ms, half of it: 150 MB.
    assert_eq!(enforced.selector.limit, Pages(150_000_000 / 4096));
    assert_eq!(enforced.selector.next_wake(), Some(Timestamp(10_000_000)));
}

/// A workload grew from 30 pages to 60 since its partition was computed, and the other one has all
/// its pages in the fast tier.
#[test]
fn free_memory_is_not_taken_from_holders() {
    let mut enforced = Enforced::new(2, "");
    enforced.machine.allocated_by(0, 0..20, 0).allocated_by(1, 100..160, 0);
    enforced.partition(&[40, 30]);
    (0..5).for_each(|_| assert_eq!(enforced.slice(), []));
    assert_eq!(enforced.held(), [20, 60]);
}

/// 15 pages are free above the high watermark of six and 40 are lacking, so 25 are demoted, in
/// proportion to the excess.
#[test]
fn lacking_tenants_take_surplus_in_proportion() {
    let mut enforced = Enforced::new(3, "");
    enforced.machine.allocated_by(0, 0..60, 1);
    enforced.machine.allocated_by(1, 100..149, 0).allocated_by(2, 200..230, 0);
    enforced.partition(&[40, 9, 20]);
    enforced.slice();
    assert_eq!(enforced.held(), [40, 29, 25]);
    assert_eq!(enforced.slice(), []);
}

#[test]
fn configured_cap_holds_with_free_memory() {
    let mut enforced = Enforced::new(1, "");
    enforced.machine.allocated_by(0, 0..60, 0);
    enforced.share(0, Share { cap: Pages(50), ..Share::partition(Pages(30)) });
    enforced.slice();
    assert_eq!(enforced.held(), [50]);
    assert_eq!(enforced.slice(), []);
}

/// All of its pages would seem cold.
#[test]
fn unmonitored_tenant_relieves_no_pressure() {
    let mut enforced = Enforced::new(2, "");
    enforced.machine.allocated_by(1, 100..140, 0);
    enforced.partition(&[0, 20]);
    enforced.machine.free[0] = enforced.machine.topology.tiers[0].watermarks.min;
    enforced.unmonitored = true;
    assert_eq!(enforced.slice(), []);
    enforced.unmonitored = false;
    let moves = enforced.slice();
    assert!(!moves.is_empty() && moves.iter().all(|m| m.2 == Cause::Pressure), "{moves:?}");
    // What another tenant is entitled to is taken from it all the same.
    let mut enforced = Enforced::new(2, "p_max = 5");
    enforced.machine.allocated_by(0, 0..30, 1).allocated_by(1, 100..140, 0);
    enforced.nothing_is_free();
    enforced.partition(&[20, 20]);
    enforced.unmonitored = true;
    enforced.slice();
    assert_eq!(enforced.held(), [5, 35]);
}

/// So many fast pages and slow ones that are hotter, aged once after each second's samples.
fn learned(half: u32, parameters: &str, move_cost: Option<Duration>) -> Enforced {
    let mut enforced = Enforced::new(2, parameters);
    let recipe = "outlook = true\nageing_interval_ms = 1000\nsampler_cpu_percent = 0";
    let document = Document::parse("t.toml", recipe).unwrap();
    enforced.estimator = TenantHistogram::build(&document.root()).unwrap();
    enforced.machine.allocated_by(1, 0..half, 0).allocated_by(1, half..2 * half, 1);
    enforced.nothing_is_free();
    for second in 1..=20 {
        enforced.sample(0..half, 1);
        enforced.sample(half..2 * half, 4);
        let (machine, now) = (&mut enforced.machine, Timestamp(second * 1_000_000_000));
        enforced.estimator.on_observation(now, &machine.obs, &mut machine.pages);
        machine.obs.clear();
        enforced.estimator.update(now, &mut machine.context());
    }
    enforced.machine.move_cost = move_cost;
    enforced.partition(&[0, u64::from(half)]);
    // The end of the next second.
    enforced.sample(0..half, 1);
    enforced.sample(half..2 * half, 4);
    enforced.slices = 209;
    enforced
}

/// Three samples of 200 misses more per second for eight seconds, each miss a tenth of a
/// microsecond longer: an exchange saves 0.48 ms, and has to save four times the two copies.
#[test]
fn exchange_has_to_pay_its_copies() {
    let exchanged = |micros: u64| {
        let mut enforced = learned(10, "", Some(Duration::from_micros(micros)));
        enforced.slice().len()
    };
    assert_eq!(exchanged(55), 20);
    assert_eq!(exchanged(65), 0);
}

#[test]
fn hotness_alone_decides_without_a_cost() {
    assert_eq!(learned(10, "", None).slice().len(), 20);
}

/// Each search asks for one page, eighty times.
#[test]
fn many_refused_exchanges_end_a_search() {
    let mut enforced = learned(80, "p_max = 1", Some(Duration::from_micros(600)));
    assert_eq!(enforced.slice().len(), 0);
}
