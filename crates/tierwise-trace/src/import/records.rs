//! Records of a foreign binary file, all of one length.

use std::io::BufRead;

use super::ImportProblem;

/// The eight bytes at `at`, as a number.
pub(super) fn word(record: &[u8], at: usize) -> u64 {
    record[at..at + 8].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Takes the offset and the bytes of a record.
pub(super) type TakeRecord<'a, const N: usize> =
    dyn FnMut(u64, &[u8; N]) -> Result<(), ImportProblem> + 'a;

/// Calls `take` with the offset and the bytes of each record of `N` bytes. Refuses a part of one at
/// the end.
pub(super) fn for_each<const N: usize>(
    input: &mut dyn BufRead,
    take: &mut TakeRecord<'_, N>,
) -> Result<(), ImportProblem> {
    let mut offset = 0;
    loop {
        let mut record = [0; N];
        let mut filled = 0;
        while filled < N {
            match input.read(&mut record[filled..]) {
                Ok(0) if filled == 0 => return Ok(()),
                Ok(0) => {
                    let reason = format!("the input ends within a record, after {filled} bytes");
                    return Err(ImportProblem::Record(offset, reason));
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        take(offset, &record)?;
        offset += N as u64;
    }
}
