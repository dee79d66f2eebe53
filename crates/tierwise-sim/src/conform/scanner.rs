//! Reads 48 MiB from end to end, again and again: every page is hot while it is read, and none is
//! worth keeping.

use tierwise_trace::generate::GeneratorSpec;

use super::setting::{MIB, program, victim};
use super::{Adversary, Setting};

pub(super) const ADVERSARY: Adversary = Adversary {
    name: "scanner",
    summary: "reads 48 MiB from end to end, again and again",
    setting,
};

fn setting() -> Setting {
    let scanner = program("scanner", "sequential", 48 * MIB, GeneratorSpec::default());
    Setting { victims: vec![victim()], adversaries: vec![scanner] }
}
