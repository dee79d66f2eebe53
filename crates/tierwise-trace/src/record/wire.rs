//! Reads the messages of the recorder plugin (recorder/README.md, "The wire").
//!
//! The plugin is another program that this one started, but it is not trusted with memory: lists
//! are read entry by entry, so a wrong length ends at the end of the stream.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::RecordError;
use crate::{Allocation, ObjectHeat, PageAccess, PageBacking, ThreadShare, Window};

/// The version of the messages, as in recorder/plugin/wire.h.
const VERSION: u32 = 3;

/// The longest path of a program (`PATH_MAX`).
const MAX_PATH_BYTES: u32 = 4096;

/// The reason for a window's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The window reached its length.
    Full,
    /// This process requested the cut.
    Cut,
    /// The program ended.
    Exit,
}

/// A message of the plugin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WireMessage {
    /// A window, with its lists in the order of the data model.
    Window(Reason),
    /// The program executes another, which connects again.
    Exec {
        /// The ELF file.
        program: PathBuf,
        /// Processes forked since the last exec.
        children: u64,
    },
    /// The program has ended and reported everything.
    End {
        /// Processes forked since the last exec.
        children: u64,
    },
    /// The stream stopped: the program was killed, or executes another.
    Gone,
}

/// Reads the first message.
pub(super) fn read_hello(input: &mut impl Read) -> Result<(), RecordError> {
    let hello: [u8; 16] = read_array(input).map_err(RecordError::system("the recorder plugin"))?;
    if &hello[..4] != b"TWRH" || u32_at(&hello, 4) != VERSION {
        return Err(RecordError::Wire {
            found: format!("{:?}, version {}", &hello[..4].escape_ascii(), u32_at(&hello, 4)),
            expected: "TWRH, version 3",
        });
    }
    Ok(())
}

/// Reads the next message into `window`. A truncated message counts as absent.
pub(super) fn read(input: &mut impl Read, window: &mut Window) -> Result<WireMessage, RecordError> {
    match read_whole(input, window) {
        Err(RecordError::System { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
            ) =>
        {
            Ok(WireMessage::Gone)
        }
        other => other,
    }
}

fn read_whole(input: &mut impl Read, window: &mut Window) -> Result<WireMessage, RecordError> {
    let failed = || RecordError::system("the recorder plugin's stream");
    let start: [u8; 16] = read_array(input).map_err(failed())?;
    match &start[..4] {
        b"TWRE" => return Ok(WireMessage::End { children: u32_at(&start, 4).into() }),
        b"TWRX" => return read_exec(input, &start),
        b"TWRW" => {}
        other => {
            return Err(RecordError::Wire {
                found: format!("{:?}", other.escape_ascii().to_string()),
                expected: "TWRW, TWRX or TWRE",
            });
        }
    }
    let reason = match u32_at(&start, 4) {
        0 => Reason::Full,
        1 => Reason::Cut,
        2 => Reason::Exit,
        other => {
            return Err(RecordError::Wire {
                found: format!("reason {other}"),
                expected: "0, 1 or 2",
            });
        }
    };
    let lengths: [u8; 24] = read_array(input).map_err(failed())?;
    window.clear();
    window.instructions = u64_at(&start, 8);
    window.objects = u32_at(&lengths, 20).into();
    read_threads(input, u32_at(&lengths, 0), window)?;
    read_lists(input, &lengths, window).map_err(failed())?;
    sort(window);
    Ok(WireMessage::Window(reason))
}

fn read_exec(input: &mut impl Read, start: &[u8; 16]) -> Result<WireMessage, RecordError> {
    let length = u32_at(start, 4);
    if length > MAX_PATH_BYTES {
        return Err(RecordError::Wire {
            found: format!("a path of {length} bytes"),
            expected: "a path of at most 4096 bytes",
        });
    }
    let mut path = vec![0; length as usize];
    input.read_exact(&mut path).map_err(RecordError::system("the recorder plugin's stream"))?;
    Ok(WireMessage::Exec { program: OsString::from_vec(path).into(), children: u64_at(start, 8) })
}

fn read_threads(input: &mut impl Read, count: u32, window: &mut Window) -> Result<(), RecordError> {
    for _ in 0..count {
        let bytes: [u8; 16] =
            read_array(input).map_err(RecordError::system("the recorder plugin's stream"))?;
        let number = u32_at(&bytes, 0);
        let thread = u16::try_from(number).map_err(|_| RecordError::Wire {
            found: format!("thread {number}"),
            expected: "a thread number of at most 65535",
        })?;
        window.threads.push(ThreadShare { thread, instructions: u64_at(&bytes, 8) });
    }
    Ok(())
}

/// Reads the lists that follow the threads.
fn read_lists(input: &mut impl Read, lengths: &[u8; 24], window: &mut Window) -> io::Result<()> {
    for _ in 0..u32_at(lengths, 4) {
        let bytes: [u8; 16] = read_array(input)?;
        window.allocations.push(Allocation {
            vpn: u64_at(&bytes, 0),
            page: u32_at(&bytes, 8),
            thread: u16_at(&bytes, 12),
            kind: if bytes[14] == 0 { PageBacking::Anon } else { PageBacking::File },
            order: bytes[15],
        });
    }
    for _ in 0..u32_at(lengths, 8) {
        let bytes: [u8; 24] = read_array(input)?;
        window.accesses.push(PageAccess {
            page: u32_at(&bytes, 0),
            loads: u32_at(&bytes, 4),
            stores: u32_at(&bytes, 8),
            load_misses: u32_at(&bytes, 12),
            store_misses: u32_at(&bytes, 16),
            supervised: u16_at(&bytes, 20),
            thread: u16_at(&bytes, 22),
        });
    }
    for _ in 0..u32_at(lengths, 12) {
        let bytes: [u8; 4] = read_array(input)?;
        window.unmaps.push(u32_at(&bytes, 0));
    }
    for _ in 0..u32_at(lengths, 16) {
        let bytes: [u8; 8] = read_array(input)?;
        let heat = ObjectHeat { page: u32_at(&bytes, 0), hotness: u32_at(&bytes, 4) };
        window.object_heat.push(heat);
    }
    Ok(())
}

/// The plugin sends rows in order of first touch, and a thread that ended beside its successor.
fn sort(window: &mut Window) {
    window.accesses.sort_unstable_by_key(|access| access.page);
    window.unmaps.sort_unstable();
    window.threads.sort_unstable_by_key(|share| share.thread);
    window.threads.dedup_by(|later, earlier| {
        let same = later.thread == earlier.thread;
        if same {
            earlier.instructions = earlier.instructions.saturating_add(later.instructions);
        }
        same
    });
}

fn read_array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window with one thread and nothing else.
    fn window_of(thread: u32) -> Vec<u8> {
        let mut bytes = b"TWRW\0\0\0\0".to_vec();
        bytes.extend(100_u64.to_le_bytes());
        [1_u32, 0, 0, 0, 0, 0, thread, 0].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.extend(100_u64.to_le_bytes());
        bytes
    }

    #[test]
    fn thread_beyond_sixteen_bits_is_refused() {
        let mut window = Window::default();
        let message = read(&mut &window_of(65_535)[..], &mut window).unwrap();
        assert_eq!(message, WireMessage::Window(Reason::Full));
        assert_eq!(window.threads, [ThreadShare { thread: 65_535, instructions: 100 }]);
        let error = read(&mut &window_of(65_536)[..], &mut window).unwrap_err().to_string();
        assert!(error.contains("thread 65536"), "{error}");
    }
}
