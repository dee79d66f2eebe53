//! Selectors: which pages move. One file an algorithm, one row in [`TABLE`].
mod none;
use crate::config::{ConfigError, Section};
use crate::recipe::{BuildContext, StageRow};
use crate::stage::Selector;
pub use none::None;

/// Every selector by its name in recipes.
pub const TABLE: &[StageRow<dyn Selector>] =
    &[StageRow { name: "none", summary: "nothing", build: none }];

fn none(_: &Section<'_>, _: &BuildContext<'_>) -> Result<Box<dyn Selector>, ConfigError> {
    Ok(Box::new(None))
}
