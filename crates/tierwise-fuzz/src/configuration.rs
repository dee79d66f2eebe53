//! Targets for an operator's files: each text is accepted, or refused with one of its lines.

use std::path::Path;

use tierwise_core::recipe::Recipe;
use tierwise_core::registry::BuildContext;
use tierwise_core::units::Bytes;
use tierwise_sim::machine::{Machine, TierModel};
use tierwise_sim::scenario::Scenario;

/// Checks that a text makes a policy, or a refusal that names a line.
pub(crate) fn recipe(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let size = Bytes(1 << 26);
    let machine = Machine::preset("dram-cxl", size, size).expect("the preset ships");
    let topology = machine.topology();
    let built =
        Recipe::parse("r.toml", text).and_then(|r| r.build(&BuildContext::new(&topology, 1)));
    if let Err(error) = built {
        assert_names_a_line(error.line, text, &error);
    }
}

/// Checks that a text makes a scenario whose machine can hold a page, or a refusal that names a
/// line.
pub(crate) fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Scenario::parse("s.toml", text, Path::new("base")) {
        Ok(scenario) => {
            let machine = scenario.resolve(Bytes(1 << 30));
            // A machine that manages its last tier itself may have no memory in the first.
            let first = usize::from(machine.hardware.is_some());
            let holds_a_page = |tier: &TierModel| tier.capacity >= machine.page_size;
            assert!(machine.tiers.iter().skip(first).all(holds_a_page));
            assert!(machine.topology().capacity().0 > 0);
        }
        Err(error) => assert_names_a_line(error.line, text, &error),
    }
}

/// Checks that a text makes a configuration of the daemon, or a refusal.
pub(crate) fn daemon(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = tierwised::config::Config::parse("tierwised.toml", text) {
        assert!(!error.to_string().is_empty());
    }
}

fn assert_names_a_line(line: usize, text: &str, error: &dyn std::fmt::Display) {
    assert!((1..=text.lines().count().max(1) + 1).contains(&line), "{error}");
}
