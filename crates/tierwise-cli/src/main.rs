//! The tierwise command.
fn main() {}
