use super::super::super::testing::PolicyFixture;
use super::*;
use crate::config::Document;
use crate::units::{Bytes, TenantId};

/// A node of a hundred pages with watermarks 2, 4, 6 and 8, of which some are in use.
struct Machine {
    node: Node,
    folios: Folios,
    fixture: PolicyFixture,
    zones: Zones,
    costs: KernelCosts,
}

impl Machine {
    fn new(fast: u32, slow: u32) -> Self {
        let mut fixture = PolicyFixture::two_tiers();
        fixture.allocated(0..fast, 0).allocated(100..100 + slow, 1);
        let mut node = Node::new(TierId(0));
        node.lruvecs.push(Generations::new(TenantId(0), TierId(0), 0));
        let mut folios = Folios::default();
        for page in (0..fast).map(PageId) {
            node.lruvecs[0].add(page, true, Release::V7_3, &mut folios, &fixture.pages);
        }
        let document = Document::parse("t.toml", "").unwrap();
        let tier = &fixture.topology.tiers[0];
        let zones = Zones::read(&document.root(), tier, Bytes(4096)).unwrap();
        Self { node, folios, fixture, zones, costs: KernelCosts::default() }
    }

    fn wake(&mut self) {
        let free = FreePages::new(&self.fixture.free);
        self.node.wake(Timestamp::ZERO, &free, &self.zones, &self.fixture.topology);
    }

    /// One step; returns the pages that it demotes.
    fn step(&mut self, at: u64) -> Vec<u32> {
        let mut free = FreePages::new(&self.fixture.free);
        let mut plan = MigrationPlan::default();
        let mut step = KswapdStep {
            release: Release::V7_3,
            folios: &mut self.folios,
            pages: &mut self.fixture.pages,
            topology: &self.fixture.topology,
            free: &mut free,
            zones: &mut self.zones,
            plan: &mut plan,
            costs: self.costs,
        };
        self.node.step(Timestamp(at), &mut step);
        self.fixture.execute(&plan);
        plan.moves.iter().map(|m| m.page.0).collect()
    }
}

#[test]
fn kswapd_stops_above_the_promo_watermark() {
    let mut machine = Machine::new(97, 0);
    machine.wake();
    let mut demoted = Vec::new();
    for at in 0..100 {
        demoted.extend(machine.step(at));
    }
    // The batch in which the node became balanced is finished: a few pages more than needed.
    assert!(!machine.node.is_awake());
    assert!((9..=12).contains(&machine.fixture.free[0].0), "{demoted:?}");
    assert_eq!(demoted[..3], [0, 1, 2], "the oldest first");
}

#[test]
fn balanced_node_does_not_wake() {
    let mut machine = Machine::new(91, 0);
    machine.wake();
    assert!(!machine.node.is_awake(), "9 free: more than the promo watermark");
}

#[test]
fn node_without_targets_is_hopeless() {
    // Two free slow pages are the slow node's min watermark: nothing can be demoted.
    let mut machine = Machine::new(97, 98);
    machine.wake();
    for at in 0..1000 {
        assert_eq!(machine.step(at), []);
    }
    assert!(!machine.node.is_awake(), "sixteen rounds without progress");
    machine.wake();
    assert!(!machine.node.is_awake());
}

#[test]
fn program_runs_as_long_as_a_step() {
    let mut machine = Machine::new(97, 0);
    let ms = Duration::from_millis;
    machine.costs.move_page = ms(1);
    machine.wake();
    assert_eq!(machine.node.due(Timestamp(5), Some(Duration::ZERO)), Some(Timestamp(5)));
    machine.step(5);
    let demoted = machine.step(1000).len() as u64;
    assert!(demoted > 0);
    let took = demoted * 1_000_000;
    // On an idle CPU the program has run all the time; on a shared one it has waited.
    let now = Timestamp(1000 + took);
    assert_eq!(machine.node.due(now, Some(ms(demoted))), Some(now));
    assert_eq!(machine.node.due(now, Some(Duration::ZERO)), Some(Timestamp(1000 + 2 * took)));
    assert_eq!(machine.node.due(now, None), Some(Timestamp(1000 + 2 * took)));
}

#[test]
fn looking_costs_as_much_as_reads() {
    let mut machine = Machine::new(97, 0);
    machine.costs.scan_entry = Duration::from_nanos(100);
    machine.wake();
    machine.step(0);
    // The first step, at priority 6, finds only young pages. The second one ages: it reads all 97
    // entries, then those of its victims, a 32nd of 97 at priority 5.
    machine.step(0);
    assert_eq!(machine.node.due(Timestamp(0), None), Some(Timestamp(2 * (97 + 3) * 100)));
}

#[test]
fn small_nodes_start_at_priority_six() {
    let machine = Machine::new(97, 0);
    assert_eq!(machine.node.initial_priority(12, 3000), 6);
    assert_eq!(machine.node.initial_priority(12, 32), 12, "a target below a batch");
    assert_eq!(machine.node.initial_priority(4, 3000), 4, "only at the start");
}
