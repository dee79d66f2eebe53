//! Sweeps for Python's executors: the plan, the run of one unit, and the store.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use pyo3::prelude::*;
use tierwise_sweep::{SweepPlan, SweepStore, Unit, UnitRecord, UnitRunner, rows};

use crate::error::{refuse, unreadable};

/// The scenarios that this process has loaded. Threads share them.
static RUNNER: LazyLock<UnitRunner> = LazyLock::new(UnitRunner::default);

/// Runs a unit, which is JSON, and returns its record as JSON.
#[pyfunction]
pub(crate) fn run_unit(py: Python<'_>, unit: &str) -> PyResult<String> {
    let unit: Unit = serde_json::from_str(unit).map_err(|e| refuse(format!("no unit: {e}")))?;
    let record = py.detach(|| RUNNER.run(&unit));
    serde_json::to_string(&record).map_err(refuse)
}

/// A plan's units.
#[pyclass(name = "SweepPlan", module = "tierwise._tierwise", frozen)]
pub struct PythonPlan(SweepPlan);

#[pymethods]
impl PythonPlan {
    #[new]
    #[pyo3(signature = (path, *, text=None))]
    #[expect(clippy::needless_pass_by_value, reason = "Python's path is converted, not borrowed")]
    fn new(py: Python<'_>, path: PathBuf, text: Option<&str>) -> PyResult<Self> {
        let base = path.parent().unwrap_or(Path::new("."));
        if text.is_none() {
            File::open(&path).map_err(|error| unreadable(&path, &error))?;
        }
        let plan = py.detach(|| match text {
            Some(text) => SweepPlan::parse(&path.to_string_lossy(), text, base),
            None => SweepPlan::read(&path),
        });
        Ok(Self(plan.map_err(refuse)?))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    fn __len__(&self) -> usize {
        self.0.units.len()
    }

    /// The units as JSON, in the plan's order.
    fn units(&self) -> PyResult<Vec<String>> {
        self.0.units.iter().map(|u| serde_json::to_string(u).map_err(refuse)).collect()
    }
}

/// The results of a directory, in the format of `tierwise sweep`.
#[pyclass(name = "SweepStore", module = "tierwise._tierwise")]
pub struct PythonStore {
    plan: Py<PythonPlan>,
    store: SweepStore,
}

#[pymethods]
impl PythonStore {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "Python's path is converted, not borrowed")]
    fn new(directory: PathBuf, plan: Py<PythonPlan>) -> PyResult<Self> {
        let wanted: HashSet<&str> = plan.get().0.units.iter().map(|u| u.key.as_str()).collect();
        let store = SweepStore::open(&directory, &wanted).map_err(refuse)?;
        Ok(Self { plan, store })
    }

    /// The units without a result, as JSON, each key once.
    fn missing(&self) -> PyResult<Vec<String>> {
        let mut seen = HashSet::new();
        let units = self.plan.get().0.units.iter();
        let lacking = units.filter(|unit| !self.store.has(&unit.key));
        let once = lacking.filter(|unit| seen.insert(unit.key.as_str()));
        once.map(|unit| serde_json::to_string(unit).map_err(refuse)).collect()
    }

    /// Keeps a record that `run_unit` returned.
    fn append(&mut self, record: &str) -> PyResult<()> {
        let record: UnitRecord =
            serde_json::from_str(record).map_err(|e| refuse(format!("no record: {e}")))?;
        self.store.append(record).map_err(refuse)
    }

    /// Waits until the disk has everything.
    fn sync(&mut self) -> PyResult<()> {
        self.store.sync().map_err(refuse)
    }

    /// Writes the tables of units and tenants as Parquet; returns the rows of the first.
    #[expect(clippy::needless_pass_by_value, reason = "Python's path is converted, not borrowed")]
    fn write(&self, units: PathBuf, tenants: PathBuf) -> PyResult<usize> {
        let all = &self.plan.get().0.units;
        let mut count = 0;
        whole_file(&units, |file| {
            count = rows::units(all, &self.store, file)?;
            Ok(())
        })?;
        whole_file(&tenants, |file| rows::tenants(all, &self.store, file))?;
        Ok(count)
    }
}

/// Writes a file beside its place, then renames it.
fn whole_file(path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> PyResult<()> {
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = File::create(&beside).and_then(|file| {
        write(&file)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    });
    written.map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        unreadable(path, &error)
    })
}
