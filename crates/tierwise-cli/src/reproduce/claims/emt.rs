//! EMT: sections 7.2 and 7.5.

use super::{Claim, Published};

/// Figures 6 and 9, in the order of the text.
pub const RUN_TIMES: &[Claim] = &[
    Claim {
        place: "figure 6",
        what: "cases in which EMT is faster than TPP, AutoNUMA and MEMTIS (25, 30 and 15 of 33)",
        paper: Published::Numbers(&[75.8, 90.9, 45.5]),
        unit: " %",
        cause: "",
    },
    Claim {
        place: "section 7.2",
        what: "slowdown, geometric mean: EMT and MEMTIS",
        paper: Published::Numbers(&[1.18, 1.20]),
        unit: "",
        cause: "",
    },
    Claim {
        place: "figure 6a",
        what: "MEMTIS's slowdown on A* with a quarter and with three quarters fast",
        paper: Published::Numbers(&[1.55, 1.45]),
        unit: "",
        cause: "",
    },
    Claim {
        place: "figure 6a",
        what: "AutoNUMA's slowdown on A* with a quarter and with three quarters fast",
        paper: Published::Numbers(&[1.69, 1.14]),
        unit: "",
        cause: "",
    },
    Claim {
        place: "figure 6b",
        what: "AutoNUMA's slowdown on Bellman-Ford with a quarter and with three quarters fast",
        paper: Published::Numbers(&[1.566, 1.289]),
        unit: "",
        cause: "",
    },
    Claim {
        place: "section 7.2",
        what: "TPP's advantage over AutoNUMA on Bellman, BFS rand, KC, SQL2 and SQL3",
        paper: Published::Numbers(&[11.2]),
        unit: " %",
        cause: "",
    },
    Claim {
        place: "section 7.2",
        what: "TPP is slower than AutoNUMA on A*, bidirectional search and SQL1",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
    Claim {
        place: "section 7.2",
        what: "EMT's advantage over AutoNUMA on the SQL workloads",
        paper: Published::Numbers(&[4.7]),
        unit: " %",
        cause: "",
    },
    Claim {
        place: "section 7.2",
        what: "EMT is slower than TPP and than MEMTIS on SQL2 and SQL3 by",
        paper: Published::Numbers(&[5.1, 4.9]),
        unit: " %",
        cause: "",
    },
    Claim {
        place: "figure 9",
        what: "marking's part of the time",
        paper: Published::Range(0.0, 8.3),
        unit: " %",
        cause: "",
    },
];
