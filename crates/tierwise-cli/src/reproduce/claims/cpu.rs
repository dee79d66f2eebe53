//! CPU time of policies: Memstrata, section 6.1, and MTAT, section 5.5. It is measured as the CPU
//! time of one thread, which another load of the machine hardly changes.

use super::{Claim, Published};

/// Section 6.1.
pub const MEMSTRATA: &[Claim] = &[Claim {
    place: "section 6.1",
    what: "Memstrata's CPU, of a core (here its decisions; reading counters is not simulated)",
    paper: Published::NotAbove(4.0),
    unit: " %",
    cause: "",
}];

/// Section 5.5.
pub const MTAT: &[Claim] = &[Claim {
    place: "section 5.5",
    what: "CPU of the policy maker and of sampling, of a core",
    paper: Published::NotAbove(7.0),
    unit: " %",
    cause: "",
}];
