//! Files of recorded runs: JSON, compressed with zstd if the name ends in `.zst`.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use tierwise_sim::record::{RunRecord, VERSION};
use tierwise_trace::pipe;

use crate::failure::{CommandResult, Failure};
use crate::input::cannot_read;
use crate::output::NewFile;

/// zstd's own default: a record shrinks to a tenth at the speed of its creation.
const LEVEL: i32 = 3;

/// The first bytes of a zstd frame (RFC 8878, section 3.1.1), so that a renamed file is still read.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The most bytes that one byte of a packed record may unpack to: recorded runs reach 34. A record
/// in memory takes up to 16 times its text, so this bounds what a small file makes a reader
/// allocate.
const MAX_RATIO: u64 = 128;

/// Bytes that any record may unpack to in addition.
const ALLOWANCE_BYTES: u64 = 256 << 10;

/// Writes a record into a file that was opened for `path`.
pub fn write(record: &RunRecord, path: &Path, mut file: NewFile) -> CommandResult {
    if path.extension().is_some_and(|e| e == "zst") {
        let mut out = zstd::Encoder::new(&mut file, LEVEL)?;
        json(record, &mut out)?;
        out.finish()?;
    } else {
        json(record, &mut file)?;
    }
    file.finish()
}

fn json(record: &RunRecord, out: &mut dyn Write) -> CommandResult {
    let mut out = BufWriter::new(out);
    serde_json::to_writer(&mut out, record)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// A reader that fails when the text has more than the bytes left.
struct Bounded<R> {
    text: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.text.read(into)?;
        let over = || {
            io::Error::other(format!(
                "it unpacks to more than {MAX_RATIO} times its size and {} KiB",
                ALLOWANCE_BYTES >> 10
            ))
        };
        self.left = self.left.checked_sub(read as u64).ok_or_else(over)?;
        Ok(read)
    }
}

/// Reads a record.
pub fn read(path: &Path) -> Result<RunRecord, Failure> {
    let refuse = |why: &dyn std::fmt::Display| Failure::User(format!("{}: {why}", path.display()));
    let unread = |error: io::Error| cannot_read(path, &error);
    let mut file = BufReader::new(pipe::open(path).map_err(unread)?);
    let mut start = Vec::new();
    file.by_ref().take(4).read_to_end(&mut start).map_err(unread)?;
    let parsed: Result<RunRecord, _> = if start == MAGIC {
        file.read_to_end(&mut start).map_err(unread)?;
        let left = ALLOWANCE_BYTES + MAX_RATIO * start.len() as u64;
        let text = zstd::Decoder::new(start.as_slice()).map_err(|e| refuse(&e))?;
        serde_json::from_reader(BufReader::new(Bounded { text, left }))
    } else {
        serde_json::from_reader(start.as_slice().chain(file))
    };
    let record = parsed.map_err(|error| {
        refuse(&format!(
            "not a recorded run: {error}; `tierwise simulate --record-run FILE` makes one"
        ))
    })?;
    if record.version != VERSION {
        let found = record.version;
        return Err(refuse(&format!(
            "a recorded run of version {found}; this program reads version {VERSION}: record it \
             again"
        )));
    }
    Ok(record)
}
