//! Reads ChampSim's traces: instructions of 64 bytes each, little-endian
//! (`struct input_instr` of inc/trace_instruction.h).
//!
//! | byte | content |
//! |---|---|
//! | 0 | address of the instruction |
//! | 8 | 1 if it is a branch, 1 if it is taken; 2 output and 4 input registers |
//! | 16 | addresses of 2 stores; 0: none |
//! | 32 | addresses of 4 loads; 0: none |
//!
//! The sizes of accesses, mappings and threads are missing: an access lies in one line, and every
//! page counts as anonymous, exists to the end, and belongs to thread 0. Traces of several hundred
//! million instructions, as they are distributed, start in the middle of a program: the pages that
//! it has touched before count as allocated at their first access.

use std::io::BufRead;

use super::ImportProblem;
use super::records::{for_each, word};
use super::windows::WindowBuilder;

/// Bytes of an instruction.
const RECORD: usize = 64;

/// Offset of the stores' addresses, and of the loads'.
const STORES: usize = 16;
const LOADS: usize = 32;

/// Reads instructions to the end of the input.
pub(super) fn read(
    input: &mut dyn BufRead,
    windows: &mut WindowBuilder<'_>,
) -> Result<(), ImportProblem> {
    for_each::<RECORD>(input, &mut |offset, record| {
        // A trace of another kind, or one that is still packed, would be read as nonsense.
        if record[8] > 1 || record[9] > 1 {
            let reason =
                format!("the mark of a branch is {}, not 0 or 1", record[8].max(record[9]));
            return Err(ImportProblem::Record(offset, reason));
        }
        windows.execute(1)?;
        // An instruction loads before it stores.
        for (from, to, store) in [(LOADS, RECORD, false), (STORES, LOADS, true)] {
            for at in (from..to).step_by(8) {
                match word(record, at) {
                    0 => {}
                    address => windows.access(address, 1, store)?,
                }
            }
        }
        Ok(())
    })
}
