//! The directory that keeps results: logs that are only appended to.
//!
//! A line is the CRC-32 of a record, in hexadecimal, and the record as JSON. Each sweep appends to
//! a log of its own, so that several may write to one directory. A line that was cut by a kill or
//! a full disk does not have its checksum, and counts as not written.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tierwise_sim::result::PolicyResult;

use crate::record::UnitRecord;

/// The suffix of logs.
const SUFFIX: &str = "log";

/// Time between two flushes to the disk. A kill of the process loses nothing that was appended; a
/// power failure loses this much.
const SYNC: Duration = Duration::from_secs(1);

/// A store that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct StoreError {
    path: PathBuf,
    source: io::Error,
}

impl StoreError {
    /// Returns true if the disk is full, and not the path wrong.
    pub fn is_full_disk(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self.source.kind(), FileTooLarge | QuotaExceeded | StorageFull)
    }
}

/// The results of one directory.
#[derive(Debug)]
pub struct SweepStore<T = PolicyResult> {
    directory: PathBuf,
    records: HashMap<String, UnitRecord<T>>,
    log: Option<(PathBuf, File)>,
    synced: Instant,
}

impl SweepStore {
    /// Opens a directory, makes it if it is not there, and reads the records of the wanted keys.
    ///
    /// # Errors
    /// The directory cannot be made or read.
    pub fn open(directory: &Path, wanted: &HashSet<&str>) -> Result<Self, StoreError> {
        Self::open_those(directory, &|key| wanted.contains(key))
    }
}

impl<T: Serialize + DeserializeOwned> SweepStore<T> {
    /// Opens a directory, makes it if it is not there, and reads all of its records: for units that
    /// depend on the results of others, so that their keys are not known before.
    ///
    /// # Errors
    /// The directory cannot be made or read.
    pub fn open_all(directory: &Path) -> Result<Self, StoreError> {
        Self::open_those(directory, &|_| true)
    }

    fn open_those(directory: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Self, StoreError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError { path, source }
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        let mut logs = Vec::new();
        for entry in directory.read_dir().map_err(failed(directory))? {
            let path = entry.map_err(failed(directory))?.path();
            if path.extension().is_some_and(|suffix| suffix == SUFFIX) {
                logs.push(path);
            }
        }
        // The name of a log starts with its time: a later record of a key replaces the earlier.
        logs.sort();
        let mut records = HashMap::new();
        for log in &logs {
            read(log, wanted, &mut records).map_err(failed(log))?;
        }
        let directory = directory.to_owned();
        Ok(Self { directory, records, log: None, synced: Instant::now() })
    }

    /// The record of a key.
    pub fn get(&self, key: &str) -> Option<&UnitRecord<T>> {
        self.records.get(key)
    }

    /// Returns true if the unit of this key need not be run.
    pub fn has(&self, key: &str) -> bool {
        self.records.get(key).is_some_and(|record| record.outcome.is_final())
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn append(&mut self, record: UnitRecord<T>) -> Result<(), StoreError> {
        if self.log.is_none() {
            self.log = Some(create(&self.directory)?);
        }
        if let Some((path, log)) = &mut self.log {
            let failed = |source| StoreError { path: path.clone(), source };
            log.write_all(line(&record).map_err(failed)?.as_bytes()).map_err(failed)?;
            if self.synced.elapsed() >= SYNC {
                log.sync_data().map_err(failed)?;
                self.synced = Instant::now();
            }
        }
        self.records.insert(record.key.clone(), record);
        Ok(())
    }

    /// Waits until the disk has everything.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        let Some((path, log)) = &self.log else { return Ok(()) };
        log.sync_data().map_err(|source| StoreError { path: path.clone(), source })
    }
}

fn create(directory: &Path) -> Result<(PathBuf, File), StoreError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let process = std::process::id();
    // Hosts that share a directory may share a process number, and never both numbers for long.
    let mut counter = 0;
    loop {
        let name = format!("{:020}-{process}-{counter}.{SUFFIX}", now.as_nanos());
        let path = directory.join(name);
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => counter += 1,
            Err(source) => return Err(StoreError { path, source }),
        }
    }
}

fn line<T: Serialize>(record: &UnitRecord<T>) -> io::Result<String> {
    let json = serde_json::to_string(record)?;
    Ok(format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())))
}

fn read<T: DeserializeOwned>(
    log: &Path,
    wanted: &dyn Fn(&str) -> bool,
    records: &mut HashMap<String, UnitRecord<T>>,
) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(log)?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        if let Some(record) = parse(&line)
            && wanted(&record.key)
        {
            records.insert(record.key.clone(), record);
        }
        line.clear();
    }
    Ok(())
}

/// The record of a whole line.
fn parse<T: DeserializeOwned>(line: &[u8]) -> Option<UnitRecord<T>> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (sum, json) = line.split_once(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (sum == crc32fast::hash(json.as_bytes())).then(|| serde_json::from_str(json).ok())?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::record::UnitOutcome;

    fn record(key: &str, why: &str) -> UnitRecord {
        let outcome = UnitOutcome::Failed(why.to_owned());
        UnitRecord { key: key.to_owned(), seconds: 0.25, outcome }
    }

    #[test]
    fn cut_logs_keep_their_whole_lines() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (record("a", "no\nroom"), record("b", "none"));
        let whole = line(&first).unwrap() + &line(&second).unwrap();
        let log = directory.path().join("1.log");
        let wanted = HashSet::from(["a", "b"]);
        for cut in 0..=whole.len() {
            fs::write(&log, &whole.as_bytes()[..cut]).unwrap();
            let store = SweepStore::open(directory.path(), &wanted).unwrap();
            assert_eq!(store.get("a").is_some(), cut >= line(&first).unwrap().len(), "{cut}");
            assert_eq!(store.get("b").is_some(), cut == whole.len(), "{cut}");
        }
    }

    #[test]
    fn damaged_line_does_not_hide_others() {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes =
            (line(&record("a", "x")).unwrap() + &line(&record("b", "y")).unwrap()).into_bytes();
        bytes[20] ^= 1;
        fs::write(directory.path().join("1.log"), bytes).unwrap();
        let store = SweepStore::open(directory.path(), &HashSet::from(["a", "b"])).unwrap();
        assert_eq!((store.get("a"), store.get("b")), (None, Some(&record("b", "y"))));
    }

    #[test]
    fn appended_records_are_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let wanted = HashSet::from(["a"]);
        let mut store = SweepStore::open(directory.path(), &wanted).unwrap();
        store.append(record("a", "x")).unwrap();
        let died = UnitOutcome::Died("killed".to_owned());
        store.append(UnitRecord { outcome: died, ..record("b", "") }).unwrap();
        assert!(store.has("a") && !store.has("b"), "a unit whose worker died is tried again");
        let again = SweepStore::open(directory.path(), &wanted).unwrap();
        assert_eq!((again.get("a"), again.get("b")), (store.get("a"), None));
    }
}
