//! Identity of a process. The kernel reuses pids, so a pid alone does not identify a process.

use super::reader::Reader;
use super::stat::ProcessStat;
use super::task::Task;
use crate::error::{LinuxError, Result};
use crate::roots::Roots;

/// A process: its pid and its start time.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Process {
    /// Pid.
    pub pid: i32,
    /// Start time in clock ticks after boot (`/proc/PID/stat`, field 22).
    pub start_time: u64,
}

impl Process {
    /// Reads the process that has a pid now.
    ///
    /// # Errors
    /// There is none, or none of its threads is alive ([`LinuxError::is_gone`]); or its `stat`
    /// cannot be read.
    pub fn read(roots: &Roots, pid: i32, reader: &mut Reader) -> Result<Self> {
        Self::read_with_task(roots, pid, reader).map(|(process, _)| process)
    }

    fn read_with_task(roots: &Roots, pid: i32, reader: &mut Reader) -> Result<(Self, Task)> {
        let stat = ProcessStat::read(roots, pid, reader)?;
        let task = Task::alive(roots, pid, stat, reader)?;
        let task = task.ok_or_else(|| Self::gone(pid, "/proc/PID/stat"))?;
        Ok((Self { pid, start_time: stat.start_time }, task))
    }

    fn gone(pid: i32, call: &'static str) -> LinuxError {
        let source = std::io::Error::from_raw_os_error(libc::ESRCH);
        LinuxError::Process { pid, call, source }
    }

    /// Finds a live thread of this process, through which its memory is reached.
    ///
    /// # Errors
    /// The process has ended, or another has its pid ([`LinuxError::is_gone`]); or its files cannot
    /// be read.
    pub fn task(&self, roots: &Roots, reader: &mut Reader) -> Result<Task> {
        let (now, task) = Self::read_with_task(roots, self.pid, reader)?;
        if now != *self {
            return Err(Self::gone(self.pid, "/proc/PID/stat"));
        }
        Ok(task)
    }

    /// True if this process still runs. False if another process has the pid, or if `stat` cannot
    /// be read.
    pub fn is_alive_with(&self, roots: &Roots, reader: &mut Reader) -> bool {
        self.task(roots, reader).is_ok()
    }

    /// Calls [`Process::is_alive_with`] with a buffer of its own.
    ///
    /// ```
    /// use tierwise_linux::process::{Process, Reader};
    /// use tierwise_linux::roots::Roots;
    ///
    /// let tree = tempfile::tempdir().unwrap();
    /// let roots = Roots::under(tree.path());
    /// std::fs::create_dir_all(roots.proc.join("7")).unwrap();
    /// let stat = |start: u64| {
    ///     let text =
    ///         format!("7 (redis) S 1 7 7 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 {start} 4096 25 0");
    ///     std::fs::write(roots.proc.join("7/stat"), text).unwrap();
    /// };
    /// stat(900);
    /// let redis = Process::read(&roots, 7, &mut Reader::default()).unwrap();
    /// assert!(redis.is_alive(&roots));
    /// stat(901); // another process has the number now
    /// assert!(!redis.is_alive(&roots));
    /// ```
    pub fn is_alive(&self, roots: &Roots) -> bool {
        self.is_alive_with(roots, &mut Reader::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::headless::Headless;
    use crate::process::{Maps, Mounts, PageState, Pagemap};

    #[test]
    fn zombie_and_missing_process_are_absent() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let mut reader = Reader::default();
        assert!(Process::read(&roots, 7, &mut reader).unwrap_err().is_gone());
        std::fs::create_dir_all(roots.proc.join("7")).unwrap();
        let text = "7 (x) Z 1 7 7 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 900 0 0 0";
        std::fs::write(roots.proc.join("7/stat"), text).unwrap();
        assert!(Process::read(&roots, 7, &mut reader).unwrap_err().is_gone());
        std::fs::write(roots.proc.join("7/stat"), "7 (x) S 1").unwrap();
        let error = Process::read(&roots, 7, &mut reader).unwrap_err();
        assert!(!error.is_gone() && error.to_string().contains("proc(5)"), "{error}");
    }

    fn put_stat(roots: &Roots, of: &str, state: char, start: u64) {
        let directory = roots.proc.join(of);
        std::fs::create_dir_all(&directory).unwrap();
        let text = format!("7 (x) {state} 1 7 7 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 {start} 0 0 0");
        std::fs::write(directory.join("stat"), text).unwrap();
    }

    #[test]
    fn process_lives_with_any_live_thread() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let mut reader = Reader::default();
        put_stat(&roots, "7", 'Z', 900);
        put_stat(&roots, "7/task/7", 'Z', 900);
        put_stat(&roots, "7/task/8", 'X', 901);
        std::fs::create_dir_all(roots.proc.join("7/task/9")).unwrap();
        std::fs::create_dir_all(roots.proc.join("7/task/x")).unwrap();
        assert!(Process::read(&roots, 7, &mut reader).unwrap_err().is_gone());
        put_stat(&roots, "7/task/10", 'S', 902);
        let process = Process::read(&roots, 7, &mut reader).unwrap();
        assert_eq!(process, Process { pid: 7, start_time: 900 });
        let task = process.task(&roots, &mut reader).unwrap();
        assert_eq!((task.tid(), task.to_string().as_str()), (10, "7/task/10"));
        assert!(process.is_alive(&roots));
        put_stat(&roots, "7", 'S', 900);
        assert_eq!(process.task(&roots, &mut reader).unwrap(), Task::from(7));
        put_stat(&roots, "7", 'S', 950);
        assert!(process.task(&roots, &mut reader).unwrap_err().is_gone());
    }

    #[test]
    fn headless_process_memory_is_read() {
        let headless = Headless::new(8 * 4096);
        let (roots, mut reader) = (Roots::default(), Reader::default());
        let process = Process::read(&roots, headless.pid, &mut reader).unwrap();
        let task = process.task(&roots, &mut reader).unwrap();
        assert_ne!(task.tid(), headless.pid);
        let (mut mounts, mut maps) = (Mounts::default(), Maps::default());
        mounts.read(&roots, task, &mut reader).unwrap();
        maps.read(&roots, task, &mounts, &mut reader).unwrap();
        let (start, end) = (headless.address, headless.address + 8 * 4096);
        assert!(maps.tierable().any(|m| m.start <= start && end <= m.end));
        let mut ranges = Vec::new();
        let mut pagemap = Pagemap::open(&roots, task).unwrap();
        pagemap.ranges(start, end, PageState::Present, &mut ranges).unwrap();
        assert_eq!(ranges.iter().map(|r| r.end - r.start).sum::<u64>(), 8 * 4096);
        let mut status = [i32::MIN];
        crate::process::resident::nodes(task.tid(), &[start as usize], &mut status).unwrap();
        assert!(status[0] >= 0, "{status:?}");
    }
}
