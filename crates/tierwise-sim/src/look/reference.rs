//! Reference and dirty bits, as the processor sets them in page table entries, and the accesses that go
//! through system calls, which set none but are seen by the kernel as they happen (`mark_page_accessed`).
//!
//! Not modelled: an entry that stays in the TLB does not set its bit again until it is evicted, so that on
//! real hardware a bit cleared without a flush may stay clear for a while.

use tierwise_core::observe::{Observation, Watch};

use crate::program::Program;

/// Supervised calls reported of one page in one observation. MULTI-CLOCK's life cycle has no state that
/// more than four further accesses could reach (figure 4: transitions 2, 6, 7 and 10).
const MOST_SUPERVISED: u16 = 4;

/// Reports the accesses after the share `from` of the window and not after `to`.
pub fn report(program: &Program, watch: &Watch, from: f64, to: f64, news: &mut Observation) {
    for access in &program.window.accesses {
        if !program.is_accessed(access, from, to) {
            continue;
        }
        let Some(page) = program.page(access.page) else { continue };
        if access.supervised > 0 && watch.reference_bits {
            let calls = f64::from(access.supervised) * f64::from(program.windows.dilation());
            let calls = (calls * (to - from)).ceil().min(f64::from(MOST_SUPERVISED)) as u16;
            news.supervised.extend((0..calls).map(|_| page));
        }
        if access.loads > 0 || access.stores > 0 {
            news.referenced.set(page);
        }
        if watch.dirty_bits && access.stores > 0 {
            news.written.set(page);
        }
    }
}
