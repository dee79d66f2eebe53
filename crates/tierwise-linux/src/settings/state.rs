//! The file that remembers what was changed, so that it can be given back even after `kill -9`.
//!
//! It is JSON, written beside and renamed, and on the disk before the kernel's setting is changed. A file of an earlier
//! boot means nothing: the kernel began with its own settings again.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::knob::Knob;
use crate::error::{LinuxError, Result};
use crate::file;
use crate::roots::Roots;

/// The layout below; a file of another is refused.
const VERSION: u32 = 1;

const EXPECTED: &str = "a state file of this version of Tierwise; nothing was changed: look at the values in it, set them by \
                        hand and delete the file";

/// One setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    pub knob: Knob,
    /// What it was before the first change.
    pub before: String,
    /// What was written last, and the value of ours before it: a process may be killed between noting a value here and
    /// writing it to the kernel.
    pub written: Vec<String>,
}

impl Change {
    /// Notes that a setting that shows `now` is to be changed once more.
    pub(super) fn again(&mut self, now: String, wanted: String) {
        if self.written.contains(&now) {
            self.written = vec![now, wanted];
        } else {
            // Somebody else set it meanwhile: that is what is theirs to have back.
            (self.before, self.written) = (now, vec![wanted]);
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    version: u32,
    boot_id: String,
    changes: Vec<Change>,
}

/// What a state file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is none.
    Nothing,
    /// It is of another boot.
    OtherBoot,
    /// These changes, in the order they were made.
    Changes(Vec<Change>),
}

/// The identity of this boot.
pub(super) fn boot_id(roots: &Roots) -> Result<String> {
    file::value(&roots.proc.join("sys/kernel/random/boot_id"), "an identity of this boot")
}

/// Reads and checks a state file.
pub(super) fn read(path: &Path, boot_id: &str) -> Result<Found> {
    let Some(text) = file::text_if_there(path)? else { return Ok(Found::Nothing) };
    let bad = |line: Option<usize>, found: String| LinuxError::Format {
        path: path.to_owned(),
        line,
        found,
        expected: EXPECTED,
    };
    let state: State = serde_json::from_str(&text)
        .map_err(|e| bad((e.line() > 0).then_some(e.line()), e.to_string()))?;
    if state.version != VERSION {
        return Err(bad(None, format!("version {}", state.version)));
    }
    if state.boot_id != boot_id {
        return Ok(Found::OtherBoot);
    }
    for change in &state.changes {
        for value in [&change.before].into_iter().chain(&change.written) {
            if change.knob.canonical(value).as_ref() != Some(value) {
                return Err(bad(None, format!("{}: {value:?}", change.knob.name())));
            }
        }
    }
    Ok(Found::Changes(state.changes))
}

/// Writes a state file, or removes it when nothing is changed any more. It is on the disk when this returns.
pub(super) fn write(path: &Path, boot_id: &str, changes: &[Change]) -> Result<()> {
    let failed = |e| LinuxError::file(path, "write", e);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if changes.is_empty() {
        match fs::remove_file(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            other => other.map_err(|e| LinuxError::file(path, "remove", e))?,
        }
    } else {
        let state = State { version: VERSION, boot_id: boot_id.into(), changes: changes.to_vec() };
        let mut text = serde_json::to_string_pretty(&state).map_err(|e| failed(e.into()))?;
        text.push('\n');
        let mut beside = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        beside.write_all(text.as_bytes()).map_err(failed)?;
        beside.as_file().sync_all().map_err(failed)?;
        beside.persist(path).map_err(|e| failed(e.error))?;
    }
    // The name itself must be on the disk as well.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(before: &str, written: &[&str]) -> Change {
        let written = written.iter().map(|w| (*w).to_owned()).collect();
        Change { knob: Knob::NumaBalancing, before: before.into(), written }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        assert_eq!(read(&path, "a").unwrap(), Found::Nothing);
        write(&path, "a", &[change("1", &["0", "2"])]).unwrap();
        assert_eq!(read(&path, "a").unwrap(), Found::Changes(vec![change("1", &["0", "2"])]));
        assert_eq!(read(&path, "b").unwrap(), Found::OtherBoot);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        write(&path, "a", &[]).unwrap();
        write(&path, "a", &[]).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn damage_is_refused_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        let said = |text: &str| {
            fs::write(&path, text).unwrap();
            read(&path, "a").unwrap_err().to_string()
        };
        assert!(said("").contains("nothing was changed"));
        assert!(said("{\n\"version\": 1,\n\"boot").contains("settings.json:3: found"));
        let state = |version: u32, knob: &str, value: &str| {
            format!(
                r#"{{"version": {version}, "boot_id": "a",
                "changes": [{{"knob": "{knob}", "before": "{value}", "written": []}}]}}"#
            )
        };
        assert!(said(&state(2, "numa_balancing", "1")).contains("found version 2"));
        assert!(said(&state(1, "panic_on_oom", "1")).contains("unknown variant `panic_on_oom`"));
        assert!(said(&state(1, "numa_balancing", "99")).contains("found numa_balancing: \"99\""));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(\\{|\\}|\\[|\\]|\"version\":|1|\"boot_id\":|\"a\"|,|\"changes\":|.{0,3}){0,12}") {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("s");
            fs::write(&path, text).unwrap();
            let _ = read(&path, "a");
        }
    }
}
