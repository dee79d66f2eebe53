//! Memstrata: section 4.2, figures 5, 6, 9 to 14 and 16.

use super::{Claim, Published};

const fn percent(
    place: &'static str,
    what: &'static str,
    paper: Published,
    cause: &'static str,
) -> Claim {
    Claim { place, what, paper, unit: " %", cause }
}

const CHOSEN: &str = "the programs here were recorded because they miss: on CXL memory alone each \
                      is at least 13 % slower (the table's first column), as few of the paper's \
                      115 are";

const HOT_HALF: &str = "half of the memory holds what these programs use often: with a tenth of it \
                        fast (`fast_share = 0.1`, `memory_level_parallelism = 4`) 5 of the 30, 17 \
                        %, are more than 50 % slower under TPP. Not the misses in flight: with \
                        one, none is more than 32 % slower";

/// Figures 5 and 11: shares of the programs.
pub const HARDWARE_TIERING: &[Claim] = &[
    percent(
        "figure 5",
        "programs at most 5 % slower: hardware-tiered, and mixed",
        Published::Numbers(&[73.0, 82.0]),
        CHOSEN,
    ),
    percent(
        "figure 5",
        "programs at most 10 % slower: hardware-tiered, and mixed",
        Published::Numbers(&[86.0, 95.0]),
        CHOSEN,
    ),
    percent(
        "figure 11",
        "programs more than 50 % slower with TPP, half of the memory local",
        Published::Numbers(&[17.0]),
        HOT_HALF,
    ),
];

const ASSUMED: &str = "the misses in flight are an assumption, and four programs lie between 10 \
                       and 10.5 %: with five instead of four 20 of the 30, 67 %, are more than 10 \
                       % slower (`memory_level_parallelism`, \
                       scenarios/memstrata/noisy-neighbour.toml)";

/// Figure 6.
pub const NEIGHBOUR: &[Claim] = &[percent(
    "figure 6",
    "programs more than 10 % slower by a neighbour's conflicts",
    Published::Numbers(&[73.0]),
    ASSUMED,
)];

const OVERLAPPED: &str = "the samples have one to sixteen misses in flight, which hide each \
                          other: with two it is 0.78, with four 0.93, with one 0.40, where few \
                          misses already cost much (`misses_in_flight` of \
                          models/memstrata/samples.csv.gz)";

/// Section 4.2 and figure 9, from the training of the classifier that ships.
pub const CLASSIFIER: &[Claim] = &[
    percent(
        "section 4.2",
        "the classifier's accuracy: in training, in validation, and by one feature alone",
        Published::Numbers(&[100.0, 88.0, 63.0]),
        "the one feature here is misses per instruction and miss in flight, which knows more than \
         the paper's MPKI",
    ),
    Claim {
        place: "figure 9",
        what: "r squared of the latency of L3 misses with the miss ratio",
        paper: Published::Numbers(&[0.87]),
        unit: "",
        cause: "",
    },
    Claim {
        place: "figure 9",
        what: "r squared of MPKI with slowdown",
        paper: Published::Numbers(&[0.73]),
        unit: "",
        cause: OVERLAPPED,
    },
];

/// Figure 10.
pub const MIXES: &[Claim] = &[
    percent(
        "figure 10",
        "the worst tenant, hardware-tiered",
        Published::Numbers(&[35.0]),
        "the outliers recorded here are slowed down by 16 % at most, everything hardware-tiered \
         (figure 5)",
    ),
    percent("figure 10", "the worst tenant, with Memstrata", Published::NotAbove(6.0), ""),
    percent(
        "figure 10",
        "the outlier of each mix, with Memstrata: near 5 % or less",
        Published::NotAbove(5.0),
        "",
    ),
];

const GROWING: &str = "the programs run two to six minutes here, of which lending takes the first \
                       ones, a tenth each 10 s. Four times as long (`dilation` and `loops`), the \
                       worst is 4.5 % slower; with `interval_ms = 2500` 4.2 %";

/// Figure 12. Its bars are not in the paper's text; the goal is.
pub const OUTLIERS: &[Claim] = &[
    percent(
        "figure 12a, goal 4",
        "two outliers, a third dedicated, with Memstrata",
        Published::NotAbove(5.0),
        "",
    ),
    percent(
        "figure 12b, goal 4",
        "four outliers, a third dedicated, with Memstrata",
        Published::NotAbove(5.0),
        GROWING,
    ),
    percent(
        "figure 12c, goal 4",
        "four outliers, two thirds dedicated, with Memstrata",
        Published::NotAbove(5.0),
        "",
    ),
];

/// Figure 13. Its course is not in the paper's text; the goal is.
pub const ARRIVALS: &[Claim] = &[
    percent(
        "figure 13, goal 4",
        "the worst tenant while others arrive and end, with Memstrata",
        Published::NotAbove(5.0),
        "",
    ),
    Claim {
        place: "figure 13",
        what: "it is slowed down less than without lending",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
];

/// Figures 14 and 15.
pub const HOTNESS: &[Claim] = &[
    Claim {
        place: "figure 14",
        what: "dedicated by hotness instead of at random: within a point in the mean, and some \
               programs slower",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
    Claim {
        place: "figure 15",
        what: "dedicated pages move to the regions that DAMON finds hot (one program), and little \
               is gained",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
];

/// Figure 16. Its curves are not in the paper's text; the defaults are.
pub const SENSITIVITY: &[Claim] = &[Claim {
    place: "figure 16, section 6.3",
    what: "with 10 s, a tenth and 0.2 the worst tenant is within a point of any other value's",
    paper: Published::Order,
    unit: "",
    cause: "",
}];
