//! The estimator of the program that runs the engine. The Python package supplies one that calls a
//! function of arrays; no algorithm of a publication is here.

use crate::config::{ConfigError, Section};
use crate::registry::BuildContext;
use crate::stage::Estimator;

/// Takes the program's estimator. It has no parameters in the recipe.
///
/// # Errors
/// The program supplies none.
pub(super) fn build(
    section: &Section<'_>,
    ctx: &BuildContext<'_>,
) -> Result<Box<dyn Estimator>, ConfigError> {
    let refuse = |why: &str| section.error("algorithm", why);
    let learning = ctx.learning.ok_or_else(|| refuse("this program supplies no estimator"))?;
    learning.estimator().map_err(|why| refuse(&why))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use crate::recipe::Recipe;
    use crate::registry::BuildContext;
    use crate::topology::Topology;
    use crate::units::Bytes;

    #[test]
    fn program_without_estimator_is_refused() {
        let text = "name = \"x\"\nsummary = \"x\"\nsource = \"x\"\n[estimator]\n\
                    algorithm = \"external\"\n";
        let topology = Topology { page_size: Bytes(4096), tiers: Vec::new() };
        let recipe = Recipe::parse("x.toml", text).unwrap();
        let error = recipe.build(&BuildContext::new(&topology, 1)).map(|_| ()).unwrap_err();
        let why = "x.toml:5: estimator.algorithm: this program supplies no estimator";
        assert_eq!(error.to_string(), why);
    }
}
