//! Selectors: the choice of the pages that move. One file per algorithm, one row per name in
//! [`TABLE`].

mod kswapd;
mod lru;
mod none;
mod pairs;
mod pass;
mod payoff;
mod regulated;
mod slices;
mod threshold;

pub use lru::LruSelector;
pub use none::NoSelector;
pub use pairs::Pairs;
pub use pass::FreePages;
pub use regulated::demotion_scan;
pub use slices::{Change, Slices, plan_slice};
pub use threshold::Threshold;

use crate::registry::StageRow;
use crate::stage::Selector;

/// Every selector by its name in recipes.
pub const TABLE: &[StageRow<dyn Selector>] = &[
    StageRow {
        name: "exchange",
        summary: "a fixed number of the most recent lower pages against the oldest upper ones",
        build: |section, _| Ok(Box::new(LruSelector::exchange(section)?)),
    },
    StageRow {
        name: "none",
        summary: "pages stay where they were first touched",
        build: |_, _| Ok(Box::new(NoSelector)),
    },
    StageRow {
        name: "pairs",
        summary: "dedicated pages of lenders against managed pages of borrowers, all of a colour \
                  together",
        build: |section, ctx| Ok(Box::new(Pairs::build(section, ctx)?)),
    },
    StageRow {
        name: "promote-list",
        summary: "all pages of the promote lists; demotion under pressure and to make room",
        build: |section, _| Ok(Box::new(LruSelector::promote_list(section)?)),
    },
    StageRow {
        name: "slices",
        summary: "changes of partitions in slices of time; in each partition the hottest pages \
                  stay",
        build: |section, ctx| Ok(Box::new(Slices::build(section, ctx)?)),
    },
    StageRow {
        name: "threshold",
        summary: "promotes hot pages to the fastest tier, demotes cold ones to keep headroom in it",
        build: |section, _| Ok(Box::new(Threshold::build(section)?)),
    },
];
