//! Loads a key-value store and drives it with a YCSB workload while it is recorded.
//!
//! Keys are YCSB's: "user" and the hashed record number. A record is random printable bytes: one
//! value (YCSB's ten fields, concatenated), or with `--fields` a hash of fields in Redis, as YCSB's
//! own client stores it. An update writes all of it. The seed determines everything. One connection
//! sends one request at a time, as one YCSB client thread does.

mod marks;
mod store;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tierwise_trace::generate::ycsb::{OperationKind, OperationMix, Operations, RecordChoice, hash};

use marks::Marks;
use store::{Store, StoreKind};

/// Operations between two reports to the recorder; a window of the recordings holds thousands of
/// operations.
const REPORT_EVERY: u64 = 100;

#[derive(Parser)]
struct Arguments {
    /// Server to drive, on 127.0.0.1
    #[arg(long, value_enum)]
    store: StoreKind,
    /// The server's port
    #[arg(long)]
    port: u16,
    /// YCSB workload: a, b, c, d, f, or w (updates only)
    #[arg(long)]
    workload: String,
    /// Records to load
    #[arg(long)]
    records: u64,
    /// Operations to run
    #[arg(long)]
    operations: u64,
    /// Bytes of a record [default: YCSB's ten fields of 100 bytes]
    #[arg(long, default_value_t = 1000, hide_default_value = true)]
    record_bytes: usize,
    /// Fields of a record: with more than one, Redis holds a hash, and reads read all of it
    #[arg(long, default_value_t = 1, hide_default_value = true)]
    fields: usize,
    /// Bytes of a key, at least; shorter ones are extended by zeros
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    key_bytes: usize,
    /// Request all records alike, as Mutilate does, instead of by the workload's distribution
    #[arg(long)]
    uniform: bool,
    /// Seed of every draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The recorder's FIFO
    #[arg(long)]
    marks: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut mix = OperationMix::named(&arguments.workload).with_context(|| {
        format!("--workload {}: choose one of a, b, c, d, f, w", arguments.workload)
    })?;
    if arguments.uniform {
        mix.requests = RecordChoice::Uniform;
    }
    let mut store = store::connect(arguments.store, arguments.port, arguments.fields)?;
    let mut marks = Marks::open(arguments.marks.as_deref())?;
    marks.phase("load")?;
    for record in 0..arguments.records {
        let key = key_name(record, arguments.key_bytes);
        store.insert(&key, &value(record, 0, arguments.record_bytes))?;
    }
    marks.phase("run")?;
    run(&arguments, mix, store.as_mut(), &mut marks)?;
    marks.phase("end")?;
    store.shutdown()
}

fn run(
    arguments: &Arguments,
    mix: OperationMix,
    store: &mut dyn Store,
    marks: &mut Marks,
) -> Result<()> {
    let operations = Operations::new(mix, arguments.records, arguments.seed)?;
    for (number, operation) in (1..=arguments.operations).zip(operations) {
        let key = key_name(operation.key, arguments.key_bytes);
        if matches!(operation.kind, OperationKind::Read | OperationKind::ReadModifyWrite) {
            let found = store.read(&key)?.len();
            ensure!(found == arguments.record_bytes, "{key} has {found} bytes");
        }
        let new = || value(operation.key, number, arguments.record_bytes);
        match operation.kind {
            OperationKind::Read => {}
            OperationKind::Insert => store.insert(&key, &new())?,
            OperationKind::Update | OperationKind::ReadModifyWrite => store.write(&key, &new())?,
        }
        if number % REPORT_EVERY == 0 {
            marks.operations(REPORT_EVERY)?;
        }
    }
    Ok(())
}

/// A record's key, of at least `bytes` bytes.
fn key_name(record: u64, bytes: usize) -> String {
    format!("user{:0>1$}", hash(record), bytes.saturating_sub("user".len()))
}

/// Printable bytes that differ from record to record and from version to version.
fn value(record: u64, version: u64, bytes: usize) -> Vec<u8> {
    let mut state = hash(record ^ version.rotate_left(32));
    let printable = std::iter::repeat_with(|| {
        state = hash(state);
        b' ' + (state % 95) as u8
    });
    printable.take(bytes).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[derive(Default)]
    struct InMemory {
        records: HashMap<String, Vec<u8>>,
        reads: u64,
        writes: u64,
    }

    impl Store for InMemory {
        fn read(&mut self, key: &str) -> Result<Vec<u8>> {
            self.reads += 1;
            self.records.get(key).cloned().context("not there")
        }

        fn write(&mut self, key: &str, value: &[u8]) -> Result<()> {
            self.writes += 1;
            self.records.insert(key.to_owned(), value.to_owned());
            Ok(())
        }

        fn shutdown(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// Loads 500 records, runs 2000 operations, and returns the store.
    fn run_workload(letter: &str) -> InMemory {
        let mut words =
            vec!["ycsb-client", "--store", "redis", "--port", "1", "--workload", letter];
        words.extend(["--records", "500", "--operations", "2000", "--record-bytes", "40"]);
        let arguments = Arguments::parse_from(words);
        let mut store = InMemory::default();
        for record in 0..arguments.records {
            store.records.insert(key_name(record, 0), value(record, 0, arguments.record_bytes));
        }
        let mix = OperationMix::named(letter).unwrap();
        run(&arguments, mix, &mut store, &mut Marks::open(None).unwrap()).unwrap();
        store
    }

    #[test]
    fn operation_makes_ycsbs_requests() {
        let counts = |letter| {
            let store = run_workload(letter);
            (store.reads, store.writes)
        };
        assert_eq!(counts("c"), (2000, 0));
        assert_eq!(counts("w"), (0, 2000));
        let (reads, writes) = counts("a");
        assert_eq!(reads + writes, 2000);
        let (reads, writes) = counts("f");
        assert_eq!(reads, 2000, "a read-modify-write reads as well");
        assert!((900..1100).contains(&writes), "half of them: {writes}");
    }

    #[test]
    fn inserts_add_records_and_reads_find_them() {
        let store = run_workload("d");
        assert_eq!(store.reads + store.writes, 2000);
        assert_eq!(store.records.len() as u64, 500 + store.writes);
    }

    #[test]
    fn a_missing_record_ends_the_run() {
        let arguments = Arguments::parse_from([
            "ycsb-client",
            "--store",
            "redis",
            "--port",
            "1",
            "--workload",
            "c",
            "--records",
            "5",
            "--operations",
            "1",
        ]);
        let mut marks = Marks::open(None).unwrap();
        let mut store = InMemory::default();
        assert!(run(&arguments, OperationMix::C, &mut store, &mut marks).is_err());
    }

    #[test]
    fn keys_have_their_length() {
        assert_eq!(key_name(7, 0), format!("user{}", hash(7)));
        let long = key_name(7, 100);
        assert!(long.len() == 100 && long.ends_with(&hash(7).to_string()), "{long}");
    }

    #[test]
    fn fields_are_all_of_a_record() {
        let record = value(3, 0, 1001);
        let fields: Vec<(String, &[u8])> = store::fields(&record, 10).collect();
        assert_eq!((fields.len(), &*fields[0].0, &*fields[9].0), (10, "field0", "field9"));
        assert_eq!(fields.iter().flat_map(|field| field.1).copied().collect::<Vec<u8>>(), record);
    }

    #[test]
    fn values_are_printable_and_distinct() {
        let first = value(1, 0, 1000);
        assert_eq!(first.len(), 1000);
        assert!(first.iter().all(|byte| (b' '..=b'~').contains(byte)));
        assert_ne!(first, value(2, 0, 1000));
        assert_ne!(first, value(1, 1, 1000));
    }
}
