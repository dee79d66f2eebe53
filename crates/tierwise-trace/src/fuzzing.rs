//! Every reader of bytes from other programs, except the trace reader itself, as a function of
//! bytes. The fuzz targets call them.

use std::path::Path;
use std::time::Duration;

use crate::import::{self, ImportFormat, ImportOptions};
use crate::reader::TraceReader;
use crate::record::fuzzing::wire;
use crate::writer::{TraceWriter, WriterOptions};
use crate::{CacheModel, Header, Window, WindowSource};

/// A reader of bytes.
pub type ByteReader = fn(&[u8]);

/// Every reader, by name.
pub const TARGETS: &[(&str, ByteReader)] = &[
    ("champsim", |bytes| import(ImportFormat::Champsim, bytes)),
    ("damo", |bytes| import(ImportFormat::Damo, bytes)),
    ("lackey", |bytes| import(ImportFormat::Lackey, bytes)),
    ("oracle_general", |bytes| import(ImportFormat::OracleGeneral, bytes)),
    ("perf_script", |bytes| import(ImportFormat::PerfScript, bytes)),
    ("ramulator", |bytes| import(ImportFormat::Ramulator, bytes)),
    ("ramulator_cpu", |bytes| import(ImportFormat::RamulatorCpu, bytes)),
    ("unpack", unpack),
    ("wire", wire),
];

/// A small cache, so that inputs of a few lines fill windows and miss.
const CACHE: CacheModel = CacheModel { size_bytes: 1024, ways: 1, line_bytes: 64 };

/// A megabyte: a few bytes can name much memory, and as many rows would be the limit's cost.
const MAX_MEMORY: u64 = 1 << 20;

fn options() -> ImportOptions {
    ImportOptions {
        command: Vec::new(),
        window_instructions: 3,
        llc: Some(CACHE),
        interval: Duration::from_millis(100),
        instructions_per_ns: 2.3,
        instructions_per_access: 2,
        max_memory: MAX_MEMORY,
        writer: WriterOptions { level: 1, overwrite: false },
    }
}

/// Imports the bytes, and checks that the imported windows are a readable trace.
fn import(format: ImportFormat, bytes: &[u8]) {
    let options = options();
    let header = Header {
        command: Vec::new(),
        host: String::new(),
        page_size: 4096,
        window_instructions: 3,
        cache: CACHE,
    };
    let name = Path::new("fuzz");
    let Ok(mut writer) = TraceWriter::new(name, Vec::new(), &header, options.writer) else {
        return;
    };
    let push = &mut |window: &Window| writer.push(window);
    if let Err(error) = import::windows(format, bytes, name, &options, push) {
        assert!(error.to_string().starts_with("fuzz"), "{error}");
        return;
    }
    let read = writer.finish().and_then(|(file, totals)| {
        assert!(totals.pages * 4096 <= MAX_MEMORY, "{totals:?}");
        let mut reader = TraceReader::new(name, std::io::Cursor::new(file))?;
        let mut window = Window::default();
        while reader.next_window(&mut window)? {}
        assert_eq!(reader.totals(), totals);
        Ok(())
    });
    assert!(read.is_ok(), "what was imported cannot be read: {read:?}");
}

/// Unpacks the bytes as each packing. The first 16 MiB show a panic; a bomb's length is the
/// importer's to bound.
fn unpack(bytes: &[u8]) {
    for name in ["a.gz", "a.xz", "a.zst"] {
        if let Ok(unpacked) = import::unpacked(bytes, Path::new(name)) {
            let mut start = std::io::Read::take(unpacked, 16 << 20);
            // Damaged bytes are an error, of which nothing remains.
            let _ = std::io::copy(&mut start, &mut std::io::sink());
        }
    }
}
