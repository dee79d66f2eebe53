//! Finds the files that come with Tierwise.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The source tree of the build. A packaged program does not look there: the machine that runs it
/// has no such directory, or one that anybody made. `scripts/release/` sets the variable.
const SOURCE: Option<&str> = match option_env!("TIERWISE_PACKAGED") {
    Some(_) => None,
    None => Some(env!("CARGO_MANIFEST_DIR")),
};

/// A real program with a small recording: the first table appears within seconds.
const FIRST: &str = "recorded/redis-ycsb-c.toml";

/// Returns `scenarios/` here, beside an installed program, or in the source tree of the build.
pub fn scenarios() -> Result<PathBuf, Failure> {
    let executable = std::env::current_exe().ok();
    let installed =
        executable.and_then(|file| Some(file.parent()?.join("../share/tierwise/scenarios")));
    let source = SOURCE.map(|source| Path::new(source).join("../../scenarios"));
    let mut places = [Some(PathBuf::from("scenarios")), installed, source].into_iter().flatten();
    places.find(|place| place.is_dir()).ok_or_else(|| {
        Failure::user(&"no scenarios directory was found here or beside the program; name one")
    })
}

/// Returns the scenario for a user who names none.
pub fn first_scenario() -> Result<PathBuf, Failure> {
    let file = scenarios()?.join(FIRST);
    if file.is_file() {
        return Ok(file);
    }
    Err(Failure::User(format!(
        "{}: not found, and no scenario was named; name one (`tierwise scenario list`)",
        file.display()
    )))
}
