//! Takes all fast memory before anybody else is there, and then leaves it idle. The victim comes
//! later: its floor has to be taken back from pages that nobody uses.

use std::time::Duration;

use tierwise_trace::generate::GeneratorSpec;

use super::setting::{MIB, from, program, victim};
use super::{Adversary, Setting};

pub(super) const ADVERSARY: Adversary = Adversary {
    name: "idle hoarder",
    summary: "fills the fast memory and leaves it idle; the victim starts 5 s later",
    setting,
};

/// The hoarder has all that it wants by then.
const VICTIM_START: Duration = Duration::from_secs(5);

fn setting() -> Setting {
    let spec = GeneratorSpec {
        // After its load phase it touches twelve pages.
        hot_fraction: 0.001,
        hot_access_share: 1.0,
        ..GeneratorSpec::default()
    };
    let hoarder = program("hoarder", "phase-change", 48 * MIB, spec);
    Setting { victims: vec![from(VICTIM_START, victim())], adversaries: vec![hoarder] }
}
