//! Files of `key value` lines ("flat keyed" in `Documentation/admin-guide/cgroup-v2.rst`):
//! `memory.stat` and `memory.events`.

use std::path::Path;

use bstr::ByteSlice;

use crate::bytes::{parsed, shown};
use crate::error::{LinuxError, Result};

/// Calls `take` with the key and value of every line, in the file's order.
///
/// # Errors
/// A line has another form.
pub fn flat<'a>(path: &Path, text: &'a [u8], mut take: impl FnMut(&'a [u8], u64)) -> Result<()> {
    for (index, line) in text.lines().enumerate() {
        let pair = line.split_once_str(b" ");
        let pair = pair.and_then(|(key, value)| Some((key, parsed(value.trim_ascii())?)));
        let (key, value) = pair.ok_or_else(|| LinuxError::Format {
            path: path.to_owned(),
            line: Some(index + 1),
            found: format!("{:?}", shown(line)),
            expected: "a key and a number, such as \"pgfault 12\"",
        })?;
        take(key, value);
    }
    Ok(())
}

/// Counters of `memory.stat` since the group's creation. `None` is a counter that this kernel does
/// not have. Those of tiering exist since Linux 6.12; `pgdemote_proactive` came later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryStat {
    /// Pages promoted by NUMA balancing.
    pub pgpromote_success: Option<u64>,
    /// Pages demoted by kswapd.
    pub pgdemote_kswapd: Option<u64>,
    /// Pages demoted by an allocation that had to wait.
    pub pgdemote_direct: Option<u64>,
    /// Pages demoted by khugepaged.
    pub pgdemote_khugepaged: Option<u64>,
    /// Pages demoted by `memory.reclaim`; earlier kernels count them as direct.
    pub pgdemote_proactive: Option<u64>,
    /// Hint faults.
    pub numa_hint_faults: Option<u64>,
    /// Page faults.
    pub pgfault: Option<u64>,
    /// Page faults that read from a disk.
    pub pgmajfault: Option<u64>,
}

impl MemoryStat {
    /// Parses `memory.stat`.
    ///
    /// # Errors
    /// A line is no key with a number.
    pub fn parse(path: &Path, text: impl AsRef<[u8]>) -> Result<Self> {
        let mut counters = Self::default();
        flat(path, text.as_ref(), |key, value| {
            let counter = match key {
                b"pgpromote_success" => &mut counters.pgpromote_success,
                b"pgdemote_kswapd" => &mut counters.pgdemote_kswapd,
                b"pgdemote_direct" => &mut counters.pgdemote_direct,
                b"pgdemote_khugepaged" => &mut counters.pgdemote_khugepaged,
                b"pgdemote_proactive" => &mut counters.pgdemote_proactive,
                b"numa_hint_faults" => &mut counters.numa_hint_faults,
                b"pgfault" => &mut counters.pgfault,
                b"pgmajfault" => &mut counters.pgmajfault,
                _ => return,
            };
            *counter = Some(value);
        })?;
        Ok(counters)
    }

    /// Returns the pages demoted for any reason; `None` if this kernel has no such counters per
    /// group.
    pub fn demoted(&self) -> Option<u64> {
        let all = [
            self.pgdemote_kswapd,
            self.pgdemote_direct,
            self.pgdemote_khugepaged,
            self.pgdemote_proactive,
        ];
        let known = all.iter().flatten();
        known.copied().reduce(u64::saturating_add)
    }
}

/// `memory.events`: how often the group met its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryEvents {
    /// Reclaimed although below `memory.low`.
    pub low: u64,
    /// Throttled above `memory.high`.
    pub high: u64,
    /// About to exceed `memory.max`.
    pub max: u64,
    /// Reached `memory.max` and could not reclaim.
    pub oom: u64,
    /// Processes killed at `memory.max`.
    pub oom_kill: u64,
}

impl MemoryEvents {
    /// Parses `memory.events`.
    ///
    /// # Errors
    /// A line is no key with a number.
    pub fn parse(path: &Path, text: impl AsRef<[u8]>) -> Result<Self> {
        let mut events = Self::default();
        flat(path, text.as_ref(), |key, value| match key {
            b"low" => events.low = value,
            b"high" => events.high = value,
            b"max" => events.max = value,
            b"oom" => events.oom = value,
            b"oom_kill" => events.oom_kill = value,
            _ => {}
        })?;
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn missing_counter_is_none_not_zero() {
        let path = Path::new("memory.stat");
        let old = MemoryStat::parse(path, "anon 4096\npgfault 12\n").unwrap();
        assert_eq!((old.pgfault, old.pgpromote_success, old.demoted()), (Some(12), None, None));
        let new = MemoryStat::parse(path, "pgdemote_kswapd 3\npgdemote_direct 0\n").unwrap();
        assert_eq!(new.demoted(), Some(3));
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let message =
            MemoryEvents::parse(Path::new("memory.events"), "low 0\nhigh -1\n").unwrap_err();
        assert!(message.to_string().starts_with("memory.events:2: found \"high -1\""), "{message}");
    }

    proptest! {
        #[test]
        fn no_memory_stat_makes_it_panic(text in "([a-z_]{0,9}[ ]?[0-9]{0,21}|.{0,9}|\n){0,20}") {
            let path = Path::new("f");
            let _ = (MemoryStat::parse(path, &text), MemoryEvents::parse(path, &text));
        }
    }
}
