//! System calls that no maintained library wraps: move_pages(2) and the `PAGEMAP_SCAN` ioctl.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::error::{LinuxError, Result};

/// Moves only pages that no other process maps (`linux/mempolicy.h`).
pub const MPOL_MF_MOVE: i32 = 1 << 1;
/// Moves shared pages, too; needs `CAP_SYS_NICE`.
pub const MPOL_MF_MOVE_ALL: i32 = 1 << 2;

/// Calls move_pages(2): moves pages of a process to nodes, or finds their nodes if `nodes` is
/// `None`.
///
/// `status[i]` becomes the node of `addresses[i]` or a negative error number. If the kernel gives
/// up early, it leaves entries as they were, so the caller fills them beforehand with a value that
/// it recognises. Returns the number of pages that were not moved (always 0 before Linux 4.17).
///
/// # Errors
/// The call as a whole failed: `ESRCH` (no such process), `EPERM`, `ENOMEM`, `ENODEV` (no such
/// node).
///
/// # Panics
/// Never. Slices of different lengths are cut to the shortest.
pub fn move_pages(
    pid: i32,
    addresses: &[usize],
    nodes: Option<&[i32]>,
    status: &mut [i32],
    flags: i32,
) -> Result<usize> {
    let count = addresses.len().min(status.len()).min(nodes.map_or(usize::MAX, <[i32]>::len));
    let wanted = nodes.map_or(std::ptr::null(), <[i32]>::as_ptr);
    // SAFETY: the kernel reads `count` addresses and nodes and writes `count` entries of status,
    // all within the slices. The addresses belong to the other process. They are never dereferenced
    // here, and the kernel checks them.
    #[allow(unsafe_code)]
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            count,
            addresses.as_ptr(),
            wanted,
            status.as_mut_ptr(),
            flags,
        )
    };
    usize::try_from(answer).map_err(|_| LinuxError::Process {
        pid,
        call: "move_pages",
        source: io::Error::last_os_error(),
    })
}

/// Prefer a node, and take another if it has no memory left (`linux/mempolicy.h`).
const MPOL_PREFERRED: i32 = 1;

/// Words of a node mask: the kernel has at most 1,024 nodes (`MAX_NUMNODES`).
const MASK_WORDS: usize = 1024 / usize::BITS as usize;

/// Bits of a node mask, and one more: set_mempolicy(2) leaves the last out.
const MASK_BITS: usize = 1024 + 1;

/// Makes this thread, and those that it starts from now on, allocate on a node, and moves this
/// process's memory on the `others` there: set_mempolicy(2) and migrate_pages(2).
///
/// # Errors
/// A node is not there, or the kernel refuses.
pub fn live_on(node: u32, others: &[u32]) -> io::Result<()> {
    let (to, from) = (mask(&[node])?, mask(others)?);
    // SAFETY: the kernel reads `MASK_BITS - 1` bits of each mask, which are as long.
    #[allow(unsafe_code)]
    let answers = unsafe {
        [
            libc::syscall(libc::SYS_set_mempolicy, MPOL_PREFERRED, to.as_ptr(), MASK_BITS),
            libc::syscall(libc::SYS_migrate_pages, 0, MASK_BITS, from.as_ptr(), to.as_ptr()),
        ]
    };
    if answers.iter().any(|&answer| answer < 0) {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn mask(nodes: &[u32]) -> io::Result<[usize; MASK_WORDS]> {
    let mut mask = [0; MASK_WORDS];
    for &node in nodes {
        let (word, bit) = (node / usize::BITS, node % usize::BITS);
        let word = mask.get_mut(word as usize).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << bit;
    }
    Ok(mask)
}

/// `struct pm_scan_arg` of `linux/fs.h` (Linux 6.7).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ScanArg {
    pub size: u64,
    pub flags: u64,
    pub start: u64,
    pub end: u64,
    /// Address at which the kernel stopped.
    pub walk_end: u64,
    pub vec: u64,
    pub vec_len: u64,
    pub max_pages: u64,
    pub category_inverted: u64,
    pub category_mask: u64,
    pub category_anyof_mask: u64,
    pub return_mask: u64,
}

/// `struct page_region` of `linux/fs.h`: a range of pages with the same categories.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ScanRegion {
    pub start: u64,
    pub end: u64,
    pub categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<ScanArg>(b'f', 16);

/// Calls the `PAGEMAP_SCAN` ioctl on an open `/proc/PID/pagemap`. Sets `arg`'s buffer to `regions`,
/// and returns how many of them were filled. `arg.walk_end` is the address that the scan reached.
pub(super) fn pagemap_scan(
    pagemap: &File,
    arg: &mut ScanArg,
    regions: &mut [ScanRegion],
) -> io::Result<usize> {
    arg.size = size_of::<ScanArg>() as u64;
    arg.vec = regions.as_mut_ptr() as u64;
    arg.vec_len = regions.len() as u64;
    // SAFETY: `arg` is the structure that this request names, with its size in it; the kernel
    // writes it and at most `vec_len` regions into the slice that `vec` points to, which is
    // borrowed mutably until the call returns.
    #[allow(unsafe_code)]
    let answer =
        unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, std::ptr::from_mut(arg)) };
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_kernels() {
        // include/uapi/linux/fs.h: direction 3, size 96, 'f', 16.
        assert_eq!(PAGEMAP_SCAN as u64, 0xc060_6610);
    }

    #[test]
    fn node_masks_have_one_bit_per_node() {
        let bits = mask(&[0, 3, 64]).unwrap();
        assert_eq!((bits[0], bits[1]), (0b1001, 1));
        assert!(mask(&[1024]).is_err());
    }

    #[test]
    fn absent_node_cannot_be_lived_on() {
        // A thread of its own: the policy would stay with the test's.
        let lived = std::thread::spawn(|| live_on(1023, &[]).is_ok()).join().unwrap();
        assert!(!lived);
    }

    #[test]
    fn own_page_has_node_missing_process_none() {
        let page = vec![1u8; 4096];
        let mut status = [i32::MIN; 1];
        move_pages(0, &[page.as_ptr() as usize & !4095], None, &mut status, 0).unwrap();
        assert!(status[0] >= 0, "status {status:?}");
        // Larger than the maximum pid of any kernel configuration (2^22).
        let error = move_pages(1 << 23, &[0], None, &mut status, 0).unwrap_err();
        assert!(error.is_gone());
        assert!(error.to_string().starts_with("process 8388608: move_pages: No such process"));
    }
}
