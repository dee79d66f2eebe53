//! Reference and dirty bits, as the CPU sets them in page table entries, and accesses through
//! system calls. System calls set no bits; the kernel observes these accesses as they happen
//! (`mark_page_accessed`).
//!
//! Not modelled: an entry that stays in the TLB does not set its bit again until it is evicted, so
//! that on real hardware a bit cleared without a flush may stay clear for a while.

use tierwise_core::observe::{Observation, Signals};
use tierwise_trace::PageAccess;

use crate::workload::Workload;

/// Maximum of supervised calls that are reported of one page in one observation. MULTI-CLOCK's life
/// cycle has no state that more than four further accesses could reach (figure 4: transitions 2, 6,
/// 7 and 10).
const MAX_SUPERVISED: u16 = 4;

/// Reports the accesses after the share `from` of the window and not after `to`.
///
/// The kernel's reclaim asks several times in a window, and most pages were not accessed meanwhile:
/// the next access of each is computed once, and not at every report.
pub fn report(
    workload: &mut Workload,
    signals: &Signals,
    from: f64,
    to: f64,
    observation: &mut Observation,
) {
    let mut detections = std::mem::take(&mut workload.detections);
    if detections.is_empty() {
        detections.resize(workload.window.accesses.len(), from);
    }
    for (row, next) in detections.iter_mut().enumerate() {
        if *next > to {
            continue;
        }
        let access = &workload.window.accesses[row];
        if workload.is_accessed_throughout(access, from, to) {
            // Such a page is accessed before the next report, too: its time need not be known.
            *next = to;
        } else {
            // Not known, or no report asked for the accesses before `from`.
            if *next <= from {
                *next = detection(workload, access, from);
                if *next > to {
                    continue;
                }
            }
            *next = detection(workload, access, to);
        }
        detected(workload, access, signals, to - from, observation);
    }
    workload.detections = detections;
}

/// Returns the share at which software would next detect an access; infinite for none.
fn detection(workload: &Workload, row: &PageAccess, after: f64) -> f64 {
    workload.next_access(row, after).unwrap_or(f64::INFINITY)
}

/// Adds the signals of a page that was accessed in a share of the window.
fn detected(
    workload: &Workload,
    access: &PageAccess,
    signals: &Signals,
    share: f64,
    observation: &mut Observation,
) {
    let Some(page) = workload.page(access.page) else { return };
    if access.supervised > 0 && signals.reference_bits {
        let calls = f64::from(access.supervised) * f64::from(workload.windows.dilation());
        let calls = (calls * share).ceil().min(f64::from(MAX_SUPERVISED)) as u16;
        observation.supervised.extend((0..calls).map(|_| page));
    }
    if access.loads > 0 || access.stores > 0 {
        observation.referenced.set(page);
    }
    if signals.dirty_bits && access.stores > 0 {
        observation.written.set(page);
    }
}
