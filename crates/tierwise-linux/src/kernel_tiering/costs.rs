//! The cost of a copy and of a fault on this machine.

use std::time::Duration;

use crate::error::{LinuxError, Result};
use crate::monitor::thread_cpu;
use crate::process::resident::PAGE_SIZE;
use crate::process::syscall::{MPOL_MF_MOVE, move_pages};

/// Pages that are copied to measure a copy. Enough that the call itself counts little, and few
/// enough that the daemon's start stays cheap.
const COPIED: usize = 32;

/// Attempts at measuring a copy. The fastest counts: an interrupt only adds time.
const ATTEMPTS: usize = 2;

/// CPU time of migrating one base page between two nodes, measured with pages of this process.
///
/// # Errors
/// The kernel refuses to move them.
pub fn copy_cost(from: u32, to: u32) -> Result<Duration> {
    let size = PAGE_SIZE as usize;
    // Written, so that the pages are there and none is the page of zeros.
    let memory = vec![1_u8; (COPIED + 1) * size];
    let first = memory.as_ptr() as usize / size + 1;
    let addresses: Vec<usize> = (first..first + COPIED).map(|page| page * size).collect();
    let mut best: Option<Duration> = None;
    for _ in 0..ATTEMPTS {
        for node in [to, from] {
            let nodes = vec![node as i32; COPIED];
            let mut status = vec![-libc::EAGAIN; COPIED];
            let before = thread_cpu();
            move_pages(0, &addresses, Some(&nodes), &mut status, MPOL_MF_MOVE)?;
            let took = thread_cpu().saturating_sub(before);
            let moved = status.iter().filter(|&&at| at == node as i32).count();
            // The first move may find the pages on the node already.
            if moved * 2 > COPIED && node == from {
                let each = took / moved as u32;
                best = Some(best.map_or(each, |best| best.min(each)));
            }
        }
    }
    drop(memory);
    best.ok_or_else(|| LinuxError::Missing {
        what: format!("pages of this process cannot be moved between nodes {from} and {to}"),
        remedy: "free memory on both nodes, and keep CAP_SYS_NICE".into(),
    })
}

/// CPU time of a minor fault of this process: of the first access to a page. A hint fault takes
/// about as long; it allocates and clears no page, and it looks the page up.
pub fn fault_cost() -> Duration {
    let size = PAGE_SIZE as usize;
    // Zeros that nothing has written: the kernel maps no page yet.
    let mut memory = vec![0_u8; COPIED * size];
    let before = thread_cpu();
    for page in memory.chunks_mut(size) {
        page[0] = 1;
    }
    let took = thread_cpu().saturating_sub(before);
    std::hint::black_box(&memory);
    took / COPIED as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_faults_take_some_time() {
        assert!(fault_cost() > Duration::ZERO);
    }

    #[test]
    fn copies_need_a_second_node() {
        // The machine of a test may have one node: then node 1023 certainly is none of its.
        assert!(copy_cost(0, 1023).is_err());
    }
}
