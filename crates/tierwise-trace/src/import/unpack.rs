//! Unpacks inputs by the ending of their names: traces are distributed as xz (ChampSim), zstd
//! (libCacheSim) and gzip.

use std::io::{BufRead, BufReader, Read, Result};
use std::path::Path;

/// Limit of the memory of unpacking, as log2 of bytes: `xz -9` takes 64 MiB and `zstd --long` 128
/// MiB. A larger one is an attempt to take the machine's memory.
const WINDOW_LOG: u32 = 27;

/// Returns the bytes of an input, unpacked if its name ends in gz, xz or zst.
///
/// # Errors
/// The unpacker cannot start. Damaged data are errors of reading.
pub fn unpacked<'a>(input: impl Read + 'a, name: &Path) -> Result<Box<dyn BufRead + 'a>> {
    let ending = name.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let input = BufReader::new(input);
    Ok(match ending {
        "gz" => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(input))),
        // KiB; the dictionary, and as much again for the decoder's tables.
        "xz" => {
            let limit = 2 << (WINDOW_LOG - 10);
            Box::new(BufReader::new(lzma_rust2::XzReader::new_mem_limit(input, true, limit)))
        }
        "zst" => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
            decoder.window_log_max(WINDOW_LOG)?;
            Box::new(BufReader::new(decoder))
        }
        _ => Box::new(input),
    })
}
