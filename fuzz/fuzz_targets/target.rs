//! One binary for all targets: `TIERWISE_FUZZ_TARGET` names the row of the table in
//! `tierwise-fuzz`.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tierwise_fuzz::{Target, find};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("TIERWISE_FUZZ_TARGET").expect("TIERWISE_FUZZ_TARGET names a target");
    find(&name).unwrap_or_else(|| panic!("TIERWISE_FUZZ_TARGET={name}: no such target"))
});

fuzz_target!(|bytes: &[u8]| TARGET.1(bytes));
