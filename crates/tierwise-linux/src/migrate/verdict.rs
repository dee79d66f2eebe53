//! What the kernel's answers mean for a page: where it lies decides, and its status says why it
//! does not lie elsewhere.

use tierwise_core::migrate::FailReason;

use crate::error::LinuxError;

/// What came of a page that should be on `node`, is on `placed`, and of which the kernel said
/// `status`.
pub(super) fn verdict(node: i32, placed: i32, status: i32) -> Result<(), FailReason> {
    if placed == node {
        Ok(())
    } else if placed < 0 {
        Err(absent(placed))
    } else if status == -libc::ENOMEM || status == node {
        // Reported as moved and still elsewhere: the kernel fell back because the target had no
        // room.
        Err(FailReason::TargetFull)
    } else {
        Err(FailReason::Busy)
    }
}

/// Why a page has no node.
pub(super) fn absent(status: i32) -> FailReason {
    // Not mapped, swapped out, or the shared page of zeros, which is nobody's.
    let gone = [libc::ENOENT, libc::EFAULT].iter().any(|&e| status == -e);
    if gone { FailReason::NotPresent } else { FailReason::Busy }
}

/// Whether a busy page may be free by the next call. One that other processes map too (`EACCES`)
/// will not be.
pub(super) fn is_worth_another_try(status: i32) -> bool {
    status != -libc::EACCES
}

/// Whether a call as a whole failed because a node had no room.
pub(super) fn is_no_memory(error: &LinuxError) -> bool {
    matches!(error, LinuxError::Process { source, .. } if source.raw_os_error() == Some(libc::ENOMEM))
}
