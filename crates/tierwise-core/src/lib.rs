//! Tierwise's engine: decides whose pages live in which memory tier.
//!
//! The core is pure: no I/O, no clock, no thread, no unseeded randomness. A world (a simulated
//! machine or this Linux host) reports an [`observe::Observation`]; the [`engine::Engine`] answers
//! with a [`migrate::MigrationPlan`]; the world carries it out and reports what came of each move.
//!
//! ```text
//! observe -> estimate -> partition -> select -> migrate -> (outcomes come back as observations)
//! ```
//!
//! A policy is a recipe of stages ([`stage::Staged`]) or a whole of its own ([`policy::Policy`]);
//! the tables of both are in [`recipe`]. To add an algorithm, write its file and its row.

#![warn(unreachable_pub)]

mod baseline;
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
pub mod tenant;
mod ticker;
pub mod topology;
pub mod units;
pub mod world;
