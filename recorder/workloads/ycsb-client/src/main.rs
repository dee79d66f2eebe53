//! Loads a key-value store and drives it with a YCSB workload while it is recorded.
//!
//! Keys are YCSB's: "user" and the hashed record number. A record is one value of random printable
//! bytes (YCSB's ten fields, laid end to end); an update writes all of it. Everything is decided by
//! the seed. One connection sends one request at a time, as one YCSB client thread does.

mod marks;
mod store;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tierwise_trace::generate::ycsb::{OperationKind, OperationMix, Operations, hash};

use marks::Marks;
use store::{Store, StoreKind};

/// Operations between two reports to the recorder: one window of the recordings holds thousands.
const REPORT_EVERY: u64 = 100;

#[derive(Parser)]
struct Arguments {
    /// Server to drive, on 127.0.0.1
    #[arg(long, value_enum)]
    store: StoreKind,
    /// Port it listens on
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
    /// Seed of every draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The recorder's FIFO
    #[arg(long)]
    marks: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mix = OperationMix::named(&arguments.workload).with_context(|| {
        format!("--workload {}: choose one of a, b, c, d, f, w", arguments.workload)
    })?;
    let mut store = store::connect(arguments.store, arguments.port)?;
    let mut marks = Marks::open(arguments.marks.as_deref())?;
    marks.phase("load")?;
    for record in 0..arguments.records {
        store.write(&key_name(record), &value(record, 0, arguments.record_bytes))?;
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
        let key = key_name(operation.key);
        if matches!(operation.kind, OperationKind::Read | OperationKind::ReadModifyWrite) {
            let found = store.read(&key)?.len();
            ensure!(found == arguments.record_bytes, "{key} has {found} bytes");
        }
        if operation.kind != OperationKind::Read {
            store.write(&key, &value(operation.key, number, arguments.record_bytes))?;
        }
        if number % REPORT_EVERY == 0 {
            marks.operations(REPORT_EVERY)?;
        }
    }
    Ok(())
}

fn key_name(record: u64) -> String {
    format!("user{}", hash(record))
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
