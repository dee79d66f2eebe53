//! Memory-mode (2LM): the CPU uses the fast memory as a cache of the slow memory, and software
//! places no pages.
//!
//! The cache is direct-mapped and physically indexed: pages whose numbers are alike modulo the fast
//! memory's size contend for the same lines. Within a window their accesses are interleaved, so a
//! line is found in the cache if the last access to its place was its own. With accesses
//! independent of each other that has the probability `m / M`, where `m` is the page's misses of
//! the last-level cache and `M` those of all pages in its place: the hit ratio of a direct-mapped
//! cache under the independent reference model. A hit costs the fast latency; a miss costs the tag
//! check in fast memory and then the slow latency (Izraelevitz et al. 2019, section 2.1). Not
//! modelled: bandwidth, the write-back of dirty lines, and lines that stay from one window to the
//! next; the first two make the real machine slower, the last makes it faster.

use tierwise_trace::Window;

use super::Prepared;
use super::summary::{Measured, policy_result};
use crate::error::SimError;
use crate::machine::TierModel;
use crate::result::PolicyResult;
use crate::workload::{Work, Workload};

/// Runs the scenario's workloads, one after the other and each alone, with the first tier as a
/// cache of the second.
///
/// # Errors
/// A source is damaged, or the machine has one tier only.
pub fn memory_mode(prepared: &Prepared) -> Result<PolicyResult, SimError> {
    let machine = prepared.machine();
    let [fast, slow, ..] = &machine.tiers[..] else {
        return Err(SimError::Scenario("memory mode needs two tiers".to_owned()));
    };
    let places = fast.capacity.in_pages(machine.page_size).0.max(1) as usize;
    let mut measured = Vec::new();
    for (i, spec) in prepared.scenario().workloads.iter().enumerate() {
        let mut workload = Workload::new(prepared.windows(i)?, machine.tiers.len(), 0);
        workload.threads = f64::from(spec.threads);
        let mut window = Window::default();
        let mut work = Work::none(machine.tiers.len());
        let mut m = Measured::default();
        while workload.windows.next(&mut window)? {
            std::mem::swap(&mut workload.window, &mut window);
            workload.set_parallelism();
            if workload.windows.is_measured() {
                let dilation = f64::from(workload.windows.dilation());
                let (memory_ns, fast_misses, misses) = serve(&workload.window, places, fast, slow);
                let cpu = workload.window.instructions as f64 * machine.instruction_ns;
                let took = cpu + memory_ns / spec.memory_level_parallelism;
                m.took_ns += took * dilation / workload.parallelism;
                m.fast += fast_misses * dilation;
                m.misses += misses * dilation;
                work.add(&workload, dilation);
            }
        }
        m.wall_ns = m.took_ns;
        m.all_fast_ns = work.all_fast_ns;
        m.oracle_ns = work.oracle_ns;
        m.instructions = work.instructions;
        measured.push(m);
    }
    Ok(policy_result("memory-mode", &measured, Vec::new()))
}

/// Returns the nanoseconds that a window's misses take, the misses that the cache serves, and all
/// misses.
fn serve(window: &Window, places: usize, fast: &TierModel, slow: &TierModel) -> (f64, f64, f64) {
    let count =
        |a: &tierwise_trace::PageAccess| f64::from(a.load_misses) + f64::from(a.store_misses);
    let mut by_place = vec![0.0; places];
    for access in &window.accesses {
        by_place[access.page as usize % places] += count(access);
    }
    let (mut ns, mut hits, mut all) = (0.0, 0.0, 0.0);
    for access in &window.accesses {
        let misses = count(access);
        if misses > 0.0 {
            let hit = misses / by_place[access.page as usize % places];
            let store = f64::from(access.store_misses) / misses;
            let cost = |tier: &TierModel| tier.load_ns + store * (tier.store_ns - tier.load_ns);
            ns += misses * (cost(fast) + (1.0 - hit) * cost(slow));
            hits += misses * hit;
            all += misses;
        }
    }
    (ns, hits, all)
}

#[cfg(test)]
mod tests {
    use tierwise_core::units::Bytes;
    use tierwise_trace::PageAccess;

    use super::*;
    use crate::machine::Machine;

    /// Three pages on two places: 0 and 2 share one, 1 has its own. Computed by hand.
    #[test]
    fn colliding_pages_share_by_misses() {
        let access = |page, load_misses| PageAccess {
            page,
            loads: load_misses,
            stores: 0,
            load_misses,
            store_misses: 0,
            supervised: 0,
            thread: 0,
        };
        let window = Window {
            accesses: vec![access(0, 30), access(1, 7), access(2, 10)],
            ..Window::default()
        };
        let machine = Machine::preset("dram-cxl", Bytes(8192), Bytes(65536)).unwrap();
        let (ns, hits, all) = serve(&window, 2, &machine.tiers[0], &machine.tiers[1]);
        // Hit shares 3/4, 1 and 1/4.
        assert_eq!((hits, all), (30.0 * 0.75 + 7.0 + 10.0 * 0.25, 47.0));
        let slow = 202.0 * (30.0 * 0.25 + 10.0 * 0.75);
        assert!((ns - (47.0 * 73.0 + slow)).abs() < 1e-6, "{ns}");
    }
}
