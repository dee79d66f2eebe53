//! Record of the kdamonds that this process takes, written before they are used, so that a start
//! after `kill -9` turns them off.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{LinuxError, Result};
use crate::process::Process;
use crate::roots::Roots;
use crate::state_file::{self, StateFileContent};

/// One kdamond that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Number below `kdamonds/`.
    pub index: u32,
    /// Thread while it runs. If another process uses the place by now, it has another thread.
    pub thread: Option<Process>,
}

/// Every kdamond taken since this boot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KdamondRecord {
    /// `/proc/sys/kernel/random/boot_id`: after another boot the record no longer holds.
    pub boot: String,
    /// The kdamonds.
    pub taken: Vec<Taken>,
    /// The process made all places, of which there was none before.
    #[serde(default)]
    pub made_all: bool,
}

impl KdamondRecord {
    /// An empty record of this boot.
    ///
    /// # Errors
    /// The boot id cannot be read.
    pub fn new(roots: &Roots) -> Result<Self> {
        Ok(Self { boot: state_file::boot_id(roots)?, taken: Vec::new(), made_all: false })
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The file may not be read, or the kernel does not report the boot id.
    pub fn load(path: &Path, roots: &Roots) -> Result<StateFileContent<Self>> {
        state_file::read(path, "boot", &state_file::boot_id(roots)?, |_| Ok(()))
    }

    /// Writes the record.
    ///
    /// # Errors
    /// The directory does not exist or cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text =
            serde_json::to_string(self).map_err(|e| LinuxError::file(path, "write", e.into()))?;
        state_file::write(path, text.as_bytes())
    }

    /// Removes the file, once everything is restored.
    ///
    /// # Errors
    /// The file exists and cannot be removed.
    pub fn remove(path: &Path) -> Result<()> {
        state_file::remove(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn record_counts_in_its_own_boot() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let random = roots.proc.join("sys/kernel/random");
        fs::create_dir_all(&random).unwrap();
        fs::write(random.join("boot_id"), "one\n").unwrap();
        let path = tree.path().join("damon.json");
        assert_eq!(KdamondRecord::load(&path, &roots).unwrap(), StateFileContent::Nothing);
        let mut record = KdamondRecord::new(&roots).unwrap();
        record.taken.push(Taken { index: 2, thread: Some(Process { pid: 7, start_time: 9 }) });
        record.save(&path).unwrap();
        assert_eq!(KdamondRecord::load(&path, &roots).unwrap(), StateFileContent::Whole(record));
        fs::write(random.join("boot_id"), "two\n").unwrap();
        assert_eq!(KdamondRecord::load(&path, &roots).unwrap(), StateFileContent::OtherBoot);
        fs::write(&path, "{").unwrap();
        assert!(matches!(
            KdamondRecord::load(&path, &roots).unwrap(),
            StateFileContent::Damaged(_)
        ));
        KdamondRecord::remove(&path).unwrap();
        KdamondRecord::remove(&path).unwrap();
    }
}
