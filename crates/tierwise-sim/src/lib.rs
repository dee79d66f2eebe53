//! A simulated host with tiered memory: the world in which a policy runs before the hardware
//! exists.
//!
//! A [`scenario::Scenario`] names a machine and workloads; [`run::Prepared`] opens them;
//! [`run::run`] drives one recipe over them in virtual time and returns the result. The same
//! scenario, recipe and seed give the same result, bit for bit.
//!
//! Every figure of the model has its source beside it: [`machine`] (tiers and load), [`costs`] (the
//! kernel's work), [`monitor`] (what software samples), [`bound`] (what no policy can beat).

#![warn(unreachable_pub)]

pub mod bound;
pub mod conform;
pub mod costs;
pub mod error;
pub mod granule;
pub mod hardware;
pub mod hash;
pub mod host;
pub mod huge;
pub mod machine;
pub mod memory;
pub mod monitor;
pub mod places;
pub mod record;
pub mod requests;
pub mod rescale;
pub mod result;
pub mod run;
pub mod scenario;
pub mod scenario_file;
pub mod service;
pub mod stats;
pub mod units;
pub mod windows;
pub mod workload;
