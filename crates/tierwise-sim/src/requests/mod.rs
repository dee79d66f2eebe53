//! A latency-critical service that answers requests one by one.
//!
//! A workload of windows ([`crate::workload`]) goes as fast as its misses let it. A service does
//! not: its requests come when they come, wait for a server, and are judged by how long they took,
//! at the 99th percentile. Near its maximum load a few nanoseconds more a miss make its queue grow
//! without limit, which is why the placement of its pages matters.
//!
//! | file | what it holds |
//! |---|---|
//! | [`arrival`] | when requests arrive: Poisson, bursts, load curves |
//! | [`mix`] | what a request touches; [`recorded`] from a trace, [`layout`] from a program's data
//! structures |
//! | [`server`], [`queue`] | first come, first served |
//! | [`latency`] | percentiles and violations |
//! | [`tenant`] | the service that runs |
//! | [`tier`], [`watcher`] | the edge to the host: what a miss costs, who watches |
//! | [`calibrate`], [`presets`] | the four services of MTAT, with its figures |
//! | [`knee`] | latency over load of a placement, and the max load that it bears |

pub mod alias;
pub mod arrival;
pub mod calibrate;
pub mod error;
pub mod knee;
pub mod latency;
pub mod layout;
pub mod mix;
pub mod presets;
pub mod queue;
pub mod recorded;
pub mod server;
pub mod skew;
pub mod spec;
pub mod tenant;
pub mod tier;
pub mod watcher;
