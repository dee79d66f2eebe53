//! The plan of a sweep: a TOML file.
//!
//! ```toml
//! scenarios = ["scenarios/zipf.toml", "scenarios/recorded"]  # files, or directories of files
//! recipes = ["multi-clock", "my-recipe.toml"]                # names, or files
//! seeds = [1, 2, 3]                                          # or { from = 1, count = 100 }
//!
//! [grid]                                    # every combination of these
//! estimator.interval_ms = [250, 500, 1000]  # a recipe's key
//! scenario.machine.fast_share = [0.1, 0.25] # a scenario's key
//!
//! [[list]]                                  # with each of these together
//! estimator.scan_pages = 512
//! selector.algorithm = "promote-list"
//! ```
//!
//! Paths start at the plan's directory. A unit is a scenario, a recipe, a setting and a seed; units
//! are listed in this order, so that one scenario's follow each other.

use std::path::{Path, PathBuf};

use tierwise_core::config::{ConfigError, Document};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::expand::{PlanSetting, Sources, expand};
use crate::files;
use crate::spot::{Spot, SweepFile, elements, leaves, single, whole};
use crate::unit::Unit;

/// Units of a plan: more than a year of simulation, and a gigabyte of descriptions.
pub(crate) const MAX_UNITS: usize = 1_000_000;

/// A sweep's units.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPlan {
    /// The plan's file without directory and suffix.
    pub name: String,
    /// The units, scenario by scenario; no two have one key and one name.
    pub units: Vec<Unit>,
}

impl SweepPlan {
    /// Reads a plan, and the scenarios and recipes that it names.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let file = path.to_string_lossy();
        let text = files::text(path).map_err(|why| nowhere(&file, why))?;
        Self::parse(&file, &text, path.parent().unwrap_or(Path::new(".")))
    }

    /// Parses a plan whose paths start at `base`.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn parse(file: &str, text: &str, base: &Path) -> Result<Self, ConfigError> {
        // For the parser's errors in this project's words.
        Document::parse(file, text)?;
        let at = SweepFile { file, text };
        let table = DeTable::parse(text).map_err(|error| at.error(0, "", error.message()))?;
        let table = table.get_ref();
        at.only(table, &["scenarios", "recipes", "seeds", "grid", "list"])?;
        let sources = Sources {
            scenarios: paths(at, table, "scenarios", base)?,
            recipes: texts(at, table, "recipes")?,
            settings: settings(at, table)?,
            seeds: seeds(at, table)?,
        };
        let units = expand(at, &sources, base)?;
        let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, units })
    }
}

fn nowhere(file: &str, problem: String) -> ConfigError {
    ConfigError { file: file.to_owned(), line: 1, key: String::new(), problem }
}

/// A list of texts with their places.
fn texts(
    at: SweepFile<'_>,
    table: &DeTable<'_>,
    key: &str,
) -> Result<Vec<(usize, String)>, ConfigError> {
    let Some(list) = table.get(key) else {
        return Err(at.error(0, key, "missing; write a list of texts in quotes"));
    };
    let refuse = |offset| at.error(offset, key, "allowed: a list of one or more texts in quotes");
    let list = elements(list.get_ref()).ok_or_else(|| refuse(list.span().start))?;
    let text = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::String(text) => Ok((item.span().start, text.to_string())),
        _ => Err(refuse(item.span().start)),
    };
    list.iter().map(text).collect()
}

/// A list of files with their places; a directory stands for its TOML files, sorted.
fn paths(
    at: SweepFile<'_>,
    table: &DeTable<'_>,
    key: &str,
    base: &Path,
) -> Result<Vec<(usize, PathBuf)>, ConfigError> {
    let mut out = Vec::new();
    for (offset, text) in texts(at, table, key)? {
        let path = base.join(&text);
        if path.is_dir() {
            let inner = files::below(&path).map_err(|why| at.error(offset, key, why))?;
            out.extend(inner.into_iter().map(|path| (offset, path)));
        } else {
            out.push((offset, path));
        }
    }
    Ok(out)
}

fn seeds(at: SweepFile<'_>, table: &DeTable<'_>) -> Result<Vec<u64>, ConfigError> {
    let Some(value) = table.get("seeds") else { return Ok(vec![1]) };
    let refuse = || {
        let problem = "allowed: a list of whole numbers, or { from = 1, count = 100 } with a \
                       count from 1 to 1000000";
        at.error(value.span().start, "seeds", problem)
    };
    if let DeValue::Table(range) = value.get_ref() {
        at.only(range, &["from", "count"])?;
        let number = |key| range.get(key).and_then(|value| whole(value.get_ref()));
        let (Some(from), Some(count)) = (number("from"), number("count")) else {
            return Err(refuse());
        };
        let until = from.checked_add(count).ok_or_else(refuse)?;
        let allowed = (1..=MAX_UNITS as u64).contains(&count);
        return if allowed { Ok((from..until).collect()) } else { Err(refuse()) };
    }
    let list = elements(value.get_ref()).ok_or_else(refuse)?;
    list.iter().map(|item| whole(item.get_ref()).ok_or_else(refuse)).collect()
}

/// The settings: every entry of the list with every combination of the grid.
fn settings(at: SweepFile<'_>, table: &DeTable<'_>) -> Result<Vec<PlanSetting>, ConfigError> {
    let mut settings = listed(at, table)?;
    let Some(grid) = table.get("grid") else { return Ok(settings) };
    let DeValue::Table(grid) = grid.get_ref() else {
        return Err(at.error(grid.span().start, "grid", "allowed: a table, [grid]"));
    };
    let mut spots = Vec::new();
    leaves("grid", grid, &mut spots);
    for spot in &spots {
        let values = candidates(at, spot)?;
        if settings.len().saturating_mul(values.len()) > MAX_UNITS {
            let problem = format!("with this key there are more than {MAX_UNITS} settings");
            return Err(at.error(spot.offset, &spot.key, problem));
        }
        settings = settings
            .iter()
            .flat_map(|setting| values.iter().map(|value| setting.with(spot, value.clone())))
            .collect::<Result<_, _>>()
            .map_err(|problem: String| at.error(spot.offset, &spot.key, problem))?;
    }
    Ok(settings)
}

fn candidates(at: SweepFile<'_>, spot: &Spot<'_>) -> Result<Vec<toml::Value>, ConfigError> {
    let refuse = || {
        let problem = "allowed: a list of one or more numbers, texts, true or false: every value \
                       of a grid is tried";
        at.error(spot.offset, &spot.key, problem)
    };
    let list = elements(spot.value).ok_or_else(refuse)?;
    list.iter().map(|item| single(item.get_ref()).ok_or_else(refuse)).collect()
}

fn listed(at: SweepFile<'_>, table: &DeTable<'_>) -> Result<Vec<PlanSetting>, ConfigError> {
    let Some(list) = table.get("list") else { return Ok(vec![PlanSetting::default()]) };
    let refuse = |offset, key: &str, problem: &str| at.error(offset, key, problem);
    let allowed = "allowed: an array of tables, [[list]]";
    let entries = elements(list.get_ref());
    let entries = entries.ok_or_else(|| refuse(list.span().start, "list", allowed))?;
    let mut settings = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let name = format!("list[{i}]");
        let DeValue::Table(table) = entry.get_ref() else {
            return Err(refuse(entry.span().start, &name, allowed));
        };
        let mut spots = Vec::new();
        leaves(&name, table, &mut spots);
        let mut setting = PlanSetting::default();
        for spot in &spots {
            let allowed = "allowed: a number, a text, true or false: lists of values belong to \
                           [grid]";
            let value =
                single(spot.value).ok_or_else(|| refuse(spot.offset, &spot.key, allowed))?;
            setting = setting.with(spot, value).map_err(|p| refuse(spot.offset, &spot.key, &p))?;
        }
        settings.push(setting);
    }
    Ok(settings)
}
