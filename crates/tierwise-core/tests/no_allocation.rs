//! The steady state allocates nothing: after a warm-up every tick of every staged recipe works in the
//! memory that it has. And a page costs the engine twelve bytes.

// A global allocator is an unsafe trait by definition.
#![allow(unsafe_code)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use common::{Machine, base_page};
use tierwise_core::lru::LruLists;
use tierwise_core::observe::Sample;
use tierwise_core::page::{PageKind, PageTable};
use tierwise_core::recipe::Recipe;
use tierwise_core::units::{PageId, TierId};

thread_local! {
    /// Allocations of this thread. `const` and without a destructor, so that touching it allocates
    /// nothing and is allowed at any time.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract; the
// counter neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises about `layout` are the ones needed here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `alloc` above with this layout, and so from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A hot set of 400 pages that moves on through 4000 every five seconds, over a fast tier of 1600.
fn tick(machine: &mut Machine, second: u32) {
    let first = second / 5 * 400 % 4000;
    for page in first..first + 400 {
        machine.touch([page]);
        machine.obs.written.set(PageId(page));
        let tier = machine.engine.pages().tier(PageId(page)).unwrap_or(TierId(0));
        machine.obs.samples.push(Sample { page: PageId(page), tier, write: page % 3 == 0 });
    }
    machine.obs.supervised.extend((first..first + 50).map(PageId));
    machine.drive(Duration::from_secs(1));
}

#[test]
fn a_steady_tick_allocates_nothing() {
    let staged = |recipe: &Recipe| recipe.bound().is_none() && !recipe.text().contains("[policy]");
    let recipes: Vec<Recipe> = Recipe::shipped().filter(staged).collect();
    assert!(recipes.iter().any(|recipe| recipe.name() == "multi-clock"));
    for mut recipe in recipes {
        let name = recipe.name().to_owned();
        if name == "memtis" {
            // So that it adapts and cools within the warm-up, at 400 samples a second.
            let often = [("= 100000 ", "= 1000 "), ("= 2000000 ", "= 4000 ")];
            recipe = common::recipe(&name, &often);
        }
        let mut machine = Machine::new(recipe, &[1600, 6400]);
        machine.born(0, 1500, base_page(0, PageKind::Anon));
        machine.born(1500, 2500, base_page(1, PageKind::File));
        // Twice through the hot set's round of 50 seconds.
        (0..100).for_each(|second| tick(&mut machine, second));
        let before = ALLOCATIONS.get();
        (100..200).for_each(|second| tick(&mut machine, second));
        assert_eq!(ALLOCATIONS.get() - before, 0, "{name} allocates");
        let moved = machine.engine.metrics().promote.success;
        assert!(moved > 0 || ["none", "static"].contains(&name.as_str()), "{name} moved nothing");
    }
}

#[test]
fn a_page_costs_twelve_bytes() {
    const { assert!(PageTable::BYTES_PER_PAGE + LruLists::BYTES_PER_PAGE <= 12) }
}
