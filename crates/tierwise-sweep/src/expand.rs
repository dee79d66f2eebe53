//! Makes units of what a plan lists, and refuses what cannot run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tierwise_core::config::{ConfigError, nearest};
use tierwise_core::learn::{Learning, Null};
use tierwise_core::recipe::Recipe;
use tierwise_core::registry::BuildContext;
use tierwise_core::topology::Topology;
use tierwise_core::units::Bytes;
use tierwise_sim::scenario::Scenario;
use toml::{Table, Value};

use crate::files;
use crate::plan::MAX_UNITS;
use crate::setting::{Parameters, SCENARIO, set};
use crate::spot::{Spot, SweepFile};
use crate::unit::{SourceText, Unit, UnitRunner, base_of};

/// The tables of a recipe that have parameters.
const STAGES: [&str; 5] = ["estimator", "partitioner", "selector", "placement", "policy"];

/// Parameters, with the places where the plan sets them.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanSetting {
    values: Parameters,
    places: BTreeMap<String, (usize, String)>,
}

impl PlanSetting {
    /// The setting with one more parameter.
    ///
    /// # Errors
    /// The path is set already, or leads neither into a recipe nor into a scenario.
    pub(crate) fn with(&self, spot: &Spot<'_>, value: Value) -> Result<Self, String> {
        let first = spot.path.split('.').next().unwrap_or_default();
        if !STAGES.contains(&first) && !spot.path.starts_with(SCENARIO) {
            let near = nearest(first, STAGES.into_iter().chain(["scenario"]));
            let advice = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
            let stages = STAGES.join(", ");
            return Err(format!(
                "unknown table \"{first}\"{advice} (allowed: a recipe's {stages}, or scenario)"
            ));
        }
        if self.values.contains_key(&spot.path) {
            return Err("is set by [[list]] and by [grid]; keep one".to_owned());
        }
        let mut new = self.clone();
        new.values.insert(spot.path.clone(), value);
        new.places.insert(spot.path.clone(), (spot.offset, spot.key.clone()));
        Ok(new)
    }

    fn of_scenario(&self) -> Parameters {
        let all = self.values.iter();
        let within = all.filter_map(|(path, v)| Some((path.strip_prefix(SCENARIO)?, v)));
        within.map(|(path, value)| (path.to_owned(), value.clone())).collect()
    }

    fn of_recipe(&self) -> Parameters {
        let all = self.values.iter().filter(|(path, _)| !path.starts_with(SCENARIO));
        all.map(|(path, value)| (path.clone(), value.clone())).collect()
    }

    /// Puts an error in a changed text at the parameter that caused it, if one did.
    fn blame(&self, at: SweepFile<'_>, error: &ConfigError, prefix: &str) -> ConfigError {
        let path = format!("{prefix}{}", error.key);
        // A workload's key has its number, a parameter's its name; the key's last part is the same.
        let last = path.rsplit('.').next();
        let place = self.places.get(&path).or_else(|| {
            let mut places = self.places.iter();
            let of = |p: &str| p.starts_with(SCENARIO) != prefix.is_empty();
            let named = |p: &str| of(p) && p.rsplit('.').next() == last;
            places.find(|(p, _)| named(p)).map(|(_, place)| place)
        });
        match place {
            Some((offset, key)) => at.error(*offset, key, &error.problem),
            None => error.clone(),
        }
    }
}

/// What a plan lists, each with its place in the file.
#[derive(Debug)]
pub(crate) struct Sources {
    pub scenarios: Vec<(usize, PathBuf)>,
    pub recipes: Vec<(usize, String)>,
    pub settings: Vec<PlanSetting>,
    pub seeds: Vec<u64>,
}

/// Makes the units.
///
/// # Errors
/// The first mistake, with file, line and key.
pub(crate) fn expand(
    at: SweepFile<'_>,
    sources: &Sources,
    base: &Path,
) -> Result<Vec<Unit>, ConfigError> {
    let lengths = [sources.scenarios.len(), sources.recipes.len(), sources.settings.len()];
    let count = lengths.iter().fold(sources.seeds.len(), |all, one| all.saturating_mul(*one));
    if count > MAX_UNITS {
        let problem = format!("found a plan of {count} units; allowed: at most {MAX_UNITS}");
        return Err(at.error(0, "", problem));
    }
    let recipes = recipes(at, sources, base)?;
    let mut expansion = Expansion { at, recipes: HashMap::new(), units: Vec::new() };
    for (offset, path) in &sources.scenarios {
        let text = files::text(path).map_err(|why| at.error(*offset, "scenarios", why))?;
        for setting in &sources.settings {
            let (of, topology, name) = scenario(at, path, &text, setting)?;
            for recipe in &recipes {
                let recipe = expansion.recipe(recipe, setting, &topology)?;
                let seeds = sources.seeds.iter();
                let new = seeds.map(|&seed| unit(&of, &name, &recipe, seed, setting));
                expansion.units.extend(new);
            }
        }
    }
    keyed(at, expansion.units)
}

fn unit(
    scenario: &SourceText,
    name: &str,
    recipe: &(String, SourceText),
    seed: u64,
    setting: &PlanSetting,
) -> Unit {
    Unit {
        key: String::new(),
        scenario_name: name.to_owned(),
        recipe_name: recipe.0.clone(),
        seed,
        parameters: setting.values.clone(),
        scenario: scenario.clone(),
        recipe: recipe.1.clone(),
    }
}

/// Gives every unit its key, and drops the second of two that are the same.
fn keyed(at: SweepFile<'_>, units: Vec<Unit>) -> Result<Vec<Unit>, ConfigError> {
    let runner = UnitRunner::default();
    let mut seen = HashSet::new();
    let mut kept = Vec::with_capacity(units.len());
    for mut unit in units {
        unit.key = runner.key(&unit).map_err(|why| at.error(0, "", why))?;
        if seen.insert((unit.key.clone(), unit.words())) {
            kept.push(unit);
        }
    }
    Ok(kept)
}

fn recipes(
    at: SweepFile<'_>,
    sources: &Sources,
    base: &Path,
) -> Result<Vec<SourceText>, ConfigError> {
    let mut recipes = Vec::new();
    for (offset, name) in &sources.recipes {
        let text = if name.ends_with(".toml") {
            files::text(&base.join(name))
        } else {
            Recipe::named(name).map(|r| r.text().to_owned()).map_err(|e| e.problem)
        };
        let text = text.map_err(|why| at.error(*offset, "recipes", why))?;
        recipes.push(SourceText { file: name.clone(), base: PathBuf::new(), text });
    }
    Ok(recipes)
}

/// A scenario with a setting, its topology, and its name.
fn scenario(
    at: SweepFile<'_>,
    path: &Path,
    text: &str,
    setting: &PlanSetting,
) -> Result<(SourceText, Topology, String), ConfigError> {
    let (file, base) = (path.to_string_lossy().into_owned(), base_of(path));
    // Only the lines of the unchanged file are the user's.
    let mut scenario = Scenario::parse(&file, text, &base)?;
    let changes = setting.of_scenario();
    let mut text = text.to_owned();
    if !changes.is_empty() {
        text = changed(&text, changes).map_err(|(path, why)| {
            let place = setting.places.get(&format!("{SCENARIO}{path}"));
            let (offset, key) = place.cloned().unwrap_or_default();
            at.error(offset, &key, why)
        })?;
        scenario = Scenario::parse(&file, &text, &base)
            .map_err(|error| setting.blame(at, &error, SCENARIO))?;
    }
    // Parameters are checked before any work starts; this does not need the tiers' final sizes.
    let topology = scenario.resolve(Bytes(1 << 30)).topology();
    Ok((SourceText { file, base, text }, topology, scenario.name))
}

/// The text with values set. The error has the path that does not fit.
fn changed(text: &str, values: Parameters) -> Result<String, (String, String)> {
    let mut table: Table = text.parse().map_err(|e| (String::new(), format!("{e}")))?;
    for (path, value) in values {
        set(&mut table, &path, value).map_err(|why| (path, why))?;
    }
    toml::to_string(&table).map_err(|error| (String::new(), error.to_string()))
}

struct Expansion<'a> {
    at: SweepFile<'a>,
    /// Recipes with their settings that were checked, by their texts.
    recipes: HashMap<(String, String), (String, SourceText)>,
    units: Vec<Unit>,
}

impl Expansion<'_> {
    /// A recipe's name and its text with a setting, checked on a machine once.
    fn recipe(
        &mut self,
        recipe: &SourceText,
        setting: &PlanSetting,
        topology: &Topology,
    ) -> Result<(String, SourceText), ConfigError> {
        let values = setting.of_recipe();
        let known = (recipe.file.clone(), format!("{values:?}"));
        if let Some(found) = self.recipes.get(&known) {
            return Ok(found.clone());
        }
        let mut text = recipe.text.clone();
        if !values.is_empty() {
            text = changed(&text, values).map_err(|(path, why)| {
                let (offset, key) = setting.places.get(&path).cloned().unwrap_or_default();
                self.at.error(offset, &key, why)
            })?;
        }
        let built = Recipe::parse(&recipe.file, &text).and_then(|recipe| {
            let learning: Arc<dyn Learning> = Arc::new(Null);
            let ctx = BuildContext { topology, seed: 0, learning: Some(&learning) };
            recipe.build(&ctx).map(|_| recipe.name().to_owned())
        });
        let name = built.map_err(|error| setting.blame(self.at, &error, ""))?;
        let found = (name, SourceText { text, ..recipe.clone() });
        self.recipes.insert(known, found.clone());
        Ok(found)
    }
}
