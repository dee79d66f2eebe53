//! The file that records changed settings, so that they can be restored even after `kill -9`.
//! It is JSON, written beside and renamed before the kernel's setting changes. A file
//! of an earlier boot is void: the kernel started with its own settings again.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::knob::Knob;
use crate::error::{LinuxError, Result};
use crate::state_file::{self, StateFileContent};

/// Version of the layout below; a file of another version is moved aside.
const VERSION: u32 = 1;

/// One changed setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnobChange {
    pub knob: Knob,
    /// Value before the first change.
    pub before: String,
    /// The last value written, and the one before it: a process may be killed between recording a
    /// value here and writing it to the kernel.
    pub written: Vec<String>,
}

impl KnobChange {
    /// Records another change of a setting whose current value is `now`.
    pub(super) fn again(&mut self, now: String, wanted: String) {
        if self.written.contains(&now) {
            self.written = vec![now, wanted];
        } else {
            // Another program set it meanwhile: its value is the one to restore.
            (self.before, self.written) = (now, vec![wanted]);
        }
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingsState {
    version: u32,
    boot_id: String,
    /// Changes, in the order in which they were made.
    pub changes: Vec<KnobChange>,
}

/// Reads and checks a state file.
pub(super) fn read(path: &Path, boot_id: &str) -> Result<StateFileContent<SettingsState>> {
    state_file::read(path, "boot_id", boot_id, check)
}

/// Like [`read`], from bytes; for the fuzz targets.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn parse(bytes: &[u8]) -> std::result::Result<Option<SettingsState>, String> {
    state_file::parse(bytes, "boot_id", "this-boot", check)
}

/// Refuses valid content that this version cannot use.
fn check(state: &SettingsState) -> std::result::Result<(), String> {
    if state.version != VERSION {
        return Err(format!("found version {}; expected version {VERSION}", state.version));
    }
    for change in &state.changes {
        for value in [&change.before].into_iter().chain(&change.written) {
            if change.knob.canonical(value).as_ref() != Some(value) {
                let (name, allowed) = (change.knob.name(), change.knob.allowed());
                return Err(format!("found {name}: {value:.40?}; allowed: {allowed}"));
            }
        }
    }
    Ok(())
}

/// Writes a state file, or removes it when there are no changes left.
pub(super) fn write(path: &Path, boot_id: &str, changes: &[KnobChange]) -> Result<()> {
    if changes.is_empty() {
        return state_file::remove(path);
    }
    let state =
        SettingsState { version: VERSION, boot_id: boot_id.into(), changes: changes.to_vec() };
    let mut text = serde_json::to_string_pretty(&state)
        .map_err(|e| LinuxError::file(path, "write", e.into()))?;
    text.push('\n');
    state_file::write(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn change(before: &str, written: &[&str]) -> KnobChange {
        let written = written.iter().map(|w| (*w).to_owned()).collect();
        KnobChange { knob: Knob::NumaBalancing, before: before.into(), written }
    }

    #[test]
    fn written_state_reads_back_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        assert_eq!(read(&path, "a").unwrap(), StateFileContent::Nothing);
        let changes = vec![change("1", &["0", "2"])];
        write(&path, "a", &changes).unwrap();
        let state = SettingsState { version: VERSION, boot_id: "a".into(), changes };
        assert_eq!(read(&path, "a").unwrap(), StateFileContent::Whole(state));
        assert_eq!(read(&path, "b").unwrap(), StateFileContent::OtherBoot);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        write(&path, "a", &[]).unwrap();
        write(&path, "a", &[]).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn unknown_knob_is_reported_with_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        let message = |text: &str| {
            fs::write(&path, text).unwrap();
            match read(&path, "a").unwrap() {
                StateFileContent::Damaged(damage) => damage.to_string(),
                other => panic!("{other:?}"),
            }
        };
        assert!(message("{\n\"version\": 1,\n\"boot").contains("at line 3"));
        let state = |version: u32, knob: &str, value: &str| {
            format!(
                r#"{{"version": {version}, "boot_id": "a",
                "changes": [{{"knob": "{knob}", "before": "{value}", "written": []}}]}}"#
            )
        };
        assert!(message(&state(2, "numa_balancing", "1")).contains("found version 2"));
        assert!(message(&state(1, "panic_on_oom", "1")).contains("unknown variant `panic_on_oom`"));
        assert!(
            message(&state(1, "numa_balancing", "99")).contains("found numa_balancing: \"99\"")
        );
    }
}
