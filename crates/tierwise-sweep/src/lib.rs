//! Sweeps: many simulations, each computed once.
//!
//! A [`Unit`] is one run: a scenario, a recipe, a seed and parameters. Its key is a hash of all
//! content on which the result depends, so a result serves every sweep that has the same unit, and
//! a sweep that was killed goes on where it stopped. A [`SweepPlan`] is a file that describes
//! units; a [`SweepStore`] is a directory that keeps results; [`rows`] writes them as Parquet.
//!
//! Who runs the units is the caller's choice: the `tierwise sweep` command has worker processes,
//! the Python package takes any executor. Both use this crate, so keys and files are the same.
//!
//! ```
//! use std::path::Path;
//! use tierwise_sweep::SweepPlan;
//!
//! let text = r#"
//! scenarios = ["zipf.toml"]
//! recipes = ["multi-clock"]
//! seeds = { from = 1, count = 3 }
//!
//! [grid]
//! estimator.interval_ms = [250, 1000]
//! scenario.machine.fast_share = [0.1, 0.25]
//! "#;
//! let plan = SweepPlan::parse("sweep.toml", text, Path::new("../../scenarios")).unwrap();
//! assert_eq!(plan.units.len(), 12);
//!
//! let misspelt = text.replace("interval_ms", "intervl_ms");
//! let error = SweepPlan::parse("sweep.toml", &misspelt, Path::new("../../scenarios"));
//! assert_eq!(
//!     error.unwrap_err().to_string(),
//!     "sweep.toml:7: grid.estimator.intervl_ms: unknown key; did you mean \"interval_ms\"?"
//! );
//! ```

#![warn(unreachable_pub)]

mod digest;
mod expand;
mod files;
mod plan;
mod record;
#[cfg(feature = "parquet")]
pub mod rows;
mod setting;
mod spot;
mod store;
mod unit;

pub use digest::UnitKeys;
pub use plan::SweepPlan;
pub use record::{UnitOutcome, UnitRecord};
pub use setting::{Parameters, set};
pub use store::{StoreError, SweepStore};
pub use unit::{SourceText, Unit, UnitRunner};

/// The engine whose results are kept: version, target and a hash of its sources.
pub const ENGINE: &str = env!("TIERWISE_ENGINE");
