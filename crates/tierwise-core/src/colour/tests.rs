use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const TENANTS: u16 = 4;

/// A step of a tenant.
#[derive(Debug, Clone, Copy)]
enum Step {
    Allocate(u16, u64),
    Free(usize),
    Compact(u16),
    Reserve(u16, u32),
}

fn any_step() -> impl Strategy<Value = Step> {
    let tenant = 0..TENANTS;
    prop_oneof![
        5 => (tenant.clone(), any::<u64>()).prop_map(|(t, draw)| Step::Allocate(t, draw)),
        4 => any::<usize>().prop_map(Step::Free),
        1 => tenant.clone().prop_map(Step::Compact),
        1 => (tenant, 0u32..6).prop_map(|(t, n)| Step::Reserve(t, n)),
    ]
}

/// The test's own record of all pages: tenant and frame.
#[derive(Default)]
struct Model(Vec<(u16, u32)>);

impl Model {
    fn step(&mut self, colours: &mut Colours, step: Step) {
        match step {
            Step::Allocate(tenant, draw) => {
                let had_free_frame = colours.has_free_frame(TenantId(tenant));
                match colours.allocate(TenantId(tenant), draw) {
                    Ok(frame) => self.0.push((tenant, frame)),
                    Err(error) => assert!(!had_free_frame, "{error}"),
                }
            }
            Step::Free(index) if !self.0.is_empty() => {
                let (_, frame) = self.0.swap_remove(index % self.0.len());
                colours.free(frame);
            }
            Step::Free(_) => {}
            Step::Compact(tenant) => self.compact(colours, tenant),
            Step::Reserve(tenant, n) => {
                let before = (colours.held(TenantId(tenant)), colours.unowned());
                if colours.reserve(TenantId(tenant), n).is_err() {
                    assert_eq!((colours.held(TenantId(tenant)), colours.unowned()), before);
                }
            }
        }
    }

    fn compact(&mut self, colours: &mut Colours, tenant: u16) {
        for step in colours.compaction(TenantId(tenant)) {
            assert!(colours.relocate(step));
            let page = self.0.iter_mut().find(|page| page.1 == step.from).unwrap();
            assert_eq!(page.0, tenant);
            page.1 = step.to;
        }
        let own = self.0.iter().filter(|page| page.0 == tenant).count() as u32;
        let reserved = colours.holdings.get(tenant as usize).map_or(0, |h| h.reserved);
        let expected = own.div_ceil(3).max(reserved);
        assert_eq!(colours.held(TenantId(tenant)), expected, "as few as can hold its pages");
    }

    /// Colours are never shared, every page has its own frame, and the counts add up.
    fn check(&self, colours: &Colours) {
        for &(tenant, frame) in &self.0 {
            assert!(colours.is_used(frame));
            assert_eq!(colours.owner(colours.colour(frame)), Some(TenantId(tenant)));
        }
        let mut frames: Vec<u32> = self.0.iter().map(|page| page.1).collect();
        frames.sort_unstable();
        frames.dedup();
        assert_eq!(frames.len(), self.0.len());
        let tenants = (0..TENANTS).map(TenantId);
        let held: u32 = tenants.clone().map(|t| colours.held(t)).sum();
        let unused: u32 = tenants.map(|t| colours.unused(t)).sum();
        assert_eq!(held + colours.unowned(), colours.colours);
        assert_eq!(unused + self.0.len() as u32, held * colours.ways);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn colours_are_never_shared_and_pages_conserved(
        steps in prop::collection::vec(any_step(), 0..120),
    ) {
        let mut colours = Colours::new(11, 3);
        let mut model = Model::default();
        for step in steps {
            model.step(&mut colours, step);
            model.check(&colours);
        }
        for (_, frame) in std::mem::take(&mut model.0) {
            colours.free(frame);
        }
        (0..TENANTS).for_each(|t| colours.reserve(TenantId(t), 0).unwrap());
        prop_assert_eq!(colours.unowned(), 11);
    }
}

#[test]
fn virtual_machine_keeps_colours_without_pages() {
    let (vm, process) = (TenantId(0), TenantId(1));
    let mut colours = Colours::new(4, 2);
    colours.reserve(vm, 3).unwrap();
    let frame = colours.allocate(vm, 5).unwrap();
    colours.free(frame);
    assert_eq!((colours.held(vm), colours.unowned()), (3, 1));
    assert_eq!(colours.reserve(process, 2).unwrap_err().held, 0);
    colours.allocate(process, 0).unwrap();
    colours.allocate(process, 0).unwrap();
    assert!(!colours.has_free_frame(process));
    // A colour whose pages were moved returns to the pool, and the reservation shrinks.
    colours.release(frame % 4);
    assert_eq!((colours.held(vm), colours.unowned()), (2, 1));
    // The virtual machine is shut down: its colours return to the pool.
    colours.reserve(vm, 0).unwrap();
    assert_eq!(colours.unowned(), 3);
    assert!(colours.allocate(process, 0).is_ok());
}

#[test]
fn empty_frames_are_freed_not_relocated() {
    let mut colours = Colours::new(4, 2);
    let frame = colours.allocate(TenantId(0), 0).unwrap();
    let other = colours.allocate(TenantId(1), 0).unwrap();
    colours.free(99);
    assert!(!colours.relocate(Relocation { from: 99, to: frame }));
    assert!(!colours.relocate(Relocation { from: frame, to: other }));
    assert!(!colours.relocate(Relocation { from: frame, to: 99 }));
    let beside = colours.colour(other) + if other < 4 { 4 } else { 0 };
    assert!(!colours.relocate(Relocation { from: frame, to: beside }), "the colour is another's");
}

#[test]
fn largest_tenant_number_owns_its_colours() {
    let tenant = TenantId(u16::MAX);
    let mut colours = Colours::new(4, 2);
    let frame = colours.allocate(tenant, 0).unwrap();
    assert_eq!(colours.owner(colours.colour(frame)), Some(tenant));
    colours.free(frame);
    assert_eq!(colours.unowned(), 4);
}
