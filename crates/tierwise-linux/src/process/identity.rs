//! Who a process is: the kernel gives process numbers out again, so a number alone is not enough.

use super::reader::Reader;
use super::stat::Stat;
use crate::error::{LinuxError, Result};
use crate::roots::Roots;

/// A process: its number, and when it was started.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Clock ticks after boot at which it was started (`/proc/PID/stat`, field 22).
    pub start_time: u64,
}

impl Process {
    /// The process that has the number now.
    ///
    /// # Errors
    /// There is none, or it is a zombie ([`LinuxError::is_gone`]); or its `stat` cannot be read.
    pub fn read(roots: &Roots, pid: i32, reader: &mut Reader) -> Result<Self> {
        let stat = Stat::read(roots, pid, reader)?;
        if stat.is_dead() {
            let source = std::io::Error::from_raw_os_error(libc::ESRCH);
            return Err(LinuxError::Process { pid, call: "/proc/PID/stat", source });
        }
        Ok(Self { pid, start_time: stat.start_time })
    }

    /// Whether this very process still runs. A number that was given out again, and a process whose `stat`
    /// cannot be read, do not count.
    pub fn is_alive_with(&self, roots: &Roots, reader: &mut Reader) -> bool {
        Self::read(roots, self.pid, reader).is_ok_and(|now| now == *self)
    }

    /// [`Process::is_alive_with`] with a buffer of its own.
    ///
    /// ```
    /// use tierwise_linux::process::{Process, Reader};
    /// use tierwise_linux::roots::Roots;
    ///
    /// let tree = tempfile::tempdir().unwrap();
    /// let roots = Roots::under(tree.path());
    /// std::fs::create_dir_all(roots.proc.join("7")).unwrap();
    /// let stat = |start: u64| {
    ///     let text = format!("7 (redis) S 1 7 7 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 {start} 4096 25 0");
    ///     std::fs::write(roots.proc.join("7/stat"), text).unwrap();
    /// };
    /// stat(900);
    /// let redis = Process::read(&roots, 7, &mut Reader::default()).unwrap();
    /// assert!(redis.is_alive(&roots));
    /// stat(901); // somebody else has the number now
    /// assert!(!redis.is_alive(&roots));
    /// ```
    pub fn is_alive(&self, roots: &Roots) -> bool {
        self.is_alive_with(roots, &mut Reader::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_and_a_missing_process_are_gone() {
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
}
