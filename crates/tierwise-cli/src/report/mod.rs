//! The HTML report: one file that needs neither network nor other files.

mod curves;
mod heat;
mod page;
mod plot;
mod sheet;

use std::io::Write;

pub use curves::{colour, thinned};
pub use heat::picture;
pub use plot::{Axis, Plot, PlottedCurve};
pub use sheet::{ReportPart, ReportSheet, ReportTable};

use crate::comparison::Compared;
use crate::failure::CommandResult;
use crate::output::NewFile;

/// Writes the report.
pub fn write(compared: &[Compared], mut file: NewFile) -> CommandResult {
    file.write_all(page::page(compared)?.into_string().as_bytes())?;
    file.finish()
}
