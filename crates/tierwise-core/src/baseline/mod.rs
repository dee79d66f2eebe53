//! Whole policies: kernel baselines that do not fit stages. One file per policy, one row in
//! [`TABLE`].

mod autonuma;
mod autotiering_cpm;
mod autotiering_opm;
mod emt;
mod fault_tiering;
pub(crate) mod hot_threshold;
mod kernel_tiering;
mod kswapd;
mod numa_scan;
#[cfg(test)]
pub(crate) mod testing;
mod tpp;

use autonuma::AutoNuma;
use autotiering_cpm::AutoTieringCpm;
use autotiering_opm::AutoTieringOpm;
use emt::Emt;
use kernel_tiering::KernelTiering;
use tpp::Tpp;

use crate::policy::Policy;
use crate::registry::StageRow;

/// Every whole policy by its name in recipes.
pub const TABLE: &[StageRow<dyn Policy>] = &[
    StageRow {
        name: "autonuma",
        summary: "hint faults on slow pages; an early touch means a hot page; kswapd demotes",
        build: |section, ctx| Ok(Box::new(AutoNuma::build(section, ctx)?)),
    },
    StageRow {
        name: "autotiering-cpm",
        summary: "hint faults on all pages; promotes to the best tier that fits; never demotes",
        build: |section, ctx| Ok(Box::new(AutoTieringCpm::build(section, ctx)?)),
    },
    StageRow {
        name: "autotiering-opm",
        summary: "hint faults on all pages; demotes the least accessed to make room",
        build: |section, ctx| Ok(Box::new(AutoTieringOpm::build(section, ctx)?)),
    },
    StageRow {
        name: "emt",
        summary: "sums up the hotness of a page's objects; demotes cold pages for hot slow ones",
        build: |section, ctx| Ok(Box::new(Emt::build(section, ctx)?)),
    },
    StageRow {
        name: "kernel-tiering",
        summary: "the kernel's memory tiering by its code: each fault checks free memory, kswapd \
                  demotes by the multi-gen LRU",
        build: |section, ctx| Ok(Box::new(KernelTiering::build(section, ctx)?)),
    },
    StageRow {
        name: "tpp",
        summary: "hint faults on slow pages; promotes active ones; demotes ahead of need",
        build: |section, ctx| Ok(Box::new(Tpp::build(section, ctx)?)),
    },
];
