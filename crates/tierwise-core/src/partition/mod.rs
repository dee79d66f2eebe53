//! Partitioners: who gets how much of each tier. One file an algorithm, one row in [`TABLE`].

mod none;

pub use none::None;

use crate::config::{ConfigError, Section};
use crate::recipe::{BuildContext, StageRow};
use crate::stage::Partitioner;

/// Every partitioner by its name in recipes.
pub const TABLE: &[StageRow<dyn Partitioner>] =
    &[StageRow { name: "none", summary: "no shares: tenants compete page by page", build: none }];

fn none(_: &Section<'_>, _: &BuildContext<'_>) -> Result<Box<dyn Partitioner>, ConfigError> {
    Ok(Box::new(None))
}
