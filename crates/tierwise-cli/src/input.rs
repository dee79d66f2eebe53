//! Reading scenario and recipe files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tierwise_core::learn::{Learning, Null};
use tierwise_core::observe::Watch;
use tierwise_core::recipe::{BuildContext, Recipe};
use tierwise_core::topology::Topology;
use tierwise_core::units::Bytes;
use tierwise_sim::machine::Machine;
use tierwise_sim::scenario::Scenario;

use crate::failure::Failure;

/// Reads a scenario file. Its traces are not opened.
pub fn scenario(path: &Path) -> Result<Scenario, Failure> {
    let base = path.parent().unwrap_or(Path::new("."));
    Ok(Scenario::parse(&path.to_string_lossy(), &text(path)?, base)?)
}

/// Reads a recipe file, and checks that a policy can be made of it on this machine.
pub fn recipe(path: &Path, machine: &Scenario) -> Result<Recipe, Failure> {
    // Parameters are checked before any work is done; that tiers have their final sizes is not needed.
    recipe_on(path, &machine.resolve(Bytes(1 << 30)))
}

/// As [`recipe`], on a machine whose sizes are known.
pub fn recipe_on(path: &Path, machine: &Machine) -> Result<Recipe, Failure> {
    let recipe = Recipe::parse(&path.to_string_lossy(), &text(path)?)?;
    let topology = machine.topology();
    watch(&recipe, &topology)?;
    Ok(recipe)
}

/// What a recipe's policy needs to see on a machine. Recipes that learn are made with a learner that does not: what
/// they watch is the same.
pub fn watch(recipe: &Recipe, topology: &Topology) -> Result<Watch, Failure> {
    let learning: Arc<dyn Learning> = Arc::new(Null);
    let ctx = BuildContext { topology, seed: 0, learning: Some(&learning) };
    Ok(recipe.build(&ctx)?.watch())
}

/// A policy that Tierwise ships.
pub fn policy(name: &str) -> Result<Recipe, Failure> {
    // There is no file whose line could be named.
    Recipe::named(name).map_err(|error| Failure::User(error.problem))
}

/// A policy that Tierwise ships and that runs: no bound.
pub fn policy_that_runs(name: &str) -> Result<Recipe, Failure> {
    let recipe = policy(name)?;
    match recipe.bound() {
        None => Ok(recipe),
        Some(_) => Err(Failure::User(format!(
            "\"{name}\" is a bound, not a policy that a program could run under; `tierwise policies` \
             lists policies"
        ))),
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    let refuse = |error| Failure::User(format!("{}: {error}", path.display()));
    let bytes = fs::read(path).map_err(refuse)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::User(format!("{}: not UTF-8 text at byte {at}", path.display()))
    })
}
