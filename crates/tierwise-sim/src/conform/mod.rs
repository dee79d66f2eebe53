//! An isolation suite. It checks that a policy holds a tenant's floor against neighbours that take
//! memory.
//!
//! Each [`Adversary`] runs beside one or two well-behaved tenants (*victims*), whose floors in fast
//! memory are given in bytes, on one small machine. A floor is *held* if a victim never has less in
//! fast memory than its floor, or than all that it has resident if that is less, from [`GRACE`]
//! after its start. An adversary starts at another time in some cases, and then has no grace: no
//! policy may take protected memory away, not even for a short time.
//!
//! A victim uses all of its pages: it accesses each about once per second or more often, so it
//! needs at least its floor. An adversary's pages are hotter: a policy that ranks pages by hotness
//! alone gives them the victim's memory.
//!
//! ```no_run
//! use tierwise_core::recipe::Recipe;
//! use tierwise_sim::conform::{ADVERSARIES, AloneThroughput, conform};
//!
//! let recipe = Recipe::named("equilibria")?;
//! let alone = AloneThroughput::measure(&recipe, 1)?;
//! let verdicts = conform(&recipe, &ADVERSARIES[0], &alone, 1, &mut |_| ())?;
//! assert!(verdicts[0].held);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adversaries;
mod alone;
mod judge;
mod setting;

use std::time::Duration;

pub use adversaries::{ADVERSARIES, Adversary};
pub use alone::AloneThroughput;
pub use judge::{Verdict, conform};
pub use setting::{Setting, machine};

/// Time after a victim's start in which its floor may be out of reach: a policy with reference bits
/// scans once per second and promotes at the fourth scan (MULTI-CLOCK, figure 4), one with hint
/// faults at the second, and the pages in the way must be found cold before they leave. Ten seconds
/// are twice the slowest of these.
pub const GRACE: Duration = Duration::from_secs(10);

/// Interval of the usage checks: the simulator's longest step, so that nothing between two checks
/// is missed.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Length of a setting: the time of five passes of the slowest adversary beyond the grace.
pub const LENGTH: Duration = Duration::from_secs(60);
