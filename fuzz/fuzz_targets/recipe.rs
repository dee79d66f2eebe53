//! Any text is a recipe of which a policy can be made, or a refusal that names a line of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;
use tierwise_sim::machine::Machine;

fuzz_target!(|text: &str| {
    let size = Bytes(1 << 26);
    let Some(machine) = Machine::preset("dram-cxl", size, size) else { return };
    let built = Recipe::parse("r.toml", text).and_then(|r| r.build(&BuildContext::new(&machine.topology(), 1)));
    if let Err(error) = built {
        assert!((1..=text.lines().count().max(1) + 1).contains(&error.line), "{error}");
    }
});
