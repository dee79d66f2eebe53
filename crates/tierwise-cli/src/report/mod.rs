//! The HTML report: one file that needs neither network nor other files.

mod curves;
mod heat;
mod page;
mod plot;
mod sheet;

use std::io::Write;

pub use curves::colour;
pub use plot::{Axis, Curve, Plot};
pub use sheet::{Sheet, Table};

use crate::comparison::Compared;
use crate::failure::Outcome;
use crate::output::NewFile;

/// Writes the report.
pub fn write(compared: &[Compared], mut file: NewFile) -> Outcome {
    file.write_all(page::page(compared)?.into_string().as_bytes())?;
    file.finish()
}
