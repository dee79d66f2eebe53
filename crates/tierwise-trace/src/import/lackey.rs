//! Reads the output of `valgrind --tool=lackey --trace-mem=yes`.
//!
//! Lackey prints one line per event:
//!
//! ```text
//! I  04001200,3      an instruction of 3 bytes was executed at this address
//!  L 1ffefffe48,8    8 bytes were loaded
//!  S 1ffefffe40,8    8 bytes were stored
//!  M 0421b0c8,4      4 bytes were modified: a load, then a store
//! ```
//!
//! Lines that start with `==` or `--` are Valgrind's own messages. Lackey does not report mappings
//! and threads: every page counts as anonymous, exists to the end, and belongs to thread 0. The
//! kernel's copies for the program are missing too. The misses come from the same model of a cache
//! as the recorder's.

use std::io::BufRead;

use super::ImportProblem;
use super::lines::{for_each, hexadecimal};
use super::windows::WindowBuilder;

/// Reads events to the end of the input.
pub(super) fn read(
    input: &mut dyn BufRead,
    windows: &mut WindowBuilder<'_>,
) -> Result<(), ImportProblem> {
    for_each(input, &mut |line| {
        match parse(line)? {
            Event::Message => {}
            Event::Instruction => windows.execute(1)?,
            Event::Load { address, bytes } => windows.access(address, bytes, false)?,
            Event::Store { address, bytes } => windows.access(address, bytes, true)?,
            Event::Modify { address, bytes } => {
                windows.access(address, bytes, false)?;
                windows.access(address, bytes, true)?;
            }
        }
        Ok(())
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Message,
    Instruction,
    Load { address: u64, bytes: u32 },
    Store { address: u64, bytes: u32 },
    Modify { address: u64, bytes: u32 },
}

/// The longest access of x86: FXSAVE and XSAVE areas take less than a page.
const MAX_ACCESS_BYTES: u32 = 4096;

fn parse(line: &[u8]) -> Result<Event, &'static str> {
    let line = line.trim_ascii_end();
    if line.is_empty() || line.starts_with(b"==") || line.starts_with(b"--") {
        return Ok(Event::Message);
    }
    let (kind, operand) = line.split_at_checked(3).ok_or("too short")?;
    let operand = std::str::from_utf8(operand).map_err(|_| "not text")?;
    let (address, bytes) = operand.split_once(',').ok_or("no comma after the address")?;
    let address = hexadecimal(address)?;
    let bytes: u32 = bytes.parse().map_err(|_| "the size is not a number")?;
    if bytes == 0 || bytes > MAX_ACCESS_BYTES || address.checked_add(bytes.into()).is_none() {
        return Err("the size or the address is out of range");
    }
    match kind {
        b"I  " => Ok(Event::Instruction),
        b" L " => Ok(Event::Load { address, bytes }),
        b" S " => Ok(Event::Store { address, bytes }),
        b" M " => Ok(Event::Modify { address, bytes }),
        _ => Err("neither I, L, S nor M"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_read() {
        assert_eq!(parse(b"I  04001200,3\n"), Ok(Event::Instruction));
        assert_eq!(parse(b" L 1ffe,8\n"), Ok(Event::Load { address: 0x1ffe, bytes: 8 }));
        assert_eq!(parse(b" S 10,1"), Ok(Event::Store { address: 16, bytes: 1 }));
        assert_eq!(parse(b" M 10,16\r\n"), Ok(Event::Modify { address: 16, bytes: 16 }));
        assert_eq!(parse(b"==12== lackey\n"), Ok(Event::Message));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in
            [&b" X 10,1"[..], b" L 10", b" L zz,1", b" L 10,0", b" L", b" L ffffffffffffffff,8"]
        {
            assert!(parse(line).is_err(), "{:?}", line.escape_ascii().to_string());
        }
    }
}
