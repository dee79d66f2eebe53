//! The trace of a live recording: whole, or the part before a failure.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use tierwise_trace::format::Totals;
use tierwise_trace::new_trace::NewTrace;
use tierwise_trace::writer::{TraceWriter, WriterOptions};
use tierwise_trace::{Header, TraceError, Window};

use crate::failure::Failure;
use crate::number::counted;

/// A trace that is being recorded.
pub struct LiveRecording {
    new: NewTrace,
    writer: TraceWriter<BufWriter<File>>,
}

impl LiveRecording {
    pub fn create(
        path: &Path,
        header: &Header,
        options: WriterOptions,
    ) -> Result<Self, TraceError> {
        let new = NewTrace::create(path, options.overwrite)?;
        let writer = TraceWriter::of(&new, path, header, options)?;
        Ok(Self { new, writer })
    }

    pub fn push(&mut self, window: &Window) -> Result<(), TraceError> {
        self.writer.push(window)
    }

    /// Moves the trace to its place. A failed recording keeps its windows so far.
    pub fn conclude(self, ended: Result<(), Failure>) -> Result<Totals, Failure> {
        let (windows, pages) = (self.writer.totals().windows, self.writer.totals().pages);
        let closed = self.writer.close();
        if pages == 0 {
            self.new.discard();
            ended?;
            return Err(Failure::user(
                &"none of the processes had a page that DAMON could see; is one of them running?",
            ));
        }
        let error = match (ended, closed) {
            (Ok(()), Ok((totals, _))) => {
                self.new.finish()?;
                return Ok(totals);
            }
            (Err(error), _) => error,
            (Ok(()), Err(error)) => error.into(),
        };
        let kept = self.new.keep()?;
        let and_kept = |error: String| {
            format!(
                "{error}. {} has the recording until then: {}",
                kept.display(),
                counted(windows, "window")
            )
        };
        Err(error.reworded(and_kept))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tierwise_linux::roots::Roots;
    use tierwise_trace::reader::TraceReader;
    use tierwise_trace::{Allocation, PageBacking, WindowSource};

    use super::super::header;
    use super::*;

    fn recording(path: &Path, overwrite: bool) -> LiveRecording {
        let second = Duration::from_secs(1);
        let header = header::header(&Roots::default(), vec!["live".into()], second, second);
        let options = WriterOptions { overwrite, ..WriterOptions::default() };
        LiveRecording::create(path, &header, options).unwrap()
    }

    fn window() -> Window {
        let allocation =
            Allocation { page: 0, vpn: 7, kind: PageBacking::Anon, order: 0, thread: 0 };
        Window { instructions: 1000, allocations: vec![allocation], ..Window::default() }
    }

    fn failed() -> Result<(), Failure> {
        Err(Failure::Internal("No space left on device".into()))
    }

    #[test]
    fn failed_recording_keeps_and_names_its_part() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.twt");
        for name in ["t.twt", "t.twt.part"] {
            let mut recording = recording(&path, true);
            recording.push(&window()).unwrap();
            let Err(Failure::Internal(message)) = recording.conclude(failed()) else {
                panic!("it failed")
            };
            assert!(message.contains("No space left") && message.contains(name), "{message}");
            let mut reader = TraceReader::open(&directory.path().join(name)).unwrap();
            let mut read = Window::default();
            assert!(reader.next_window(&mut read).unwrap() && read == window());
            assert!(!reader.next_window(&mut read).unwrap());
        }
    }

    #[test]
    fn empty_recording_leaves_the_old_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.twt");
        assert!(recording(&path, false).conclude(failed()).is_err());
        assert!(!path.exists());
        std::fs::write(&path, "old").unwrap();
        assert!(recording(&path, true).conclude(Ok(())).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    }
}
