//! Statements with figures of which this command measures none, with the reason.

use super::{Claim, Published};

/// A statement that is not measured, and why.
pub struct Unmeasured {
    /// The paper, as in [`super::super::all`].
    pub paper: &'static str,
    /// The statement.
    pub claim: Claim,
    /// The reason.
    pub why: &'static str,
}

const fn row(
    paper: &'static str,
    place: &'static str,
    what: &'static str,
    published: Published,
    unit: &'static str,
    why: &'static str,
) -> Unmeasured {
    Unmeasured { paper, claim: Claim { place, what, paper: published, unit, cause: "" }, why }
}

use Published::{NotAbove, Numbers, Order};

const FLEET: &str = "a survey of the authors' fleet, which no one else has";
const MOTIVATION: &str = "the paper's motivation, measured without its system";
const REAL: &str = "a property of the authors' processor and programs, of which the simulator has \
                    neither";

/// Every such statement, by paper.
pub const UNMEASURED: &[Unmeasured] = &[
    row(
        "equilibria",
        "figure 1",
        "memory's share of a server's cost, up to",
        Numbers(&[44.0]),
        " %",
        FLEET,
    ),
    row(
        "equilibria",
        "figure 2",
        "CXL memory has a higher idle latency than remote memory",
        Order,
        "",
        REAL,
    ),
    row(
        "equilibria",
        "table III",
        "gain from interleaving with CXL, bandwidth-bound",
        NotAbove(2.5),
        " %",
        "the simulator has no weighted interleaving",
    ),
    row(
        "equilibria",
        "figure 3",
        "of two containers the hotter one gets all of its memory local, the other half",
        Order,
        "",
        MOTIVATION,
    ),
    row(
        "equilibria",
        "V-D 1",
        "P99 of the cache with more local memory, of the other's on Linux, up to",
        Numbers(&[3.3]),
        " times",
        "simulated requests touch a few pages each and wait for memory a tenth of their time, so \
         that response times hardly differ (docs/tenants.md)",
    ),
    row(
        "equilibria",
        "V-D 1",
        "hint faults that Equilibria saves A",
        Numbers(&[97.0]),
        " %",
        "results have promotions and the time of all faults, not their number by tenant",
    ),
    row(
        "equilibria",
        "V-D 1",
        "A's throughput drop follows failed requests, 83,000 per minute",
        Order,
        "",
        "simulated services answer every request, late or not",
    ),
    row(
        "equilibria",
        "abstract",
        "gain over TPP in production, up to",
        Numbers(&[52.0]),
        " %",
        "the production workloads are the authors' own",
    ),
    row(
        "multi-clock",
        "figures 1 and 2",
        "pages differ in how often they are accessed, over time and by type",
        Order,
        "",
        MOTIVATION,
    ),
    row(
        "multi-clock",
        "section V-F",
        "the benefit is greater than the cost of migration",
        Order,
        "",
        "an argument about memory-intensive programs, without a measurement; section V-C's rows \
         compare MULTI-CLOCK with static here",
    ),
    row(
        "mtat",
        "table 3",
        "maximum load, fairness and throughput with other numbers of cores and programs",
        Order,
        "",
        "the paper's figures are not in its text; those here are in docs/tenants.md",
    ),
    row(
        "memstrata",
        "figure 1",
        "a warm guest has no spatial locality of accesses",
        Order,
        "",
        MOTIVATION,
    ),
    row(
        "memstrata",
        "figure 2",
        "FASTER with 2 MiB pages: 18 % faster all in DRAM, 25 % slower with a quarter",
        Numbers(&[18.0, -25.0]),
        " %",
        MOTIVATION,
    ),
    row(
        "memstrata",
        "figure 7",
        "neighbours disturb each other more in local memory than in the last-level cache",
        Order,
        "",
        "a recording has the misses behind one cache, which the simulator cannot share",
    ),
    row("emt", "table 1", "which systems track what, and at which cost", Order, "", MOTIVATION),
    row(
        "emt",
        "figures 2 and 3",
        "how often and for how long marking stops the program",
        Order,
        "",
        "marking is of a real interpreter (python/emt/reproduction) and is not simulated; of its \
         stops only single ones were timed (docs/emt.md), not their number or the limits' effect",
    ),
    row(
        "emt",
        "figures 4 and 5",
        "hotness of objects follows from reference counts",
        Order,
        "",
        "not simulated; on a real interpreter it does, less than in the paper: docs/emt.md, the \
         linear model",
    ),
    row(
        "emt",
        "table 2",
        "R² of the linear model, of polynomials, of a random forest, of a perceptron",
        Numbers(&[0.709, 0.715, 0.715, 0.715]),
        "",
        "not simulated; on a real interpreter, whose truth is which objects were written, 0.40 to \
         0.50 (docs/emt.md, the linear model)",
    ),
    row(
        "emt",
        "figure 7",
        "pages that move, by how hotness is represented",
        Order,
        "",
        "recordings have the sum of the hotness of a page's objects, from which only two of the \
         four representations follow",
    ),
    row(
        "emt",
        "figure 8",
        "modes of demotion on graph programs",
        Order,
        "",
        "not simulated; on a real interpreter, with half of the memory fast, eager demotion was \
         faster in five of six programs (docs/emt.md, the threshold of adaptive lazy demotion)",
    ),
    row(
        "emt",
        "figure 9",
        "memory for what is known of objects, of the process's, up to",
        Numbers(&[6.4]),
        " %",
        "not simulated: 20 bytes for each object that is followed, by the paper's section 5.2",
    ),
];
