//! Equilibria: sections III, V-B, V-C and V-D.

use super::{Claim, Published};

const fn gb(place: &'static str, what: &'static str, gb: &'static [f64]) -> Claim {
    Claim { place, what, paper: Published::Numbers(gb), unit: " GB", cause: "" }
}

/// Section V-B 1 to 4, in the order of the scenarios.
pub const VALIDATIONS: &[Claim] = &[
    gb("V-B 1", "local memory is preferred: A, B and C in it", &[120.0, 40.0, 40.0]),
    gb("V-B 2, figure 5", "lower protection is enforced: A, B and C", &[80.0, 80.0, 80.0]),
    gb("V-B 3", "unused protection is donated: A, B and C", &[100.0, 70.0, 70.0]),
    gb("V-B 4", "the upper bound is enforced: A, B and C", &[80.0, 40.0, 40.0]),
    Claim {
        place: "V-B 2",
        what: "pages that leave A's local memory in a second, at most",
        paper: Published::Numbers(&[250_000.0]),
        unit: "",
        cause: "one plan demotes up to 73 granules of 64 MiB here, for which the thread of the \
                node copies for 2.7 s at its own pace of 444,000 pages a second; the mean of ten \
                seconds is at most 273,613",
    },
    Claim {
        place: "figure 6",
        what: "A's promotion is throttled while it is above its protection",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
];

const WAITING: &str = "B and C do little but wait for memory here \
                       (scenarios/equilibria/noisy.toml) and have 35 to 45 % of it local instead \
                       of all; how much the paper's microbenchmark computes, and what it has \
                       local, is not in the text";

/// Sections III and V-B 5.
pub const THRASHING: &[Claim] = &[
    Claim {
        place: "III",
        what: "pages that a thrashing container promotes in a second on Linux",
        paper: Published::NotBelow(100_000.0),
        unit: "",
        cause: "",
    },
    Claim {
        place: "III",
        what: "its neighbours, slower than alone, on Linux",
        paper: Published::Numbers(&[7.0]),
        unit: " %",
        cause: WAITING,
    },
    Claim {
        place: "V-B 5",
        what: "fewer promotions with mitigation than without",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
    Claim {
        place: "V-B 5",
        what: "more throughput of the neighbours with mitigation than without",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
];

const RANDOM: &str = "the requests here touch 480 GB at random and wait for memory a tenth of \
                      their time, so that where a page lies hardly changes a response \
                      (docs/tenants.md, stacked cases)";

const BURST: &str = "D allocates 120 GB within 20 s here, which no demotion keeps up with; at a \
                     fifth of that speed (`dilation = 2000` for D in \
                     scenarios/equilibria/ci.toml) D has 98 % after 100 s and 100 % after 140 s";
const RETURNED: &str = "B gives 113 GB back from second 310 on, and D's pages are the hottest; \
                        with A, B and C slower (`dilation = 6000`) and D a compression \
                        (zstd-long, `dilation = 60`, from second 660) D has 37 % after 40 s and \
                        35 % after two minutes";
const GRANULE: &str = "28 GB are 417.2 granules of 64 MiB, and the container has 417";
const TO_AND_FRO: &str = "TPP moves A's pages to and fro, and its hint faults and copies cost \
                          more than slow memory: without the cost of faults A is 21 % slower, \
                          without that of copies 31 %, and with all memory slow 10 %. With a \
                          fifth of the accesses per instruction (`instructions_per_access` five \
                          times as large, `dilation = 3277`) B has 7.9 % more, and A is 18 % \
                          slower on Linux";
const FOUND: &str = "PageRank's hot pages are found on Linux too: 96.6 % of its misses are fast \
                     there, it is 5 % slower than with all fast, so no policy can gain more, and \
                     107 % with all memory slow. The paper's SparkBench is colder than the \
                     caches";
const LITTLE: &str = "A, B and C are at most 4 % slower on Linux than with all memory fast, so \
                      little can be gained (all slow: 62 to 79 %), and D is 45 % slower on Linux \
                      and 42 % on Equilibria: it allocates faster than any demotion (see its \
                      row)";

/// Sections V-C and V-D, case by case.
pub const STACKED: &[Claim] = &[
    Claim {
        place: "cache",
        what: "fast % of A and B on Equilibria",
        paper: Published::Numbers(&[72.0, 73.0]),
        unit: "",
        cause: "",
    },
    Claim {
        place: "cache",
        what: "fast % of A and B on Linux",
        paper: Published::Numbers(&[90.0, 70.0]),
        unit: "",
        cause: "",
    },
    Claim {
        place: "cache",
        what: "P99 of A and B, % lower than on Linux",
        paper: Published::Numbers(&[52.0, 47.0]),
        unit: "",
        cause: RANDOM,
    },
    Claim {
        place: "cache",
        what: "B's P99 over A's on Linux",
        paper: Published::Numbers(&[1.15]),
        unit: "",
        cause: RANDOM,
    },
    Claim {
        place: "cache",
        what: "B's P99 over A's on Equilibria",
        paper: Published::Numbers(&[1.07]),
        unit: "",
        cause: "",
    },
    Claim {
        place: "cache-burst",
        what: "A's least requests/s, % of its mean, on Linux",
        paper: Published::Numbers(&[35.0]),
        unit: "",
        cause: RANDOM,
    },
    Claim {
        place: "cache-burst",
        what: "the same on Equilibria: not lower than on Linux",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
    Claim {
        place: "ci",
        what: "fast % of D, which starts last, on Equilibria",
        paper: Published::NotBelow(90.0),
        unit: "",
        cause: BURST,
    },
    Claim {
        place: "ci",
        what: "fast % of D on Linux",
        paper: Published::NotAbove(50.0),
        unit: "",
        cause: RETURNED,
    },
    Claim {
        place: "ci",
        what: "fast % of the worst job: more on Equilibria than on Linux",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
    Claim {
        place: "ci",
        what: "more work in a second than on Linux, geometric mean, % (builds 3.3 % shorter)",
        paper: Published::Numbers(&[3.4]),
        unit: "",
        cause: LITTLE,
    },
    Claim {
        place: "web",
        what: "least GB of a container on Equilibria",
        paper: Published::NotBelow(28.0),
        unit: "",
        cause: GRANULE,
    },
    Claim {
        place: "web",
        what: "GB of A and D on Equilibria",
        paper: Published::Numbers(&[28.0, 28.0]),
        unit: "",
        cause: "D starts late here and is not the coldest, so it keeps free memory \
                (docs/tenants.md, stacked cases)",
    },
    Claim {
        place: "web",
        what: "partition B's throughput over Linux's, %",
        paper: Published::Numbers(&[8.0]),
        unit: "",
        cause: TO_AND_FRO,
    },
    Claim {
        place: "web",
        what: "slowest container, % slower than alone, on Equilibria",
        paper: Published::NotAbove(2.0),
        unit: "",
        cause: "",
    },
    Claim {
        place: "web",
        what: "partition B on Linux, % slower than alone",
        paper: Published::Numbers(&[7.5]),
        unit: "",
        cause: TO_AND_FRO,
    },
    Claim {
        place: "tao-spark",
        what: "SparkBench's throughput over Linux's",
        paper: Published::Numbers(&[1.7]),
        unit: "",
        cause: FOUND,
    },
    Claim {
        place: "tao-spark",
        what: "fast % of SparkBench: more on Equilibria than on Linux",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
    Claim {
        place: "V-C, figure 7",
        what: "what its upper bound costs SparkBench",
        paper: Published::NotAbove(0.3),
        unit: " %",
        cause: "",
    },
];
