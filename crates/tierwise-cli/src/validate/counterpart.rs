//! The simulator's counterparts of the policies that the lab's guests run.

use std::collections::BTreeMap;

use tierwise_core::recipe::Recipe;

use super::record::GuestRun;
use crate::failure::Failure;

/// A policy of the guests and the recipe that simulates it.
struct Row {
    policy: &'static str,
    recipe: &'static str,
    /// True if it places pages, as the kernel does; otherwise it places the daemon's blocks.
    by_page: bool,
}

const TABLE: [Row; 6] = [
    Row { policy: "first-touch", recipe: "static", by_page: true },
    Row { policy: "kernel-tiering", recipe: "autonuma", by_page: true },
    Row { policy: "kernel-default", recipe: "autonuma", by_page: true },
    Row { policy: "multi-clock", recipe: "multi-clock", by_page: false },
    Row { policy: "memtis", recipe: "memtis", by_page: false },
    Row { policy: "tierwise-engine", recipe: "tierwise", by_page: false },
];

/// A recipe, ready to be simulated.
#[derive(Debug)]
pub struct Counterpart {
    pub recipe: Recipe,
    pub by_page: bool,
}

/// Returns the counterpart of a run's policy; `None` if the simulator has none.
pub fn of(run: &GuestRun) -> Result<Option<Counterpart>, Failure> {
    let Some(row) = TABLE.iter().find(|row| row.policy == run.policy) else { return Ok(None) };
    let shipped = Recipe::named(row.recipe)?;
    let text = with_settings(shipped.text(), &run.settings);
    let recipe = Recipe::parse(&format!("{} ({})", run.policy, row.recipe), &text)?;
    Ok(Some(Counterpart { recipe, by_page: row.by_page }))
}

/// Returns a recipe's text with other values of some keys of its last table.
fn with_settings(text: &str, settings: &BTreeMap<String, u64>) -> String {
    let is_set = |line: &&str| {
        let key = line.split('=').next().unwrap_or("").trim();
        !settings.contains_key(key)
    };
    let mut lines: Vec<String> = text.lines().filter(is_set).map(str::to_owned).collect();
    lines.extend(settings.iter().map(|(key, value)| format!("{key} = {value}")));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use tierwise_core::registry::BuildContext;
    use tierwise_core::topology::Topology;
    use tierwise_core::units::Bytes;

    use super::*;

    #[test]
    fn every_counterpart_is_a_shipped_recipe() {
        for row in &TABLE {
            assert!(Recipe::named(row.recipe).is_ok(), "{}", row.recipe);
        }
    }

    #[test]
    fn settings_replace_a_recipes_keys() {
        let settings = BTreeMap::from([("scan_period_min_ms".to_owned(), 100)]);
        let text = with_settings(Recipe::named("autonuma").unwrap().text(), &settings);
        assert_eq!(text.matches("scan_period_min_ms").count(), 1);
        let recipe = Recipe::parse("r.toml", &text).unwrap();
        let topology = Topology { page_size: Bytes(4096), tiers: Vec::new() };
        assert!(recipe.build(&BuildContext::new(&topology, 0)).is_ok());
    }

    #[test]
    fn settings_without_a_key_are_refused() {
        let settings = BTreeMap::from([("no_such_key".to_owned(), 1)]);
        let text = with_settings(Recipe::named("autonuma").unwrap().text(), &settings);
        let recipe = Recipe::parse("r.toml", &text).unwrap();
        let topology = Topology { page_size: Bytes(4096), tiers: Vec::new() };
        let error = recipe.build(&BuildContext::new(&topology, 0)).err().unwrap().to_string();
        assert!(error.contains("no_such_key"), "{error}");
    }
}
