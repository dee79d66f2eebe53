//! The simulator's counterparts of the policies that the lab's guests run.

use std::collections::BTreeMap;

use tierwise_core::recipe::Recipe;

use super::guest::DMA_ZONE_MIB;
use super::record::{GuestRun, ProgramRecord};
use crate::failure::Failure;

/// The series of kernels whose tiering differs from that of later ones.
pub const OLDER: &str = "6.12";

/// A policy of the guests and the recipe that simulates it.
struct Row {
    policy: &'static str,
    recipe: &'static str,
    /// The recipe for guests with an [`OLDER`] kernel.
    older: &'static str,
    /// True if it is the kernel's own tiering.
    of_kernel: bool,
    /// True if it places pages, as the kernel does; otherwise it places the daemon's blocks.
    by_page: bool,
}

const TABLE: [Row; 6] = [
    Row::of_engine("first-touch", "static", true),
    Row::of_kernel("kernel-tiering"),
    Row::of_kernel("kernel-default"),
    Row::of_engine("multi-clock", "multi-clock", false),
    Row::of_engine("memtis", "memtis", false),
    Row::of_engine("tierwise-engine", "tierwise", false),
];

impl Row {
    const fn of_engine(policy: &'static str, recipe: &'static str, by_page: bool) -> Self {
        Self { policy, recipe, older: recipe, of_kernel: false, by_page }
    }

    const fn of_kernel(policy: &'static str) -> Self {
        let (recipe, older) = ("kernel-tiering", "kernel-tiering-6.12");
        Self { policy, recipe, older, of_kernel: true, by_page: true }
    }
}

/// A recipe, ready to be simulated.
#[derive(Debug)]
pub struct Counterpart {
    pub recipe: Recipe,
    pub by_page: bool,
}

/// Returns the counterpart of a run's policy on the record's kernel and machine; `None` if the
/// simulator has none.
pub fn of(run: &GuestRun, record: &ProgramRecord) -> Result<Option<Counterpart>, Failure> {
    let Some(row) = TABLE.iter().find(|row| row.policy == run.policy) else { return Ok(None) };
    let name = if record.kernel == OLDER { row.older } else { row.recipe };
    let shipped = Recipe::named(name)?;
    let mut text = with_settings(shipped.text(), &run.settings);
    if row.of_kernel {
        text += &zones(record);
        text += &threads(run);
    }
    let recipe = Recipe::parse(&format!("{} ({name})", run.policy), &text)?;
    Ok(Some(Counterpart { recipe, by_page: row.by_page }))
}

/// The zones of the guest's fast node, as keys of the recipe.
fn zones(record: &ProgramRecord) -> String {
    match record.fast_node_mib() {
        Some(mib) => {
            format!("dma_zone = \"{DMA_ZONE_MIB}MiB\"\nnode_memory = \"{}MiB\"\n", mib.round())
        }
        None => String::new(),
    }
}

/// The run time and the number of the program's threads at the start, as keys of the recipe.
fn threads(run: &GuestRun) -> String {
    match run.ran_s() {
        Some(ran_s) => {
            let threaded = run.threads_at_start_s.len() > 1;
            format!("ran_ms = {}\nthreaded = {threaded}\n", (ran_s * 1000.0) as u64)
        }
        None => String::new(),
    }
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
            for name in [row.recipe, row.older] {
                assert!(Recipe::named(name).is_ok(), "{name}");
            }
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
