//! How many CPUs a group may use: `cpuset.cpus.effective` and `cpu.max`.

use std::path::Path;

use bstr::ByteSlice;

use crate::bytes::{parsed, shown};
use crate::error::{LinuxError, Result};

/// `cpu.max`: quota and period in microseconds, `max 100000` for no quota. In CPUs; `None`
/// for no quota.
///
/// # Errors
/// Something else is written there.
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

    proptest! {
        #[test]
        fn nothing_panics(text in "(max|[0-9]{0,21}| |.{0,3}){0,4}") {
            let _ = quota(Path::new("f"), &text);
        }
    }
}
