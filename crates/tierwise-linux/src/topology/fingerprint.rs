//! Detects changes of the machine without reading all of its dozens of files.

use std::fmt::Write;

/// The content of the files that [`super::LinuxHost::has_changed`] reads.
#[derive(Debug, Default)]
pub struct Fingerprint {
    before: String,
    now: String,
}

impl Fingerprint {
    /// Makes the next reading differ, because the last one was not used.
    pub fn forget(&mut self) {
        self.before.clear();
    }

    /// Starts another reading.
    pub(super) fn start(&mut self) {
        self.now.clear();
    }

    /// Adds a text that may change.
    pub(super) fn add(&mut self, text: &str) {
        self.now.push_str(text);
        self.now.push('\n');
    }

    /// Adds a number that may change.
    pub(super) fn add_number(&mut self, number: u64) {
        // Writing to a String does not fail.
        let _ = writeln!(self.now, "{number}");
    }

    /// Returns true if this reading differs from the last one, and keeps it as the last one.
    pub(super) fn replace(&mut self) -> bool {
        std::mem::swap(&mut self.before, &mut self.now);
        self.before != self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unhandled_change_is_reported_again() {
        let mut machine = Fingerprint::default();
        let mut read = |forget: bool| {
            if forget {
                machine.forget();
            }
            machine.start();
            machine.add("0-1");
            machine.add_number(4096);
            machine.replace()
        };
        assert_eq!([read(false), read(false), read(true), read(false)], [true, false, true, false]);
    }
}
