//! Reads Ramulator's text traces, of version 1 and 2.
//!
//! Memory traces have the requests that reach memory, one per line: `LD 0x12340` or `ST 4096`
//! (Ramulator 2, LoadStoreTrace), `0x12340 R` or `0x12340 W` (Ramulator 1). They have neither times
//! nor instructions. Ramulator 2's ReadWriteTrace names channels, ranks and banks in place of
//! addresses, and cannot be read.
//!
//! CPU traces (SimpleO3 of Ramulator 2) have a line per load: the instructions before it without
//! an access, its address, and the address of a store if there is one.
//!
//! Addresses are taken as they are, physical or virtual; sizes, mappings and threads are missing.

use std::io::BufRead;

use super::ImportProblem;
use super::lines::{address, decimal, for_each};
use super::windows::WindowBuilder;

/// Reads a memory trace to the end of the input.
pub(super) fn read_accesses(
    input: &mut dyn BufRead,
    windows: &mut WindowBuilder<'_>,
) -> Result<(), ImportProblem> {
    for_each(input, &mut |line| {
        if let Some((address, store)) = access(line)? {
            windows.execute(windows.options().instructions_per_access)?;
            windows.access(address, 1, store)?;
        }
        Ok(())
    })
}

/// Reads a CPU trace to the end of the input.
pub(super) fn read_instructions(
    input: &mut dyn BufRead,
    windows: &mut WindowBuilder<'_>,
) -> Result<(), ImportProblem> {
    for_each(input, &mut |line| {
        if let Some(Step { before, load, store }) = step(line)? {
            windows.execute(before + 1)?;
            windows.access(load, 1, false)?;
            if let Some(store) = store {
                windows.access(store, 1, true)?;
            }
        }
        Ok(())
    })
}

/// The words of a line; none for an empty line and a comment.
fn words(line: &[u8]) -> Result<Vec<&str>, &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "not text")?;
    let line = line.split('#').next().unwrap_or_default();
    Ok(line.split_ascii_whitespace().collect())
}

/// The address of a memory trace's line, and true for a store.
fn access(line: &[u8]) -> Result<Option<(u64, bool)>, &'static str> {
    match words(line)?[..] {
        [] => Ok(None),
        ["LD", at] | [at, "R"] => Ok(Some((address(at)?, false))),
        ["ST", at] | [at, "W"] => Ok(Some((address(at)?, true))),
        ["R" | "W", at] if at.contains(',') => {
            Err("the line names a bank and a row (ReadWriteTrace), which have no address")
        }
        _ => Err("neither LD ADDRESS, ST ADDRESS, ADDRESS R nor ADDRESS W"),
    }
}

/// A line of a CPU trace.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    /// Instructions before the load.
    before: u64,
    /// Address of the load.
    load: u64,
    /// Address of the store, if there is one.
    store: Option<u64>,
}

fn step(line: &[u8]) -> Result<Option<Step>, &'static str> {
    /// Ramulator reads the number as an int.
    const MAX: u64 = i32::MAX as u64;
    let words = words(line)?;
    let (before, load, store) = match words[..] {
        [] => return Ok(None),
        [before, load] => (before, load, None),
        [before, load, store] => (before, load, Some(store)),
        _ => return Err("neither two nor three numbers"),
    };
    let before = decimal(before, "the number of instructions is no number")?;
    if before > MAX {
        return Err("the number of instructions is above 2147483647");
    }
    Ok(Some(Step { before, load: address(load)?, store: store.map(address).transpose()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_access_are_read() {
        assert_eq!(access(b"LD 0x12340"), Ok(Some((0x12340, false))));
        assert_eq!(access(b"ST 4096"), Ok(Some((4096, true))));
        assert_eq!(access(b"0x20 R"), Ok(Some((0x20, false))));
        assert_eq!(access(b"0x20 W # written back"), Ok(Some((0x20, true))));
        assert_eq!(access(b"# a comment"), Ok(None));
        assert!(access(b"R 0,0,1,2,3").unwrap_err().contains("ReadWriteTrace"));
        for wrong in [&b"LD"[..], b"LD x", b"PF 0x10", b"LD -1", b"1 2 3"] {
            assert!(access(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn store_of_a_step_is_optional() {
        let read = |before, load, store| Ok(Some(Step { before, load, store }));
        assert_eq!(step(b"3 64 128"), read(3, 64, Some(128)));
        assert_eq!(step(b"0 64"), read(0, 64, None));
        for wrong in [&b"3"[..], b"3 4 5 6", b"-1 4", b"2147483648 4", b"3 LD"] {
            assert!(step(wrong).is_err(), "{wrong:?}");
        }
    }
}
