//! Estimators: how hot is a page. One file an algorithm, one row in [`TABLE`].
mod none;
use crate::config::{ConfigError, Section};
use crate::recipe::{BuildContext, StageRow};
use crate::stage::Estimator;
pub use none::None;

/// Every estimateor by its name in recipes.
pub const TABLE: &[StageRow<dyn Estimator>] =
    &[StageRow { name: "none", summary: "nothing", build: none }];

fn none(_: &Section<'_>, _: &BuildContext<'_>) -> Result<Box<dyn Estimator>, ConfigError> {
    Ok(Box::new(None))
}
