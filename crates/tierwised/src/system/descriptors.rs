//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to the maximum that this process may set. Most systems start a
/// service with 1,024 for the sake of select(2), which this program does not use; sampling needs a
/// file for each CPU, and each connection needs one. Returns the limit; `None` for no limit.
///
/// # Errors
/// The kernel refuses.
pub fn raise_limit() -> rustix::io::Result<Option<u64>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_limit_is_raised_to_maximum() {
        let max = raise_limit().unwrap();
        let now = getrlimit(Resource::Nofile);
        assert_eq!((now.current, now.maximum), (max, max));
    }
}
