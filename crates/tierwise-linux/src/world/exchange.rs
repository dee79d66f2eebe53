//! Account of exchanges: memory that a tenant gave so that a hotter page could follow, and that did
//! not come back.
//!
//! An exchange demotes a page and then promotes another into its place. If promotions fail while
//! demotions succeed, exchanges take a tenant's fast memory away, a slice at a time. The plan
//! cannot know that. So no page makes room while more than one block is owed.

use std::time::Duration;

use tierwise_core::units::Timestamp;

/// Time after which a debt is forgiven, and exchanges are tried again: as long as the longest wait
/// for a full node ([`crate::migrate::limits`]). A page that stays busy for longer has other
/// reasons than its own use.
const FORGIVEN: Duration = Duration::from_secs(10);

/// Bytes of the moves of one plan so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Exchanged {
    /// Demoted to make room.
    pub(super) made_room: u64,
    /// Promoted.
    pub(super) promoted: u64,
    /// Should have been promoted, and were not.
    pub(super) failed: u64,
}

impl Exchanged {
    /// Bytes that made room for pages that failed. A plan may make more room than it uses at once.
    fn lost(self) -> u64 {
        self.made_room.saturating_sub(self.promoted).min(self.failed)
    }
}

/// Bytes demoted for pages that were not promoted.
#[derive(Debug, Default)]
pub(super) struct ExchangeDebt {
    bytes: u64,
    since: Timestamp,
    plan: Exchanged,
}

impl ExchangeDebt {
    /// Starts a plan.
    pub(super) fn start(&mut self, now: Timestamp) {
        self.bytes = self.owed();
        self.plan = Exchanged::default();
        if now.since(self.since) >= FORGIVEN {
            self.bytes = 0;
        }
    }

    /// Returns true if no page may make room now. One block is always on its way.
    pub(super) fn is_due(&self, now: Timestamp, block: u64) -> bool {
        self.owed() > block && now.since(self.since) < FORGIVEN
    }

    /// Records a part of a plan.
    pub(super) fn record(&mut self, now: Timestamp, part: Exchanged) {
        let before = self.plan.lost();
        self.plan.made_room += part.made_room;
        self.plan.promoted += part.promoted;
        self.plan.failed += part.failed;
        if self.plan.lost() > before {
            self.since = now;
        }
    }

    fn owed(&self) -> u64 {
        let gained = self.plan.promoted.saturating_sub(self.plan.made_room);
        (self.bytes + self.plan.lost()).saturating_sub(gained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 1 << 21;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(100 + seconds)
    }

    /// Records a plan of these blocks. Returns true if exchanges must then wait.
    fn plan(debt: &mut ExchangeDebt, now: u64, blocks: [u64; 3]) -> bool {
        let [made_room, promoted, failed] = blocks.map(|blocks| blocks * BLOCK);
        debt.start(at(now));
        debt.record(at(now), Exchanged { made_room, promoted, failed });
        debt.is_due(at(now), BLOCK)
    }

    #[test]
    fn debt_is_paid_or_forgiven() {
        let mut debt = ExchangeDebt::default();
        assert!(!plan(&mut debt, 0, [9, 0, 0]), "room for later allocations");
        assert!(!plan(&mut debt, 1, [1, 0, 1]), "one block is on its way");
        assert!(plan(&mut debt, 2, [5, 3, 2]), "two more of five did not follow");
        assert!(!plan(&mut debt, 3, [0, 2, 0]), "two came after all");
        assert!(!plan(&mut debt, 4, [0, 9, 0]));
        // What was promoted without a victim pays for no later exchange.
        assert!(plan(&mut debt, 5, [3, 1, 2]));
        assert!(debt.is_due(at(14), BLOCK) && !debt.is_due(at(15), BLOCK));
        assert!(!plan(&mut debt, 15, [1, 0, 1]), "the old debt is forgiven");
    }
}
