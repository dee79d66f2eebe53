//! `tierwise trace cut`: a part of a trace, or coarser windows.

use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use tierwise_trace::WindowSource;
use tierwise_trace::cut::{Cut, Merge, WindowSelection};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::writer::{WriterOptions, write_trace};

use crate::failure::{CommandResult, Failure};
use crate::number::counted;
use crate::value::whole;

/// Write a part of a trace as a trace: a phase, or windows by number; or merge windows.
///
/// Pages that exist when the part starts are allocated in its first window.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise trace cut all.twt run.twt --phase run\n  \
                        tierwise trace cut all.twt some.twt --windows 10..20 --merge 2")]
pub struct CutCommand {
    /// The trace to read.
    #[arg(value_name = "FROM.twt")]
    from: PathBuf,
    /// The trace to write.
    #[arg(value_name = "TO.twt")]
    to: PathBuf,
    /// Windows to keep, from the first to the one before the last, counted from 0.
    #[arg(long, value_name = "FIRST..LAST", value_parser = range)]
    windows: Option<Range<u64>>,
    /// The phase to keep, by the name of the mark at its start.
    #[arg(long, value_name = "NAME", conflicts_with = "windows")]
    phase: Option<String>,
    /// Merge this many windows into one; phases stay separate.
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
          value_parser = whole(1..=1_000_000_u64))]
    merge: u64,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let form = || "allowed: FIRST..LAST with whole numbers, for instance 10..20".to_owned();
    let (first, last) = text.split_once("..").ok_or_else(form)?;
    let first: u64 = if first.is_empty() { 0 } else { first.parse().map_err(|_| form())? };
    let last = if last.is_empty() { u64::MAX } else { last.parse().map_err(|_| form())? };
    if first < last {
        Ok(first..last)
    } else {
        Err("allowed: a first number below the last".to_owned())
    }
}

impl CutCommand {
    pub fn execute(&self) -> CommandResult {
        if self.phase.is_none() && self.windows.is_none() && self.merge == 1 {
            return Err(Failure::user(&"nothing to cut: give --phase, --windows or --merge"));
        }
        let selection = match (&self.phase, &self.windows) {
            (Some(phase), _) => WindowSelection::Phase(phase.clone()),
            (None, windows) => WindowSelection::Windows(windows.clone().unwrap_or(0..u64::MAX)),
        };
        let part = Cut::new(TraceReader::open(&self.from)?, selection);
        let mut part = Merge::new(part, self.merge);
        self.refuse_empty(&mut part)?;
        let options = WriterOptions { overwrite: self.force, ..WriterOptions::default() };
        let totals = write_trace(&self.to, &mut part, options)?;
        crate::output::print_error_line(format_args!(
            "{}: {}, {}",
            self.to.display(),
            counted(totals.windows, "window"),
            counted(totals.instructions, "instruction")
        ));
        Ok(())
    }

    /// Refuses a selection of nothing, which is a mistake.
    fn refuse_empty(&self, part: &mut dyn WindowSource) -> CommandResult {
        let mut window = tierwise_trace::Window::default();
        if part.next_window(&mut window)? {
            return Ok(part.rewind()?);
        }
        let from = self.from.display();
        Err(Failure::User(match &self.phase {
            Some(phase) => {
                format!("{from}: there is no phase \"{phase}\"; `tierwise trace info` lists them")
            }
            None => format!("{from}: there is no such window; `tierwise trace info` counts them"),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_may_omit_either_end() {
        assert_eq!(range("10..20"), Ok(10..20));
        assert_eq!(range("..3"), Ok(0..3));
        assert_eq!(range("3.."), Ok(3..u64::MAX));
        assert!(range("3").is_err() && range("5..5").is_err() && range("a..b").is_err());
    }
}
