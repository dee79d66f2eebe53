//! `/proc/PID/stat` (proc(5)): start time, CPU time and state of a process or a kernel thread.

use std::time::Duration;

use bstr::ByteSlice;

use super::reader::Reader;
use super::task::Task;
use crate::bytes::{parsed, shown, words};
use crate::error::Result;
use crate::roots::Roots;

/// Fields of `/proc/PID/stat` that this crate uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// State: R, S, D, T, Z (the main thread has ended, and usually the process), X.
    pub state: char,
    /// Clock ticks in user mode (field 14).
    pub utime: u64,
    /// Clock ticks in the kernel (field 15).
    pub stime: u64,
    /// Start time in clock ticks after boot (field 22).
    pub start_time: u64,
    /// Resident pages (field 24); not exact, but cheap.
    pub rss: u64,
}

const EXPECTED: &str = "the fields of /proc/PID/stat as proc(5) lists them";

impl ProcessStat {
    /// Reads the fields of a process.
    ///
    /// # Errors
    /// The process does not exist (any more), or the file does not match proc(5).
    pub fn read(roots: &Roots, pid: i32, reader: &mut Reader) -> Result<Self> {
        Self::read_of(roots, pid.into(), reader)
    }

    /// Reads the fields of a thread.
    ///
    /// # Errors
    /// As [`ProcessStat::read`].
    pub fn read_of(roots: &Roots, task: Task, reader: &mut Reader) -> Result<Self> {
        let parsed = Self::parse(reader.bytes(&roots.proc, format_args!("{task}/stat"))?);
        let found = || format!("{:?}", shown(reader.last().1));
        parsed.ok_or_else(|| reader.format(None, found(), EXPECTED))
    }

    /// Parses the content. The name in parentheses may contain parentheses and spaces, so fields
    /// are counted from the last parenthesis.
    ///
    /// ```
    /// use tierwise_linux::process::ProcessStat;
    /// let text = "7 (a) R b) S 1 7 7 0 -1 0 5 0 0 0 11 3 0 0 20 0 1 0 900 4096 250 0";
    /// let stat = ProcessStat::parse(text).unwrap();
    /// assert_eq!((stat.state, stat.utime, stat.stime), ('S', 11, 3));
    /// assert_eq!((stat.start_time, stat.rss), (900, 250));
    /// ```
    pub fn parse(content: impl AsRef<[u8]>) -> Option<Self> {
        let content = content.as_ref();
        let mut fields = words(content.get(content.rfind_byte(b')')? + 1..)?);
        // The first of these fields is number 3 of proc(5).
        let state = char::from(*fields.next()?.first()?);
        let mut number = |skipped: usize| parsed(fields.nth(skipped)?);
        let utime = number(10)?;
        let stime = number(0)?;
        let start_time = number(6)?;
        let rss = number(1)?;
        Some(Self { state, utime, stime, start_time, rss })
    }

    /// CPU time in user mode and in the kernel.
    pub fn cpu_time(&self) -> Duration {
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let ticks = u128::from(self.utime) + u128::from(self.stime);
        let nanoseconds = ticks * 1_000_000_000 / u128::from(per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// CPU time of this process's main thread, in nanoseconds where the kernel counts them
    /// (`CONFIG_SCHED_INFO`): a kernel thread that runs for seconds may use less than a clock tick.
    pub fn exact_cpu_time(&self, roots: &Roots, pid: i32, reader: &mut Reader) -> Duration {
        let counted = reader.bytes_if_there(&roots.proc, format_args!("{pid}/schedstat"));
        let first = counted.ok().flatten().and_then(|content| parsed(words(content).next()?));
        first.map_or_else(|| self.cpu_time(), Duration::from_nanos)
    }

    /// True if the thread is in uninterruptible sleep, as while it waits for a lock. A kdamond
    /// between two samples sleeps in state I (`schedule_timeout_idle`, mm/damon/core.c).
    pub fn is_uninterruptible(&self) -> bool {
        self.state == 'D'
    }

    /// True if the thread is dead. If it is a main thread, other threads may be alive
    /// ([`super::Process::task`]).
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_cpu_time_is_counted_exactly() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let thread = roots.proc.join("7");
        std::fs::create_dir_all(&thread).unwrap();
        let text = "7 (kdamond.0) I 2 0 0 0 -1 0 0 0 0 0 0 1 0 0 20 0 1 0 9 0 0 0";
        let stat = ProcessStat::parse(text).unwrap();
        let exact = || stat.exact_cpu_time(&roots, 7, &mut Reader::default());
        assert_eq!(exact(), Duration::from_millis(10), "without the file, in clock ticks");
        std::fs::write(thread.join("schedstat"), "2500000 17 90\n").unwrap();
        assert_eq!(exact(), Duration::from_micros(2500));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,200}") {
            let _ = ProcessStat::parse(&text);
        }

        /// `prctl(PR_SET_NAME)` takes any bytes; the kernel cuts them to 15.
        #[test]
        fn any_name_is_read_over(
            name in proptest::collection::vec(any::<u8>(), 0..16),
            start in 0u64..u64::MAX,
        ) {
            let mut text = b"7 (".to_vec();
            text.extend(name);
            let rest = format!(") S 1 7 7 0 -1 0 5 0 0 0 11 3 0 0 20 0 1 0 {start} 4096 250 0");
            text.extend(rest.bytes());
            prop_assert_eq!(ProcessStat::parse(&text).unwrap().start_time, start);
        }
    }
}
