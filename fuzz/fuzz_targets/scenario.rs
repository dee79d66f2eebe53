//! Any text is a scenario or a refusal that names a line of it.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tierwise_core::units::Bytes;
use tierwise_sim::scenario::Scenario;

fuzz_target!(|text: &str| {
    match Scenario::parse("s.toml", text, Path::new("base")) {
        Ok(scenario) => {
            let machine = scenario.resolve(Bytes(1 << 30));
            assert!(machine.tiers.iter().all(|tier| tier.capacity >= machine.page_size));
            assert!(machine.topology().capacity().0 > 0);
        }
        Err(error) => {
            assert!((1..=text.lines().count().max(1) + 1).contains(&error.line), "{error}");
        }
    }
});
