//! Whether the machine is as it was when it was last read as a whole, which costs some dozens of
//! files.

use std::fmt::Write;

/// What the files said that [`super::LinuxHost::has_changed`] reads.
#[derive(Debug, Default)]
pub struct Fingerprint {
    before: String,
    now: String,
}

impl Fingerprint {
    /// What was seen was not acted upon: the next reading is another whatever it says.
    pub fn forget(&mut self) {
        self.before.clear();
    }

    /// Another reading starts.
    pub(super) fn start(&mut self) {
        self.now.clear();
    }

    /// Something that may change.
    pub(super) fn add(&mut self, text: &str) {
        self.now.push_str(text);
        self.now.push('\n');
    }

    /// A number that may change.
    pub(super) fn add_number(&mut self, number: u64) {
        // Writing to a String does not fail.
        let _ = writeln!(self.now, "{number}");
    }

    /// Whether it is another than before, which it is the next time.
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
