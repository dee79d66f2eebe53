//! MTAT: figures 1, 2, 5, 6, 8 and 9 with table 4, by service in the order of table 1.

use super::{Claim, Published};

/// Figure 1 and table 1.
pub const KNEES: &[Claim] = &[
    Claim {
        place: "figure 1, table 1",
        what: "maximum load with everything fast: Redis, Memcached, MongoDB and Silo",
        paper: Published::Numbers(&[80.0, 1220.0, 125.0, 11.0]),
        unit: " KRPS",
        cause: "",
    },
    Claim {
        place: "figure 1",
        what: "less fast memory never raises the maximum load",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
];

/// Figure 2.
pub const MEMTIS: &[Claim] = &[
    Claim {
        place: "figure 2",
        what: "Redis' data in fast memory under MEMTIS, beside SSSP, at the highest load",
        paper: Published::NotAbove(10.0),
        unit: " %",
        cause: "",
    },
    Claim {
        place: "figure 2",
        what: "Redis violates its SLO of 20 ms then",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
];

const AT_ITS_LIMIT: &str = "the ramp's top is the load at which FMEM_ALL itself is at its limit, \
                            and a load that only rises looks like the highest to the agent; at 99 \
                            % of it MTAT keeps the SLO (figure 8)";

/// Figure 5.
pub const RAMP: &[Claim] = &[
    Claim {
        place: "figure 5",
        what: "MTAT keeps the SLO under the ramp: P99 over SLO, of the four services",
        paper: Published::NotAbove(1.0),
        unit: "",
        cause: AT_ITS_LIMIT,
    },
    Claim {
        place: "figure 5",
        what: "MTAT (LC only) does too",
        paper: Published::NotAbove(1.0),
        unit: "",
        cause: AT_ITS_LIMIT,
    },
    Claim {
        place: "figure 5",
        what: "MEMTIS violates it: P99 over SLO",
        paper: Published::NotBelow(1.0),
        unit: "",
        cause: "",
    },
    Claim {
        place: "figure 5",
        what: "TPP violates it more than all slow memory does, on all four services",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
];

const LOADING: &str = "under TPP these programs hardly pass their load phase, which does not \
                       count (docs/tenants.md, figures 5 and 6)";
const ALIKE: &str = "the smallest NP under MEMTIS is 0.72 to 0.73 here, since the pages of these \
                     programs are alike: 1.4 times that would be more than 1 (docs/tenants.md, \
                     figures 5 and 6)";

/// Figure 6: geometric means of the services.
pub const BEST_EFFORT: &[Claim] = &[
    Claim {
        place: "figure 6",
        what: "MTAT's smallest NP over TPP's",
        paper: Published::Numbers(&[3.0]),
        unit: "",
        cause: LOADING,
    },
    Claim {
        place: "figure 6",
        what: "MTAT's smallest NP over MEMTIS's",
        paper: Published::Numbers(&[1.4]),
        unit: "",
        cause: ALIKE,
    },
    Claim {
        place: "figure 6",
        what: "MTAT's throughput over MEMTIS's",
        paper: Published::Numbers(&[0.82]),
        unit: "",
        cause: "",
    },
    Claim {
        place: "figure 6",
        what: "MTAT (LC only)'s throughput over MEMTIS's",
        paper: Published::Numbers(&[0.93]),
        unit: "",
        cause: "",
    },
];

/// Figure 8: geometric means of the services.
pub const MAXIMUM_LOAD: &[Claim] = &[
    Claim {
        place: "figure 8",
        what: "maximum load of FMEM_ALL's: MTAT",
        paper: Published::NotBelow(99.0),
        unit: " %",
        cause: "",
    },
    Claim {
        place: "figure 8",
        what: "maximum load of FMEM_ALL's: MEMTIS",
        paper: Published::Numbers(&[85.0]),
        unit: " %",
        cause: "",
    },
    Claim {
        place: "figure 8",
        what: "maximum load of FMEM_ALL's: TPP",
        paper: Published::Numbers(&[70.0]),
        unit: " %",
        cause: "",
    },
    Claim {
        place: "figure 8",
        what: "MTAT's load over TPP's, on the service where it is most (section 8)",
        paper: Published::Numbers(&[1.7]),
        unit: "",
        cause: "",
    },
];

const STEADY_STATE: &str = "the agent's state has the load over its maximum so far, which under a \
                            steady load is always 1: MTAT keeps most of the service fast \
                            (docs/learning.md, the problem)";

/// Figure 9 and table 4, at 20, 50 and 80 %.
pub const STEADY: &[Claim] = &[
    Claim {
        place: "figure 9a",
        what: "MTAT is the fairest at every load",
        paper: Published::Order,
        unit: "",
        cause: STEADY_STATE,
    },
    Claim {
        place: "table 4",
        what: "MTAT violates the SLO at no load",
        paper: Published::NotAbove(0.0),
        unit: " % of requests",
        cause: "",
    },
    Claim {
        place: "figure 9b",
        what: "MEMTIS has the highest throughput at every load",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
    Claim {
        place: "figure 9",
        what: "TPP has the lowest fairness at every load",
        paper: Published::Order,
        unit: "",
        cause: LOADING,
    },
    Claim {
        place: "figure 9b",
        what: "TPP has the lowest throughput at every load",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
    Claim {
        place: "table 4",
        what: "TPP violates the SLO most at every load",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
];
