//! A latency-critical service that answers requests one by one.
//!
//! A workload of windows ([`crate::workload`]) runs as fast as its misses allow. A service does
//! not: its requests arrive independently of it, wait for a server, and are judged by the 99th
//! percentile of their response times. Near its maximum load a few nanoseconds more per miss make
//! its queue grow without limit. So the placement of its pages matters.
//!
//! | file | content |
//! |---|---|
//! | [`arrival`] | arrival times: Poisson, bursts, load curves |
//! | [`mix`] | the memory that a request touches; [`recorded`] from a trace, [`layout`] from a program's data structures |
//! | [`server`], [`queue`] | servers that take requests first come, first served |
//! | [`latency`] | percentiles and violations |
//! | [`tenant`] | a running service |
//! | [`tier`], [`watcher`] | the interface to the host: the costs of misses, the monitoring |
//! | [`calibrate`], [`presets`] | the four services of MTAT, with its figures |
//! | [`knee`] | latency by load of a placement, and its maximum load |

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
