//! Pressure stall information: the share of time in which tasks waited for memory
//! (`Documentation/accounting/psi.rst`).

use std::path::Path;
use std::time::Duration;

use bstr::ByteSlice;

use crate::bytes::{parsed, shown, words};
use crate::error::{LinuxError, Result};

/// Shares of time in percent, and the total time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stall {
    /// Over the last 10 seconds, 0 to 100.
    pub avg10: f64,
    /// Over the last minute, 0 to 100.
    pub avg60: f64,
    /// Over the last five minutes, 0 to 100.
    pub avg300: f64,
    /// Time stalled since the group's creation.
    pub total: Duration,
}

/// `memory.pressure`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemoryPressure {
    /// At least one task waited.
    pub some: Stall,
    /// All tasks waited.
    pub full: Stall,
}

impl MemoryPressure {
    /// Parses `memory.pressure` or `/proc/pressure/memory`.
    ///
    /// # Errors
    /// A line differs from the kernel's documentation.
    pub fn parse(path: &Path, text: impl AsRef<[u8]>) -> Result<Self> {
        let mut pressure = Self::default();
        for (index, line) in text.as_ref().lines().enumerate() {
            let (kind, stall) = parse_line(line).ok_or_else(|| LinuxError::Format {
                path: path.to_owned(),
                line: Some(index + 1),
                found: format!("{:?}", shown(line)),
                expected: "\"some avg10=0.00 avg60=0.00 avg300=0.00 total=0\"",
            })?;
            match kind {
                b"some" => pressure.some = stall,
                b"full" => pressure.full = stall,
                _ => {}
            }
        }
        Ok(pressure)
    }
}

fn parse_line(line: &[u8]) -> Option<(&[u8], Stall)> {
    let mut words = words(line);
    let kind = words.next()?;
    let mut stall = Stall::default();
    for word in words {
        let (key, value) = word.split_once_str(b"=")?;
        match key {
            b"avg10" => stall.avg10 = parsed(value)?,
            b"avg60" => stall.avg60 = parsed(value)?,
            b"avg300" => stall.avg300 = parsed(value)?,
            b"total" => stall.total = Duration::from_micros(parsed(value)?),
            _ => {}
        }
    }
    Some((kind, stall))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_lines_as_the_kernel_writes_them() {
        let text = "some avg10=1.53 avg60=0.87 avg300=0.20 total=2458761\n\
                    full avg10=0.00 avg60=0.12 avg300=0.03 total=812345\n";
        let pressure = MemoryPressure::parse(Path::new("memory.pressure"), text).unwrap();
        assert_eq!((pressure.some.avg10, pressure.full.avg60), (1.53, 0.12));
        assert_eq!(pressure.full.total, Duration::from_micros(812_345));
        let message =
            MemoryPressure::parse(Path::new("memory.pressure"), "some avg10=high\n").unwrap_err();
        assert!(message.to_string().starts_with("memory.pressure:1: found \"some avg10=high\""));
    }

    proptest! {
        #[test]
        fn no_pressure_file_makes_it_panic(
            text in "(some|full|avg10=[0-9.e+-]{0,9}|total=[0-9]{0,21}| |.{0,9}|\n\
                                   ){0,20}",
        ) {
            let _ = MemoryPressure::parse(Path::new("f"), &text);
        }
    }
}
