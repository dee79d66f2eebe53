//! MULTI-CLOCK: sections V-C to V-E. Gains are in per cent.

use super::{Claim, Published};

/// The gain of multi-clock over another system, smallest and greatest of a figure's programs.
const fn gain(
    place: &'static str,
    what: &'static str,
    least: f64,
    most: f64,
    cause: &'static str,
) -> Claim {
    Claim { place, what, paper: Published::Range(least, most), unit: " %", cause }
}

const SMALL: &str = "these recordings reach memory two or three times in a thousand instructions \
                     and spread over the whole footprint: even the oracle gains little more than \
                     a fifth over static (`tierwise compare scenarios/recorded/*.toml`)";
const SCANS: &str = "NUMA balancing scans all of these small programs every second. With \
                     `scan_period_min_ms = 20000` AutoTiering-OPM's slowdown on D goes from 1.094 \
                     to 1.271, beside MULTI-CLOCK's 1.259";
const GRAPHS: &str = "the same scan period: on betweenness (Kronecker) it takes AutoTiering-OPM \
                      from 1.126 to 1.491, beside MULTI-CLOCK's 1.450";

const COVERED: &str = "a scan reads 1,024 pages of a list in a second, and these lists have tens \
                       of thousands: what a trial allocates is cold again before it is found. With \
                       `scan_pages = 16384`, so that each scan covers a list, it is 9.9 to 53.9 % \
                       below static, on PageRank (Kronecker) 47 instead of 0.7 %";
const COVERED_CPM: &str = "the same scan: with `scan_pages = 16384` it is 11.9 to 55.7 % below \
                           AutoTiering-CPM";
const TWENTIETH: &str = "two figures do not shrink with the programs: the scan, as above, and the \
                         1,024 pages that Nimble exchanges at each scan, a twentieth of this fast \
                         memory. With `scan_pages = 16384` for both and `pages = 256` for Nimble \
                         it is 0.8 to 19.9 %. Not the copies: free ones leave Nimble as slow";
const COVERED_CACHE: &str = "the same scan: on D and on PageRank it takes longer to find the hot \
                             pages than they are hot. With `scan_pages = 16384` it is -1.6 to \
                             6.4 %, PageRank 3.6 %";

/// Figure 5, in the order of the systems.
pub const YCSB: &[Claim] = &[
    gain("figure 5", "throughput over static, YCSB", 20.0, 132.0, SMALL),
    gain("figure 5", "throughput over Nimble, YCSB", 9.0, 36.0, SMALL),
    gain("figure 5", "throughput over AutoTiering-CPM, YCSB", 260.0, 677.0, SMALL),
    gain("figure 5", "throughput over AutoTiering-OPM, YCSB", 10.0, 352.0, SCANS),
];

/// Figure 6.
pub const GRAPH_KERNELS: &[Claim] = &[
    gain("figure 6", "execution time below static, GAP", 4.0, 68.0, COVERED),
    gain("figure 6", "execution time below Nimble, GAP", 1.0, 16.0, TWENTIETH),
    gain("figure 6", "execution time below AutoTiering-CPM, GAP", -3.0, 68.0, COVERED_CPM),
    gain("figure 6", "execution time below AutoTiering-OPM, GAP", 4.0, 62.0, GRAPHS),
];

/// Figure 7.
pub const MEMORY_MODE: &[Claim] = &[gain(
    "figure 7",
    "performance over memory-mode, YCSB and PageRank",
    -2.0,
    21.0,
    COVERED_CACHE,
)];

const MODULES: &str = "migrations fill two Optane modules here, as in section V-A: with the \
                       bandwidth of six (`[[machine.tier]]`, 39.4 GB/s read and 13.9 written) A \
                       has 1.03 of static instead of 0.97. Not the work of scans or copies: \
                       without either A has 0.96";

const FEWER: &str = "the same bandwidth: with that of six modules, one second is the best for A \
                     (1.026 of static; 5, 20 and 60 s: 0.999, 1.000 and 1.000)";

const TWO_GB: &str = "Nimble exchanges 2 GiB each way in a second here, which fill two modules: \
                      with the bandwidth of six, it is 37 % on A, 36 instead of 57 % on B, and 5.8 \
                      on D; with a quarter of the exchanges (`pages = 131072`) 11 % on B";

/// Figure 8 and sections II-A, III-A and V-C.1, on stores that no scan covers.
pub const PROMOTIONS: &[Claim] = &[
    Claim {
        place: "figure 8",
        what: "fewer promotions in a scan than Nimble's, on every store",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
    Claim {
        place: "section II-A",
        what: "a larger part of them accessed again than of Nimble's, on every store",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
    gain("section V-C", "throughput over static, large stores", 20.0, 132.0, MODULES),
    gain("section V-C", "throughput over Nimble, large stores", 9.0, 36.0, TWO_GB),
];

/// Section V-E.
pub const INTERVALS: &[Claim] = &[
    Claim {
        place: "section V-E",
        what: "the best scan interval on one CPU, A and D, in seconds",
        paper: Published::Numbers(&[1.0, 1.0]),
        unit: "",
        cause: FEWER,
    },
    Claim {
        place: "section III-B",
        what: "a shorter interval than the best has less throughput, on one CPU",
        paper: Published::Order,
        unit: "",
        cause: "",
    },
];
