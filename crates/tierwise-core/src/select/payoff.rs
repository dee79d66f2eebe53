//! A move pays or is not made: its gain against its cost.
//!
//! The gain is the time that misses no longer take: the misses that the page has to expect, less
//! those of its victims ([`crate::stage::Estimator::outlook`]), times the difference of the two
//! tiers' latencies on an idle machine. The cost is the CPU time of all copies, as the world
//! measures it ([`crate::observe::Observation::move_cost`]). A gain counts if it is [`MARGIN`]
//! times the cost.
//!
//! ARMS (Yadalam and others, arXiv 2508.04417, 2025) is an earlier policy that migrates by cost and
//! benefit and has no threshold to tune.

use super::pass::Pass;
use crate::units::{PageId, TierId};

/// The gain that a move must promise, over its cost. A promise is of half a minute, and many pages
/// do not stay as long: others that promise more take their place, or their tenant's share shrinks.
/// At 2 and 3 two of MTAT's programs copy a quarter and a tenth more than at 4, and the slower one
/// is 0.2 % slower; 5 gains nothing (docs/tenants.md).
const MARGIN: f64 = 4.0;

/// Returns true if it saves more time than it costs to exchange `page` for its `victims` in
/// `upper`. Without evidence, or on a world that does not know the cost, hotness alone decides.
pub(super) fn pays(page: PageId, victims: &[PageId], upper: TierId, pass: &Pass<'_, '_>) -> bool {
    let (Some(cost), Some(from)) = (pass.ctx.move_cost, pass.ctx.pages.tier(page)) else {
        return true;
    };
    let misses = |page: PageId| {
        let frames = pass.ctx.pages.frames(page) as f64;
        pass.estimator.outlook(page, pass.ctx.pages).map(|each| each * frames)
    };
    let Some(gained) = misses(page) else { return true };
    let lost: f64 = victims.iter().filter_map(|&victim| misses(victim)).sum();
    let latency = |tier: TierId| pass.ctx.topology.tier(tier).load_latency.as_secs_f64();
    let copied = pass.frames(&[page]) + pass.frames(victims);
    (gained - lost) * (latency(from) - latency(upper))
        > MARGIN * copied.0 as f64 * cost.as_secs_f64()
}
