//! CPUs that a group may use (`cpu.max`), and CPU time that it has used (`cpu.stat`).

use std::path::Path;
use std::time::Duration;

use bstr::ByteSlice;

use super::stat::flat;
use crate::bytes::{parsed, shown};
use crate::error::{LinuxError, Result};

/// Reads the quota in CPUs from `cpu.max` (quota and period in microseconds). Returns `None` for
/// `max 100000`, which is no quota.
///
/// # Errors
/// The file holds something else.
pub fn quota(path: &Path, text: impl AsRef<[u8]>) -> Result<Option<f64>> {
    let text = text.as_ref().trim_ascii();
    let bad = || LinuxError::Format {
        path: path.to_owned(),
        line: None,
        found: format!("{:?}", shown(text)),
        expected: "quota and period in microseconds, such as \"max 100000\" or \"50000 100000\"",
    };
    let (quota, period) = text.split_once_str(b" ").ok_or_else(bad)?;
    let period: u64 = parsed(period).ok_or_else(bad)?;
    if period == 0 {
        return Err(bad());
    }
    if quota == b"max" {
        return Ok(None);
    }
    let quota: u64 = parsed(quota).ok_or_else(bad)?;
    Ok(Some(quota as f64 / period as f64))
}

/// Reads a group's CPU time since its creation: `usage_usec` of `cpu.stat`.
///
/// # Errors
/// A line is no key with a number, or `usage_usec` is missing.
pub fn usage(path: &Path, text: impl AsRef<[u8]>) -> Result<Duration> {
    let mut used = None;
    flat(path, text.as_ref(), |key, value| {
        if key == b"usage_usec" {
            used = Some(Duration::from_micros(value));
        }
    })?;
    used.ok_or_else(|| LinuxError::Format {
        path: path.to_owned(),
        line: None,
        found: "no usage_usec".into(),
        expected: "usage_usec with the microseconds used",
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quota_in_processors() {
        let path = Path::new("cpu.max");
        assert_eq!(quota(path, "max 100000\n").unwrap(), None);
        assert_eq!(quota(path, "150000 100000\n").unwrap(), Some(1.5));
        for bad in ["", "max", "1 0", "-1 100", "a b"] {
            assert!(quota(path, bad).unwrap_err().to_string().starts_with("cpu.max: found"));
        }
    }

    #[test]
    fn missing_cpu_time_is_named() {
        let message = usage(Path::new("cpu.stat"), "user_usec 1\n").unwrap_err();
        assert!(message.to_string().contains("no usage_usec"), "{message}");
    }

    proptest! {
        #[test]
        fn no_cpu_file_makes_it_panic(text in "(max|[a-z_]{0,9}|[0-9]{0,21}| |\n|.{0,3}){0,8}") {
            let path = Path::new("f");
            let _ = (quota(path, &text), usage(path, &text));
        }
    }
}
