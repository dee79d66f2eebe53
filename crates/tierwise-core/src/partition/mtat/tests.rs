use std::sync::Mutex;

use proptest::prelude::*;

use super::*;
use crate::baseline::testing::PolicyFixture;
use crate::config::Document;
use crate::estimate;
use crate::learn::{Agent, AgentState, Experience, Null, Objective};
use crate::observe::TenantReading;
use crate::profile::Profile;
use crate::tenant::Limit;

const SECOND: u64 = 1_000_000_000;

/// Agent that takes a set action and records its experiences.
#[derive(Clone, Default)]
struct Scripted {
    action: Arc<Mutex<f64>>,
    learned: Arc<Mutex<Vec<Experience>>>,
    guarded: bool,
}

impl Agent for Scripted {
    fn act(&mut self, _: AgentState) -> f64 {
        *self.action.lock().unwrap()
    }
    fn learn(&mut self, experience: Experience) {
        self.learned.lock().unwrap().push(experience);
    }
    fn is_guarded(&self) -> bool {
        self.guarded
    }
    fn experience(&self) -> u64 {
        self.learned.lock().unwrap().len() as u64
    }
}

impl Learning for Scripted {
    fn agent(&self, model: Option<&str>, _: u64) -> Result<Box<dyn Agent>, String> {
        match model {
            None => Ok(Box::new(self.clone())),
            Some(path) => Err(format!("{path}: no such file")),
        }
    }

    /// Moves one step from the last place to the first.
    fn anneal(&self, objective: &dyn Objective, start: &[u64], _: u64) -> Vec<u64> {
        let mut found = start.to_vec();
        let step = objective.step().min(found[start.len() - 1]);
        found[0] += step;
        found[start.len() - 1] -= step;
        found
    }
}

struct Made {
    machine: PolicyFixture,
    mtat: Mtat,
    shares: Shares,
    now: u64,
}

impl Made {
    fn new(learning: impl Learning + 'static, specs: Vec<TenantSpec>, text: &str) -> Self {
        let mut machine = PolicyFixture::new(2);
        machine.tenants = vec![TenantReading::default(); specs.len()];
        machine.specs = specs;
        let learning: Arc<dyn Learning> = Arc::new(learning);
        let document = Document::parse("t.toml", text).unwrap();
        let build =
            BuildContext { learning: Some(&learning), ..BuildContext::new(&machine.topology, 7) };
        let mtat = Mtat::build(&document.root(), &build).unwrap();
        Self { machine, mtat, shares: Shares::default(), now: 0 }
    }

    fn reads(&mut self, tenant: usize, fast: u64, slow: u64) -> &mut TenantReading {
        let reading = &mut self.machine.tenants[tenant];
        reading.usage = vec![Pages(fast), Pages(slow)];
        reading.running = true;
        reading
    }

    fn partition(&mut self, seconds: u64) -> Vec<Share> {
        self.now += seconds * SECOND;
        let now = Timestamp(self.now);
        self.machine.obs.tenants.clone_from(&self.machine.tenants);
        self.mtat.on_observation(now, &self.machine.obs, &self.machine.pages);
        let ctx = self.machine.context();
        self.mtat.partition(now, &ctx, &estimate::NoEstimator, &mut self.shares);
        let tenants = (0..ctx.tenants.len()).map(|i| TenantId(i as u16));
        tenants.map(|tenant| self.shares.of(tenant, TierId::FASTEST)).collect()
    }
}

fn critical() -> TenantSpec {
    let slo = Some(Duration::from_millis(20));
    TenantSpec { class: Class::LatencyCritical, slo, ..TenantSpec::new("lc") }
}

/// Five pages of 4096 bytes are the largest step of a slice: 1 MB/s for 41 ms, half of it.
const SLOW: &str = "bandwidth_mbps = 1\naction_interval_ms = 41";

/// Equation 1 by hand: 1 MB/s for 41 ms, half of it, is 20.5 kB, five pages of 4 KiB.
#[test]
fn agent_step_is_bounded_by_equation_1() {
    let scripted = Scripted::default();
    let mut made = Made::new(scripted.clone(), vec![critical(), TenantSpec::new("be")], SLOW);
    assert_eq!(made.mtat.largest, Pages(5));
    made.reads(0, 20, 30);
    made.reads(1, 50, 30);
    assert_eq!(made.partition(0)[0].floor, Pages(20), "its usage, before its first request");
    made.reads(0, 20, 30).p99 = Some(Duration::from_millis(5));
    *scripted.action.lock().unwrap() = 1.0;
    assert_eq!(made.partition(1), [25, 69].map(|pages| Share::partition(Pages(pages))));
    *scripted.action.lock().unwrap() = -0.4;
    assert_eq!(made.partition(1)[0], Share::partition(Pages(23)));
    *scripted.action.lock().unwrap() = -7.0;
    assert_eq!(made.partition(1)[0], Share::partition(Pages(18)), "no action is beyond one step");
    *scripted.action.lock().unwrap() = f64::NAN;
    assert_eq!(made.partition(1)[0], Share::partition(Pages(18)));
}

/// Equation 2 by hand, and algorithm 1's order: the reward of an action comes with the next state.
#[test]
fn agent_learns_its_last_actions_reward() {
    let scripted = Scripted::default();
    let mut made = Made::new(scripted.clone(), vec![critical()], SLOW);
    let ms = Duration::from_millis;
    let mut interval = |fast, slow, p99: Option<u64>, misses: [u64; 2]| {
        let reading = made.reads(0, fast, slow);
        (reading.p99, reading.misses) = (p99.map(ms), misses.to_vec());
        made.partition(1);
        scripted.learned.lock().unwrap().last().copied()
    };
    *scripted.action.lock().unwrap() = -0.5;
    assert_eq!(interval(10, 30, Some(10), [300, 100]), None, "nothing was done before it");
    let first = AgentState { usage_ratio: 0.25, access_ratio: 0.75, load: 1.0 };
    *scripted.action.lock().unwrap() = 1.0;
    let second = AgentState { usage_ratio: 0.2, access_ratio: 0.5, load: 0.5 };
    let learned = Experience { state: first, action: -0.5, reward: 0.8, next: second };
    assert_eq!(interval(8, 32, Some(20), [100, 100]), Some(learned));
    let third = AgentState { usage_ratio: 0.2, access_ratio: 1.0, load: 0.25 };
    let learned = Experience { state: second, action: 1.0, reward: -1.0, next: third };
    assert_eq!(interval(8, 32, Some(21), [100, 0]), Some(learned));
    assert_eq!(interval(8, 32, None, [0, 0]), Some(learned), "no request: nothing to learn");
    assert_eq!(scripted.learned.lock().unwrap().len(), 2);
}

#[test]
fn load_is_relative_to_full_load() {
    let load = |full_load, accesses: [u64; 2]| {
        let scripted = Scripted::default();
        let spec = TenantSpec { full_load, ..critical() };
        let mut made = Made::new(scripted.clone(), vec![spec], SLOW);
        for accesses in accesses {
            let reading = made.reads(0, 10, 30);
            (reading.p99, reading.misses) = (Some(Duration::from_millis(1)), vec![accesses, 0]);
            made.partition(1);
        }
        scripted.learned.lock().unwrap()[0].next.load
    };
    assert_eq!(load(Some(400.0), [100, 100]), 0.25, "from the first interval on");
    assert_eq!(load(Some(400.0), [800, 100]), 0.125, "a higher one was seen");
    assert_eq!(load(None, [100, 100]), 1.0);
    assert_eq!(load(Some(f64::NAN), [400, 100]), 0.25);
}

/// The largest step is five pages.
#[test]
fn guard_grows_a_late_tenants_partition() {
    let grown = |guarded| {
        let scripted = Scripted { guarded, ..Scripted::default() };
        *scripted.action.lock().unwrap() = -1.0;
        let mut made = Made::new(scripted.clone(), vec![critical()], SLOW);
        let mut after = |p99| {
            let reading = made.reads(0, 20, 60);
            (reading.p99, reading.misses) = (Some(Duration::from_millis(p99)), vec![1, 1]);
            made.partition(1)[0].floor.0
        };
        let mut pages = vec![after(20), after(21)];
        pages.extend((0..10).map(|_| after(1)));
        let actions = scripted.learned.lock().unwrap().iter().map(|e| e.action).sum::<f64>();
        (pages, actions)
    };
    let (pages, actions) = grown(true);
    assert_eq!(pages, [15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 60]);
    assert_eq!(actions, 9.0, "it learns from what was done");
    let (pages, _) = grown(false);
    assert_eq!(pages[..4], [15, 10, 5, 0]);
}

/// 100 pages less 6 are divided evenly, 47 each; a step is 1/32 of the tier, 3 pages.
#[test]
fn profiled_tenants_anneal_from_an_even_split() {
    let profile = Profile::new(vec![(Bytes(0), 50.0), (Bytes(94 * 4096), 100.0)]).unwrap();
    let profiled = TenantSpec { profile: Some(profile), ..TenantSpec::new("be") };
    let specs = vec![critical(), profiled.clone(), profiled];
    let mut made = Made::new(Scripted::default(), specs, "interval_ms = 10000");
    made.reads(1, 10, 90);
    made.reads(2, 10, 90);
    let shares = made.partition(0);
    assert_eq!(shares[1..], [50, 44].map(|pages| Share::partition(Pages(pages))));
    let decision = made.shares.decisions().iter().find(|d| d.tenant == TenantId(2)).unwrap();
    let normalised = |pages: f64| (50.0 + 50.0 * pages / 94.0) / 100.0;
    assert_eq!(
        decision.rule,
        Rule::Annealed { expected: normalised(44.0), smallest: normalised(44.0) }
    );
    // Two pages go to the latency-critical tenant, no more than a step: the proportions stay.
    made.reads(0, 2, 0);
    assert_eq!(made.partition(1)[1..], [48, 43].map(|pages| Share::partition(Pages(pages))));
}

#[test]
fn recipe_may_let_best_effort_compete() {
    let specs = vec![critical(), TenantSpec::new("be")];
    let mut made = Made::new(Null, specs, "best_effort = \"free\"");
    made.reads(0, 30, 30).p99 = Some(Duration::from_millis(1));
    made.reads(1, 30, 90);
    assert_eq!(made.partition(1), [Share::partition(Pages(30)), Share::FREE]);
}

#[test]
fn unreadable_model_is_refused() {
    let learning: Arc<dyn Learning> = Arc::new(Scripted::default());
    let topology = crate::baseline::testing::topology(2);
    let ctx = BuildContext { learning: Some(&learning), ..BuildContext::new(&topology, 1) };
    let document = Document::parse("t.toml", "model = \"x.safetensors\"").unwrap();
    let error = Mtat::build(&document.root(), &ctx).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "t.toml:1: model: x.safetensors: no such file");
}

#[derive(Debug, Clone)]
struct Tenant {
    critical: bool,
    weight: u32,
    floor: Option<u64>,
    fast: u64,
    slow: u64,
    p99_ms: Option<u64>,
}

fn tenant() -> impl Strategy<Value = Tenant> {
    let floor = prop::option::of(0u64..12);
    let p99_ms = prop::option::of(1u64..40);
    (any::<bool>(), 1u32..500, floor, 0u64..12, 0u64..50, p99_ms).prop_map(
        |(critical, weight, floor, fast, slow, p99_ms)| Tenant {
            critical,
            weight,
            floor,
            fast,
            slow,
            p99_ms,
        },
    )
}

fn spec(tenant: &Tenant) -> TenantSpec {
    let mut spec = if tenant.critical { critical() } else { TenantSpec::new("be") };
    spec.weight = tenant.weight;
    spec.floors = vec![tenant.floor.map(|pages| Limit::Bytes(Bytes(pages * 4096)))];
    spec
}

/// Agent that acts by a hash of the state and its seed.
struct Erratic(u64);

impl Agent for Erratic {
    fn act(&mut self, state: AgentState) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 40) as f64 / f64::from(1 << 24) + state.load).fract() * 2.0 - 1.0
    }
    fn learn(&mut self, _: Experience) {}
    fn experience(&self) -> u64 {
        0
    }
}

impl Learning for Erratic {
    fn agent(&self, _: Option<&str>, seed: u64) -> Result<Box<dyn Agent>, String> {
        Ok(Box::new(Self(seed)))
    }
    fn anneal(&self, _: &dyn Objective, start: &[u64], _: u64) -> Vec<u64> {
        start.to_vec()
    }
}

proptest! {
    #[test]
    fn shares_fit_and_follow_floors_and_weights(
        tenants in prop::collection::vec(tenant(), 1..9),
        rounds in 1u64..6,
    ) {
        let made = || {
            let specs = tenants.iter().map(spec).collect();
            Made::new(Erratic(0), specs, "bandwidth_mbps = 1\naction_interval_ms = 100")
        };
        let (mut one, mut other) = (made(), made());
        for _ in 0..rounds {
            for made in [&mut one, &mut other] {
                for (i, tenant) in tenants.iter().enumerate() {
                    made.reads(i, tenant.fast, tenant.slow).p99 =
                        tenant.p99_ms.map(Duration::from_millis);
                }
            }
            let shares = one.partition(1);
            prop_assert_eq!(&shares, &other.partition(1), "the same seed, the same shares");
            let sum: u64 = shares.iter().map(|share| share.floor.0).sum();
            prop_assert!(sum <= 94, "the high watermark stays free: {:?}", shares);
            let floors: u64 = tenants.iter().filter_map(|t| t.floor).sum();
            for (share, a) in shares.iter().zip(&tenants) {
                let held = a.fast + a.slow > 0 && floors <= 94;
                prop_assert!(!held || share.floor.0 >= a.floor.unwrap_or(0));
                for (than, b) in shares.iter().zip(&tenants) {
                    let alike = !a.critical && !b.critical && a.floor == b.floor;
                    if alike && a.weight >= b.weight {
                        prop_assert!(share.floor >= than.floor, "{:?} {:?}", a, b);
                    }
                }
            }
        }
    }
}
