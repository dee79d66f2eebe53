//! Identity of a program over its restarts: its control group and its executable.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde::{Deserialize, Serialize};

use super::reader::Reader;
use super::task::Task;
use crate::error::{LinuxError, Result};
use crate::roots::Roots;

/// A program: a hash of the path of its control group, and of the device, inode and modification
/// time of its executable. Processes of one program have equal ones.
///
/// A program that wants to pass for another one needs the same control group, so it can only be of
/// the same tenant. The hash therefore need not resist attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Program(pub u64);

impl Program {
    /// Reads the program of a process. The executable is examined without a request to a file
    /// server, which may not answer.
    ///
    /// # Errors
    /// The process is gone, or is a kernel thread, which has no executable.
    pub fn read(roots: &Roots, task: Task, reader: &mut Reader) -> Result<Self> {
        let mut hash = Fnv::default();
        hash.add(reader.bytes(&roots.proc, format_args!("{task}/cgroup"))?);
        let path = roots.proc.join(format!("{task}/exe"));
        let wanted = StatxFlags::INO | StatxFlags::MTIME;
        let found = statx(CWD, &path, AtFlags::STATX_DONT_SYNC, wanted)
            .map_err(|e| LinuxError::file(&path, "examine", e.into()))?;
        hash.add(&found.stx_dev_major.to_le_bytes());
        hash.add(&found.stx_dev_minor.to_le_bytes());
        hash.add(&found.stx_ino.to_le_bytes());
        hash.add(&found.stx_mtime.tv_sec.to_le_bytes());
        hash.add(&found.stx_mtime.tv_nsec.to_le_bytes());
        Ok(Self(hash.0))
    }
}

/// FNV-1a of 64 bits, the same in every version of the daemon
/// (<https://datatracker.ietf.org/doc/html/rfc9923>).
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn group_and_executable_make_the_program() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let start = |pid: i32, group: &[u8], executable: &str| {
            let directory = roots.proc.join(pid.to_string());
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("cgroup"), group).unwrap();
            std::os::unix::fs::symlink(tree.path().join(executable), directory.join("exe"))
                .unwrap();
            Program::read(&roots, pid.into(), &mut Reader::default())
        };
        for executable in ["store", "cache"] {
            fs::write(tree.path().join(executable), executable).unwrap();
        }
        let first = start(7, b"0::/shop.slice\n", "store").unwrap();
        assert_eq!(start(8, b"0::/shop.slice\n", "store").unwrap(), first);
        assert_ne!(start(9, b"0::/sh\xffp.slice\n", "store").unwrap(), first);
        assert_ne!(start(10, b"0::/shop.slice\n", "cache").unwrap(), first);
        assert!(start(11, b"0::/shop.slice\n", "gone").is_err());
        // A new version of the executable is another program.
        fs::remove_file(tree.path().join("store")).unwrap();
        fs::write(tree.path().join("store"), "new").unwrap();
        assert_ne!(start(12, b"0::/shop.slice\n", "store").unwrap(), first);
    }

    #[test]
    fn hash_is_that_of_the_specification() {
        let mut hash = Fnv::default();
        hash.add(b"foobar");
        assert_eq!(hash.0, 0x8594_4171_f739_67e8);
    }
}
