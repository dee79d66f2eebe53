//! Reads scenarios and recipes, with what Python changes in them.

use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use pyo3::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_sim::scenario::Scenario;
use tierwise_sweep::set;
use tierwise_trace::pipe;
use toml::{Table, Value};

use crate::error::{refuse, unreadable};

/// The changes to a scenario file before it is read.
#[derive(Debug, Default)]
pub(crate) struct ScenarioChanges<'a> {
    /// A JSON object: keys are paths such as `machine.fast` or `workload.redis.weight` (a workload
    /// by its name), with the new values.
    pub overrides: Option<&'a str>,
    /// The load of every service, in shares of its maximum.
    pub load: Option<f64>,
}

/// A scenario file, changed.
///
/// # Errors
/// `FileNotFoundError`, or an error in the file or a change.
pub(crate) fn scenario(path: &Path, changes: &ScenarioChanges<'_>) -> PyResult<Scenario> {
    scenario_of(path, &text(path)?, changes)
}

/// A scenario whose text the caller has, changed. Paths in it start at the path's directory.
///
/// # Errors
/// An error in the text or a change.
pub(crate) fn scenario_of(
    path: &Path,
    text: &str,
    changes: &ScenarioChanges<'_>,
) -> PyResult<Scenario> {
    let base = path.parent().unwrap_or(Path::new("."));
    let file = path.to_string_lossy();
    // The unchanged file is parsed first, because only its lines are the user's.
    let scenario = Scenario::parse(&file, text, base).map_err(refuse)?;
    if changes.overrides.is_none() && changes.load.is_none() {
        return Ok(scenario);
    }
    let changed = changed(&file, text, changes).map_err(refuse)?;
    Scenario::parse(&format!("{file} with overrides"), &changed, base).map_err(refuse)
}

/// A recipe: a file if the name ends in `.toml`, or one that ships.
///
/// # Errors
/// `FileNotFoundError`, an error in the file, or an unknown name.
pub(crate) fn recipe(name: &str) -> PyResult<Recipe> {
    if name.ends_with(".toml") {
        return Recipe::parse(name, &text(Path::new(name))?).map_err(refuse);
    }
    Recipe::named(name).map_err(|error| refuse(error.problem))
}

/// Size limit of a scenario or recipe in bytes, as in the `tierwise` command: a device may have no
/// end.
const MAX_TEXT: u64 = 4 << 20;

fn text(path: &Path) -> PyResult<String> {
    let mut text = String::new();
    let read = pipe::open(path).and_then(|file| file.take(MAX_TEXT).read_to_string(&mut text));
    read.map_err(|error| unreadable(path, &error))?;
    if text.len() as u64 == MAX_TEXT {
        return Err(refuse(format!("{}: it is larger than 4 MiB", path.display())));
    }
    Ok(text)
}

/// A time in seconds of virtual time.
///
/// # Errors
/// It is not within the allowed ones.
pub(crate) fn seconds(
    name: &str,
    seconds: f64,
    allowed: RangeInclusive<f64>,
) -> PyResult<Duration> {
    if allowed.contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    let (least, most) = allowed.into_inner();
    Err(refuse(format!("{name}: found {seconds}; allowed: {least} to {most} seconds")))
}

fn changed(file: &str, text: &str, changes: &ScenarioChanges<'_>) -> Result<String, String> {
    let mut root: Table = text.parse().map_err(|error| format!("{file}: {error}"))?;
    let overrides = changes.overrides.unwrap_or("{}");
    let overrides: Table = serde_json::from_str(overrides).map_err(|error| {
        format!("overrides: {error}; allowed: text, numbers, true and false, lists")
    })?;
    for (path, value) in overrides {
        set(&mut root, &path, value).map_err(|why| format!("overrides: \"{path}\": {why}"))?;
    }
    if let Some(load) = changes.load {
        for service in workloads(&mut root).filter_map(|w| w.get_mut("service")?.as_table_mut()) {
            service.insert("load".to_owned(), Value::Float(load));
        }
    }
    toml::to_string(&root).map_err(|error| format!("{file}: {error}"))
}

fn workloads(root: &mut Table) -> impl Iterator<Item = &mut Table> {
    let all = root.get_mut("workload").and_then(Value::as_array_mut);
    all.into_iter().flatten().filter_map(Value::as_table_mut)
}

/// TOML text of a JSON object.
#[pyfunction]
pub(crate) fn to_toml(json: &str) -> PyResult<String> {
    let table: Table = serde_json::from_str(json)
        .map_err(|error| refuse(format!("{error}; allowed: what TOML can hold, so no None")))?;
    toml::to_string(&table).map_err(refuse)
}
