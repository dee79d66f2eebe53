//! File systems of a process's mapped files, by device number (`/proc/PID/mountinfo`, proc(5)).
//! tmpfs is memory worth tiering; hugetlbfs is a pool that must not be touched.

use std::fs;
use std::io;
use std::str;

use bstr::ByteSlice;

use super::reader::Reader;
use super::task::Task;
use crate::error::{LinuxError, Result};
use crate::roots::Roots;

/// Device number, major and minor.
pub type Device = (u32, u32);

/// The tmpfs and hugetlbfs mounts visible to a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mounts {
    /// Ascending, as the other list.
    tmpfs: Vec<Device>,
    hugetlbfs: Vec<Device>,
}

impl Mounts {
    /// Reads the mounts of a process; lists keep their memory.
    ///
    /// # Errors
    /// The process does not exist, or its `mountinfo` cannot be read.
    pub fn read(
        &mut self,
        roots: &Roots,
        task: impl Into<Task>,
        reader: &mut Reader,
    ) -> Result<()> {
        let task = task.into();
        self.tmpfs.clear();
        self.hugetlbfs.clear();
        let take = |line: &[u8]| {
            match parse(line) {
                Some((device, b"tmpfs" | b"devtmpfs")) => self.tmpfs.push(device),
                Some((device, b"hugetlbfs")) => self.hugetlbfs.push(device),
                _ => (),
            }
            true
        };
        let read = reader.lines(&roots.proc, format_args!("{task}/mountinfo"), "a mount", take);
        // Sorted: a process may have a hundred thousand mounts and as many mappings.
        for devices in [&mut self.tmpfs, &mut self.hugetlbfs] {
            devices.sort_unstable();
            devices.dedup();
        }
        read.map(drop).map_err(ended)
    }

    /// Returns the inode of the mount namespace of which a process sees all mounts. `None` for a
    /// process with another root directory (chroot(2)), which sees only those below it, and for one
    /// that cannot be read. Reads links only: a file system that a tenant serves could keep any
    /// other call waiting.
    pub fn namespace(roots: &Roots, task: impl Into<Task>) -> Option<u64> {
        let directory = roots.proc.join(task.into().to_string());
        let root = fs::read_link(directory.join("root")).ok()?;
        let link = fs::read_link(directory.join("ns/mnt")).ok().filter(|_| *root == *"/")?;
        link.to_str()?.strip_prefix("mnt:[")?.strip_suffix(']')?.parse().ok()
    }

    /// True if the device is a tmpfs.
    pub fn is_tmpfs(&self, device: Device) -> bool {
        self.tmpfs.binary_search(&device).is_ok()
    }

    /// True if the device is a hugetlbfs.
    pub fn is_hugetlbfs(&self, device: Device) -> bool {
        self.hugetlbfs.binary_search(&device).is_ok()
    }
}

/// Treats EINVAL as the end of the process: a process that is ending has no mounts any more, and
/// the kernel returns EINVAL for it (`mounts_open_common`, fs/proc_namespace.c).
fn ended(error: LinuxError) -> LinuxError {
    match error {
        LinuxError::File { path, what, source } if source.raw_os_error() == Some(libc::EINVAL) => {
            LinuxError::File { path, what, source: io::Error::from_raw_os_error(libc::ESRCH) }
        }
        other => other,
    }
}

/// Parses a device such as "0:23", decimal; `maps` has "00:1a", hexadecimal.
pub(super) fn device(text: &[u8], radix: u32) -> Option<Device> {
    let (major, minor) = str::from_utf8(text).ok()?.split_once(':')?;
    Some((u32::from_str_radix(major, radix).ok()?, u32::from_str_radix(minor, radix).ok()?))
}

/// Device (field 3) and file system type (first field after the lone hyphen).
pub(crate) fn parse(line: &[u8]) -> Option<(Device, &[u8])> {
    let (left, right) = line.split_once_str(b" - ")?;
    let device = device(left.split_str(b" ").nth(2)?, 10)?;
    Some((device, right.split_str(b" ").next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_distinguished_by_device() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        std::fs::create_dir_all(roots.proc.join("7")).unwrap();
        let text = b"24 30 0:22 / /dev/shm/\xff rw,nosuid shared:4 - tmpfs tmpfs rw\n\
                    25 30 0:23 / /dev/hugepages rw - hugetlbfs hugetlbfs rw\n\
                    30 1 8:1 / / rw - ext4 /dev/sda1 rw\nnonsense\n";
        std::fs::write(roots.proc.join("7/mountinfo"), text).unwrap();
        let mut mounts = Mounts::default();
        mounts.read(&roots, 7, &mut Reader::default()).unwrap();
        assert!(mounts.is_tmpfs((0, 22)) && !mounts.is_tmpfs((8, 1)));
        assert!(mounts.is_hugetlbfs((0, 23)));
    }

    #[test]
    fn namespace_is_of_processes_without_chroot() {
        use std::os::unix::fs::symlink;
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let process = |pid: i32, root: &str, namespace: &str| {
            let directory = roots.proc.join(pid.to_string());
            std::fs::create_dir_all(directory.join("ns")).unwrap();
            symlink(root, directory.join("root")).unwrap();
            symlink(namespace, directory.join("ns/mnt")).unwrap();
            Mounts::namespace(&roots, pid)
        };
        assert_eq!(process(1, "/", "mnt:[4026531841]"), Some(4_026_531_841));
        assert_eq!(process(2, "/srv/jail", "mnt:[4026531841]"), None, "sees a part of it");
        assert_eq!(process(3, "/", "net:[4026531841]"), None);
        assert_eq!(Mounts::namespace(&roots, 4), None, "has ended");
    }
}
