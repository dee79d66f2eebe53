//! What of DAMON is ours, written down before it is used, so that a start after `kill -9` turns it off.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::Process;
use crate::roots::Roots;

/// One kdamond that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Its number below `kdamonds/`.
    pub index: u32,
    /// Its thread while it runs. A number that somebody else uses by now has another thread.
    pub thread: Option<Process>,
}

/// Every kdamond that was taken in this boot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Record {
    /// `/proc/sys/kernel/random/boot_id`: after another boot nothing here is true any more.
    pub boot: String,
    /// The kdamonds.
    pub taken: Vec<Taken>,
}

impl Record {
    /// An empty record of this boot.
    ///
    /// # Errors
    /// The boot's identity cannot be read.
    pub fn new(roots: &Roots) -> Result<Self> {
        Ok(Self { boot: boot_id(roots)?, taken: Vec::new() })
    }

    /// Reads a record; none if there is no file, or it is of another boot.
    ///
    /// # Errors
    /// The file cannot be read or is not a record.
    pub fn load(path: &Path, roots: &Roots) -> Result<Option<Self>> {
        let Some(text) = file::text_if_there(path)? else { return Ok(None) };
        let record: Self = serde_json::from_str(&text).map_err(|e| LinuxError::Format {
            path: path.to_owned(),
            line: Some(e.line()),
            found: e.to_string(),
            expected: "the record of kdamonds that Tierwise wrote; delete the file if no Tierwise runs",
        })?;
        Ok((record.boot == boot_id(roots)?).then_some(record))
    }

    /// Writes it beside and renames it, so that there is always a whole one.
    ///
    /// # Errors
    /// The folder is not there or cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let failed = |e| LinuxError::file(path, "write", e);
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let text = serde_json::to_string(self).map_err(|e| failed(e.into()))?;
        let mut beside = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        beside.write_all(text.as_bytes()).map_err(failed)?;
        beside.persist(path).map_err(|e| failed(e.error))?;
        Ok(())
    }

    /// Removes the file, once everything is given back.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn remove(path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(LinuxError::file(path, "remove", e))
            }
            _ => Ok(()),
        }
    }
}

fn boot_id(roots: &Roots) -> Result<String> {
    Ok(file::text(&roots.proc.join("sys/kernel/random/boot_id"))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_in_its_own_boot_only() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let random = roots.proc.join("sys/kernel/random");
        fs::create_dir_all(&random).unwrap();
        fs::write(random.join("boot_id"), "one\n").unwrap();
        let path = tree.path().join("damon.json");
        assert_eq!(Record::load(&path, &roots).unwrap(), None);
        let mut record = Record::new(&roots).unwrap();
        record.taken.push(Taken { index: 2, thread: Some(Process { pid: 7, start_time: 9 }) });
        record.save(&path).unwrap();
        assert_eq!(Record::load(&path, &roots).unwrap(), Some(record));
        fs::write(random.join("boot_id"), "two\n").unwrap();
        assert_eq!(Record::load(&path, &roots).unwrap(), None);
        fs::write(&path, "{").unwrap();
        assert!(
            Record::load(&path, &roots).unwrap_err().to_string().contains("damon.json:1: found")
        );
        Record::remove(&path).unwrap();
        Record::remove(&path).unwrap();
    }
}
