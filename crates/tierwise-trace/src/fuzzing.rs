//! Every reader of bytes from other programs, except the trace reader itself, as a function of
//! bytes. The fuzz targets call them.

use std::path::Path;

use crate::import::lackey::{self, ImportOptions};
use crate::reader::TraceReader;
use crate::record::fuzzing::wire;
use crate::writer::{TraceWriter, WriterOptions};
use crate::{CacheModel, Header, Window, WindowSource};

/// A reader of bytes.
pub type ByteReader = fn(&[u8]);

/// Every reader, by name.
pub const TARGETS: &[(&str, ByteReader)] = &[("lackey", lackey), ("wire", wire)];

/// A small cache, so that inputs of a few lines fill windows and miss.
const CACHE: CacheModel = CacheModel { size_bytes: 1024, ways: 1, line_bytes: 64 };

/// Imports the bytes, and checks that the imported windows are a readable trace.
fn lackey(bytes: &[u8]) {
    let options = ImportOptions {
        command: Vec::new(),
        window_instructions: 3,
        llc: CACHE,
        writer: WriterOptions { level: 1, overwrite: false },
    };
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
    if lackey::windows(bytes, name, &options, &mut |window| writer.push(window)).is_err() {
        return;
    }
    let read = writer.finish().and_then(|(file, totals)| {
        let mut reader = TraceReader::new(name, std::io::Cursor::new(file))?;
        let mut window = Window::default();
        while reader.next_window(&mut window)? {}
        assert_eq!(reader.totals(), totals);
        Ok(())
    });
    assert!(read.is_ok(), "what was imported cannot be read: {read:?}");
}
