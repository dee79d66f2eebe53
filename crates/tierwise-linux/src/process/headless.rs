//! A real process whose main thread has ended while another thread runs.

use std::ffi::c_void;
use std::ptr;

use super::{ProcessStat, Reader};
use crate::roots::Roots;

const PAGE: usize = 4096;
/// Stack of the second thread: enough for one that only waits.
const STACK: usize = 16 * PAGE;

/// The process, which ends when this is dropped.
pub(crate) struct Headless {
    pub pid: i32,
    /// First address of its memory.
    pub address: u64,
    bytes: usize,
}

extern "C" fn wait(_: *mut c_void) -> libc::c_int {
    loop {
        // SAFETY: it only waits for a signal.
        #[allow(unsafe_code)]
        unsafe {
            libc::pause()
        };
    }
}

impl Headless {
    /// A process with `bytes` bytes of memory, all present.
    pub fn new(bytes: usize) -> Self {
        let length = bytes + STACK;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let threads = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM;
        // SAFETY: a new anonymous mapping, written only within its length. The child of the fork
        // makes system calls and writes to its copy of the mapping, and nothing else: it takes no
        // lock that another thread of the parent may hold. The new thread's stack is the end of the
        // mapping, which grows down and is used for nothing else. The main thread ends by the
        // system call, so that nothing of the parent's is run at its end.
        #[allow(unsafe_code)]
        let (at, pid) = unsafe {
            let at = libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let pid = libc::fork();
            if pid == 0 {
                ptr::write_bytes(at.cast::<u8>(), 7, bytes);
                let stack = at.cast::<u8>().add(length).cast::<c_void>();
                libc::clone(wait, stack, threads, ptr::null_mut());
                libc::syscall(libc::SYS_exit, 0);
            }
            (at, pid)
        };
        assert!(pid > 0, "cannot fork: {}", std::io::Error::last_os_error());
        let headless = Self { pid, address: at as u64, bytes: length };
        let mut reader = Reader::default();
        // The child's main thread ends in its own time.
        while !ProcessStat::read(&Roots::default(), pid, &mut reader).unwrap().is_dead() {
            std::thread::yield_now();
        }
        headless
    }
}

impl Drop for Headless {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the child is this object's own and nothing else waits for it; so is the mapping.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, ptr::null_mut(), 0);
            libc::munmap(self.address as *mut c_void, self.bytes);
        }
    }
}
