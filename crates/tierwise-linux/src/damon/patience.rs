//! Waits for DAMON's sysfs lock. The kernel tries the lock (`mutex_trylock(&damon_sysfs_lock)`,
//! mm/damon/sysfs.c) and answers `EBUSY` while another command, of this or another program, is
//! executed.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::error::{LinuxError, Result};
use crate::file;

/// Pause between two tries: the kernel's default sampling interval, at whose end a kdamond handles
/// commands.
const PAUSE: Duration = Duration::from_millis(5);
/// Number of tries, two seconds in all: twice the longest useful aggregation interval (a second),
/// for which another program's `update_schemes_tried_regions` may hold the lock.
const TRIES: u32 = 400;

fn is(error: &LinuxError, number: i32) -> bool {
    matches!(error, LinuxError::File { source, .. } if source.raw_os_error() == Some(number))
}

/// Tries until the answer is something other than `EBUSY`, or the tries are used up.
pub(super) fn patiently<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    patiently_with(TRIES, PAUSE, &mut attempt)
}

fn patiently_with<T>(
    tries: u32,
    pause: Duration,
    attempt: &mut impl FnMut() -> Result<T>,
) -> Result<T> {
    for _ in 1..tries {
        match attempt() {
            Err(e) if e.is_busy() => thread::sleep(pause),
            other => return other,
        }
    }
    attempt()
}

/// Writes a value, waiting for the lock.
pub(super) fn write(path: &Path, value: &str) -> Result<()> {
    patiently(|| file::write(path, value))
}

/// Reads a number, waiting for the lock.
pub(super) fn number<T: std::str::FromStr>(path: &Path) -> Result<T> {
    patiently(|| file::value(path, "a number"))
}

/// True if the kdamond ended during the command (`damon_call`): its process has ended, and the
/// kernel reports that before the kdamond is off.
pub(super) fn was_cancelled<T>(answer: &Result<T>) -> bool {
    answer.as_ref().err().is_some_and(|e| is(e, libc::ECANCELED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn error(number: i32) -> LinuxError {
        LinuxError::file(Path::new("state"), "write", io::Error::from_raw_os_error(number))
    }

    #[test]
    fn only_busy_is_retried() {
        let answers = |mut list: Vec<Result<u32>>| move || list.remove(0);
        let mut late = answers(vec![Err(error(libc::EBUSY)), Err(error(libc::EBUSY)), Ok(3)]);
        assert_eq!(patiently_with(5, Duration::ZERO, &mut late).unwrap(), 3);
        let mut never = || Err::<u32, _>(error(libc::EBUSY));
        assert!(patiently_with(3, Duration::ZERO, &mut never).unwrap_err().is_busy());
        let mut refused = answers(vec![Err(error(libc::EINVAL)), Ok(3)]);
        let refused = patiently_with(5, Duration::ZERO, &mut refused);
        assert!(!was_cancelled(&refused) && !refused.unwrap_err().is_busy());
        assert!(was_cancelled(&Err::<u32, _>(error(libc::ECANCELED))));
    }
}
