//! Tierwise's engine: decides which pages are in which memory tier.
//!
//! The core is pure: no I/O, no clock, no thread, no unseeded randomness. A world (a simulated
//! machine or this Linux host) reports an [`observe::Observation`]. The [`engine::Engine`] answers
//! with a [`migrate::MigrationPlan`]. The world applies it and reports the outcome of each move.
//!
//! ```text
//! observe -> estimate -> partition -> select -> migrate -> (outcomes return to the policy)
//! ```
//!
//! A policy is a recipe of stages ([`stage::Staged`]) or a whole policy ([`policy::Policy`]). To
//! add an algorithm, write its file and its row in a table.

#![warn(unreachable_pub)]

pub mod baseline;
pub mod bits;
pub mod colour;
pub mod config;
pub mod engine;
pub mod estimate;
pub mod learn;
pub mod lists;
pub mod lru;
pub mod metrics;
pub mod migrate;
pub mod observe;
pub mod page;
pub mod partition;
pub mod pfra;
pub mod policy;
pub mod profile;
pub mod recipe;
pub mod registry;
pub mod select;
pub mod share;
pub mod stage;
pub mod steer;
pub mod tenant;
mod ticker;
pub mod topology;
pub mod units;
pub mod world;
