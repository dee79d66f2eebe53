//! Reference and dirty bits, as the CPU sets them in page table entries, and accesses through
//! system calls. System calls set no bits; the kernel observes these accesses as they happen
//! (`mark_page_accessed`).
//!
//! Not modelled: an entry that stays in the TLB does not set its bit again until it is evicted, so
//! that on real hardware a bit cleared without a flush may stay clear for a while.

use tierwise_core::observe::{Observation, Signals};

use crate::workload::Workload;

/// Maximum of supervised calls that are reported of one page in one observation. MULTI-CLOCK's life
/// cycle has no state that more than four further accesses could reach (figure 4: transitions 2, 6,
/// 7 and 10).
const MAX_SUPERVISED: u16 = 4;

/// Reports the accesses after the share `from` of the window and not after `to`.
pub fn report(
    workload: &Workload,
    signals: &Signals,
    from: f64,
    to: f64,
    observation: &mut Observation,
) {
    for access in &workload.window.accesses {
        if !workload.is_accessed(access, from, to) {
            continue;
        }
        let Some(page) = workload.page(access.page) else { continue };
        if access.supervised > 0 && signals.reference_bits {
            let calls = f64::from(access.supervised) * f64::from(workload.windows.dilation());
            let calls = (calls * (to - from)).ceil().min(f64::from(MAX_SUPERVISED)) as u16;
            observation.supervised.extend((0..calls).map(|_| page));
        }
        if access.loads > 0 || access.stores > 0 {
            observation.referenced.set(page);
        }
        if signals.dirty_bits && access.stores > 0 {
            observation.written.set(page);
        }
    }
}
