//! Partitioners: the share of each tenant in each tier. One file per algorithm, one row in
//! [`TABLE`].

mod curve;
mod dedicated;
mod equilibria;
mod floors;
mod karma;
mod managed;
mod memstrata;
mod mtat;
mod need;
mod none;
mod profit;
mod speed;
mod thrash;
mod tierwise;

pub use dedicated::DedicatedTenant;
pub use equilibria::{Equilibria, promotion_rate};
pub use karma::{Ask, Karma, share_by_credits};
pub use managed::HardwareManaged;
pub use memstrata::{Memstrata, lend};
pub use mtat::{Mtat, largest_step, reward};
pub use need::{ServiceNeed, ServiceReading};
pub use none::NoPartitioner;
pub use profit::{WORSE, pays};
pub use thrash::ThrashTable;
pub use tierwise::Tierwise;

use crate::registry::StageRow;
use crate::stage::Partitioner;

/// Every partitioner by its name in recipes.
pub const TABLE: &[StageRow<dyn Partitioner>] = &[
    StageRow {
        name: "equilibria",
        summary: "a floor and a cap each; promotion slowed down above the floor and for thrashing",
        build: |section, _| Ok(Box::new(Equilibria::build(section)?)),
    },
    StageRow {
        name: "karma",
        summary: "dedicated memory lent to outliers for credits that lenders earn",
        build: |section, ctx| Ok(Box::new(Karma::build(section, ctx)?)),
    },
    StageRow {
        name: "managed",
        summary: "no shares, on a machine whose CPU manages a tier",
        build: |section, _| Ok(Box::new(HardwareManaged::build(section)?)),
    },
    StageRow {
        name: "memstrata",
        summary: "dedicated memory lent to outliers, a tenth at a time, by those that miss least",
        build: |section, ctx| Ok(Box::new(Memstrata::build(section, ctx)?)),
    },
    StageRow {
        name: "mtat",
        summary: "an agent for each latency-critical tenant; annealing over profiles for the \
                  others",
        build: |section, ctx| Ok(Box::new(Mtat::build(section, ctx)?)),
    },
    StageRow {
        name: "none",
        summary: "no shares: tenants compete page by page",
        build: |_, _| Ok(Box::new(NoPartitioner)),
    },
    StageRow {
        name: "tierwise",
        summary: "floors, then the learned needs of SLOs, then the tenants that memory helps most",
        build: |section, _| Ok(Box::new(Tierwise::build(section)?)),
    },
];
