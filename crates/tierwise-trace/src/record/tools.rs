//! Finds the emulator and the recorder plugin.

use std::path::{Path, PathBuf};

use super::{RecordError, command};

/// The plugin's file name.
const PLUGIN: &str = "libtierwise_recorder.so";

/// The source tree of the build. A packaged program loads nothing from there: the machine that runs
/// it has no such directory, or one that anybody made. `scripts/release/` sets the variable.
const SOURCE: Option<&str> = match option_env!("TIERWISE_PACKAGED") {
    Some(_) => None,
    None => Some(env!("CARGO_MANIFEST_DIR")),
};

/// The user-mode emulator of this machine's architecture.
pub(super) fn qemu(given: Option<&Path>) -> Result<PathBuf, RecordError> {
    let name = format!("qemu-{}", std::env::consts::ARCH);
    match given {
        Some(path) if path.is_file() => Ok(path.to_owned()),
        Some(path) => Err(RecordError::NoQemu { name: path.display().to_string() }),
        None => command::search_path(name.as_ref()).ok_or(RecordError::NoQemu { name }),
    }
}

/// The plugin: as given, else `TIERWISE_RECORDER`, else beside the executable, else in the source
/// tree from which the executable was built, if it was not built for a package.
pub(super) fn plugin(given: Option<&Path>) -> Result<PathBuf, RecordError> {
    let named = given
        .map(Path::to_owned)
        .or_else(|| std::env::var_os("TIERWISE_RECORDER").map(PathBuf::from));
    let candidates = named.map_or_else(default_places, |path| vec![path]);
    let found = candidates.iter().find(|path| path.is_file());
    found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| RecordError::NoPlugin {
        searched: candidates.iter().map(|path| path.display().to_string()).collect(),
    })
}

fn default_places() -> Vec<PathBuf> {
    let executable = std::env::current_exe().ok();
    let directory = executable.as_deref().and_then(Path::parent);
    let mut places = Vec::new();
    if let Some(directory) = directory {
        places.push(directory.join(PLUGIN));
        // The layout of a package: bin/tierwise and lib/tierwise/.
        places.push(directory.join("../lib/tierwise").join(PLUGIN));
    }
    places.extend(SOURCE.map(|source| Path::new(source).join("../../recorder/build").join(PLUGIN)));
    places
}
