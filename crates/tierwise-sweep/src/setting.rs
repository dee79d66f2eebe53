//! Parameters: values at paths of a recipe or a scenario.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// The parameters of a unit: values by path, such as `estimator.interval_ms` of the recipe, or
/// `scenario.machine.fast_share` of the scenario.
pub type Parameters = BTreeMap<String, Value>;

/// The first part of the paths that lead into the scenario.
pub(crate) const SCENARIO: &str = "scenario.";

/// Sets the value at a path of a scenario or recipe, and creates the missing tables of that path. A
/// workload is named by its name: `workload.redis.weight`.
///
/// # Errors
/// The path leads through something that is no table, or names an unknown workload.
pub fn set(root: &mut Table, path: &str, value: Value) -> Result<(), String> {
    let mut keys = path.split('.');
    let last = keys.next_back().unwrap_or_default();
    let mut table = root;
    while let Some(key) = keys.next() {
        if key == "workload" {
            let name = keys.next().ok_or("name the workload, as in workload.NAME.weight")?;
            table = workload(table, name).ok_or(format!("no workload is called {name}"))?;
            continue;
        }
        let next = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
        table = next.as_table_mut().ok_or(format!("{key} is no table"))?;
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

fn workload<'a>(root: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    let all = root.get_mut("workload").and_then(Value::as_array_mut)?;
    let mut tables = all.iter_mut().filter_map(Value::as_table_mut);
    tables.find(|table| table.get("name").and_then(Value::as_str) == Some(name))
}
