//! The fuzz targets: one table of functions that take any bytes.
//!
//! A target parses input that another user can send or name, and panics when a promise is broken.
//! Two harnesses run the same table:
//!
//! - `tests/mutated_seeds.rs`, in `make test`: mutates the seeds of `seeds/TARGET/` for seconds,
//!   with the stable toolchain.
//! - `fuzz/`, by `make fuzz`: libFuzzer with coverage feedback, a minute per target, with a nightly
//!   toolchain.
//!
//! A parser is added to the table in the crate that owns it (`fuzzing.rs`), with a directory of
//! seeds here.

#![warn(unreachable_pub)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod configuration;
mod trace;

use std::path::{Path, PathBuf};

/// A function that takes any bytes, under the name of its directory of seeds.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// The targets of this crate itself, because they take parts of several crates.
const OWN: &[FuzzTarget] = &[
    ("recipe", configuration::recipe),
    ("scenario", configuration::scenario),
    ("daemon_config", configuration::daemon),
    ("trace_reader", trace::reader),
];

/// Every target of the workspace.
pub fn targets() -> impl Iterator<Item = FuzzTarget> {
    [
        OWN,
        tierwise_linux::fuzzing::TARGETS,
        tierwise_trace::fuzzing::TARGETS,
        tierwised::fuzzing::TARGETS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// The target of that name.
pub fn find(name: &str) -> Option<FuzzTarget> {
    targets().find(|target| target.0 == name)
}

/// Directory of the seeds of all targets, with one directory per target.
pub fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")
}
