//! The steady state allocates no memory: after a warm-up, every tick of every staged recipe works
//! in the memory that it has. And a page costs the engine twelve bytes.

mod common;
#[path = "common/counting.rs"]
mod counting;

use std::time::Duration;

use common::{EngineFixture, base_page};
use tierwise_core::lru::LruLists;
use tierwise_core::observe::{Capabilities, HintFault, Sample};
use tierwise_core::page::{PageKind, PageTable};
use tierwise_core::recipe::Recipe;
use tierwise_core::units::{PageId, TierId, Timestamp};

/// A hot set of 400 pages that moves through 4000 every five seconds, over a fast tier of 1600.
fn tick(machine: &mut EngineFixture, second: u32) {
    let first = second / 5 * 400 % 4000;
    for page in first..first + 400 {
        machine.touch([page]);
        machine.obs.written.set(PageId(page));
        let tier = machine.engine.pages().tier(PageId(page)).unwrap_or(TierId(0));
        machine.obs.samples.push(Sample { page: PageId(page), tier, write: page % 3 == 0 });
        let poisoned_at = Timestamp(u64::from(second) * 1_000_000_000);
        let at = poisoned_at + Duration::from_millis(1);
        let fault = HintFault { page: PageId(page), poisoned_at, at, write: false };
        machine.obs.hint_faults.push(fault);
    }
    machine.obs.supervised.extend((first..first + 50).map(PageId));
    machine.drive(Duration::from_secs(1));
}

#[test]
fn a_steady_tick_allocates_nothing() {
    // A lender of dedicated memory moves no pages if the CPU manages no tier.
    let topology = common::topology(&[1600, 6400]);
    let staged = |recipe: &Recipe| {
        recipe.bound().is_none()
            && !recipe.text().contains("[policy]")
            && recipe.runs_on(&topology, &Capabilities::PAGES)
    };
    let recipes: Vec<Recipe> = Recipe::shipped().filter(staged).collect();
    assert!(recipes.iter().any(|recipe| recipe.name() == "multi-clock"));
    for mut recipe in recipes {
        let name = recipe.name().to_owned();
        if name == "memtis" {
            // So that it adapts and cools within the warm-up, at 400 samples per second.
            let often = [("= 100000 ", "= 1000 "), ("= 2000000 ", "= 4000 ")];
            recipe = common::recipe(&name, &often);
        }
        if name.starts_with("mtat") {
            // So that it ages once per round of the hot set, and all rounds are equal.
            recipe = common::recipe(&name, &[("_ms = 60000 # the", "_ms = 50000 # the")]);
        }
        let mut machine = EngineFixture::new(recipe, &[1600, 6400]);
        machine.allocated(0, 1500, base_page(0, PageKind::Anon));
        machine.allocated(1500, 2500, base_page(1, PageKind::File));
        // Twice through the hot set's round of 50 seconds.
        (0..100).for_each(|second| tick(&mut machine, second));
        let before = counting::allocations();
        (100..200).for_each(|second| tick(&mut machine, second));
        assert_eq!(counting::allocations() - before, 0, "{name} allocates");
        let moved = machine.engine.metrics().promote.success;
        assert!(moved > 0 || ["none", "static"].contains(&name.as_str()), "{name} moved nothing");
    }
}

#[test]
fn a_page_costs_twelve_bytes() {
    const { assert!(PageTable::BYTES_PER_PAGE + LruLists::BYTES_PER_PAGE <= 12) }
}
