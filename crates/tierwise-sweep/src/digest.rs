//! The digests from which a unit's key is made.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use tierwise_core::recipe::Recipe;
use tierwise_sim::scenario::{Scenario, WorkloadSource};
use toml::{Table, Value};

use crate::ENGINE;

/// Digests of files, each read once as long as its size and time of change stay.
#[derive(Debug, Default)]
pub(crate) struct FileDigests(HashMap<PathBuf, (u64, Option<SystemTime>, String)>);

impl FileDigests {
    /// The digest of a file's content.
    ///
    /// # Errors
    /// The file cannot be read.
    fn of(&mut self, path: &Path) -> io::Result<String> {
        let mut file = File::open(path)?;
        let there = file.metadata()?;
        let (size, changed) = (there.len(), there.modified().ok());
        if let Some((of, at, digest)) = self.0.get(path)
            && (*of, *at) == (size, changed)
        {
            return Ok(digest.clone());
        }
        let mut hash = Sha256::new();
        io::copy(&mut file, &mut hash)?;
        let digest = hex(&hash.finalize());
        self.0.insert(path.to_owned(), (size, changed, digest.clone()));
        Ok(digest)
    }

    /// The path that stands for a file in a digest: its content, wherever it lies. A file that
    /// cannot be read keeps its path: the run reports it.
    fn stand_in(&mut self, path: &Path) -> PathBuf {
        self.of(path).map_or_else(|_| path.to_owned(), |digest| format!("sha256:{digest}").into())
    }
}

/// The digest of all that a scenario gives a run: machine, costs, workloads, and the content of
/// its traces and profiles. Name and summary are words for people.
pub(crate) fn of_scenario(scenario: &Scenario, files: &mut FileDigests) -> String {
    let mut content = Scenario { name: String::new(), summary: String::new(), ..scenario.clone() };
    for workload in &mut content.workloads {
        let trace = match &mut workload.source {
            WorkloadSource::Trace(trace) => Some(trace),
            WorkloadSource::Service(service) => service.trace_mut(),
            WorkloadSource::Generator(..) => None,
        };
        for path in trace.into_iter().chain(&mut workload.profile) {
            *path = files.stand_in(path);
        }
    }
    // Rust writes the shortest digits that give the same number, so equal texts are equal values.
    hex(&Sha256::digest(format!("{content:?}")))
}

/// The digest of a recipe with its parameters, without the words that describe it. A parameter
/// that is given its recipe's own value changes nothing.
pub(crate) fn of_recipe(recipe: &Table, files: &mut FileDigests) -> String {
    let mut content = recipe.clone();
    for described in ["name", "summary", "source"] {
        content.remove(described);
    }
    for (_, stage) in content.iter_mut() {
        // Models that ship are part of the engine; others are files.
        if let Some(Value::String(model)) = stage.get_mut("model")
            && Path::new(model.as_str()).is_file()
        {
            *model = files.stand_in(Path::new(model.as_str())).to_string_lossy().into_owned();
        }
    }
    // Tables are sorted, so their order in the file does not count.
    hex(&Sha256::digest(format!("{content:?}")))
}

/// The key of a unit.
pub(crate) fn of_unit(scenario: &str, recipe: &str, seed: u64) -> String {
    let learner = cfg!(feature = "learner");
    hex(&Sha256::digest(format!("unit 1\n{ENGINE}\n{learner}\n{scenario}\n{recipe}\n{seed}\n")))
}

/// Makes keys of what is computed from scenarios that no file has, for results beside a sweep's. It
/// reads each file once. Threads may share it.
#[derive(Debug, Default)]
pub struct UnitKeys(Mutex<FileDigests>);

impl UnitKeys {
    /// The digest of a scenario, with the content of its traces.
    pub fn scenario(&self, scenario: &Scenario) -> String {
        of_scenario(scenario, &mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The digest of a recipe.
    pub fn recipe(&self, recipe: &Recipe) -> String {
        // A recipe's text was parsed when it was made.
        let table: Table = recipe.text().parse().unwrap_or_default();
        of_recipe(&table, &mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The digest of a file's content; of its path, if it cannot be read.
    pub fn file(&self, path: &Path) -> String {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.stand_in(path).to_string_lossy().into_owned()
    }

    /// The key of a result of this engine: its kind, and all inputs on which it depends.
    pub fn key(&self, kind: &str, inputs: &[&str]) -> String {
        let learner = cfg!(feature = "learner");
        let inputs = inputs.join("\n");
        hex(&Sha256::digest(format!("kept 1\n{ENGINE}\n{learner}\n{kind}\n{inputs}\n")))
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;

    use super::*;

    /// A scenario with every kind of file: a trace, a profile, and a service's trace.
    const SCENARIO: &str = r#"
        name = "test"
        summary = "A service and a program"
        duration_s = 1
        [machine]
        preset = "dram-cxl"
        fast = "1GB"
        slow = "8GB"
        [[workload]]
        name = "service"
        service = { preset = "redis", traces = ".", arrivals = "ramp" }
        [[workload]]
        name = "program"
        trace = "program.twt"
        profile = "program.json"
    "#;

    const FILES: [&str; 3] = ["mtat/redis.twt", "program.twt", "program.json"];

    fn digest_in(directory: &Path) -> String {
        let scenario = Scenario::parse("test.toml", SCENARIO, directory).unwrap();
        UnitKeys::default().scenario(&scenario)
    }

    #[test]
    fn files_count_by_their_content() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [here, there] = directories.each_ref().map(|directory| directory.path());
        for directory in [here, there] {
            fs::create_dir(directory.join("mtat")).unwrap();
            for file in FILES {
                fs::write(directory.join(file), file).unwrap();
            }
        }
        let first = digest_in(here);
        assert_eq!(first, digest_in(there), "the same files elsewhere");
        for file in FILES {
            fs::write(there.join(file), "changed").unwrap();
            assert_ne!(first, digest_in(there), "{file} changed");
            fs::write(there.join(file), file).unwrap();
        }
    }
}
