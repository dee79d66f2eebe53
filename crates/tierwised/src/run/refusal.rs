//! Refusals of the kernel. A neighbour may cause one by filling a node, or by taking the last
//! descriptor. So a refusal ends a feature for a while only.

use std::time::Instant;

use super::activity::RETRY_INTERVAL;

/// The last refusal of a feature, if it was refused since it last worked.
#[derive(Debug, Default)]
pub(super) struct Refusal(Option<Instant>);

impl Refusal {
    /// True while it is too early for another attempt.
    pub(super) fn holds(&self) -> bool {
        self.0.is_some_and(|at| at.elapsed() < RETRY_INTERVAL)
    }

    /// Notes a refusal. True if the last attempt was none, so that the log lacks it.
    pub(super) fn is_news(&mut self) -> bool {
        self.0.replace(Instant::now()).is_none()
    }

    /// The feature works, or its configuration is new: the next attempt may be at once.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn refusal_ends_and_is_told_once() {
        let mut refusal = Refusal::default();
        assert!(!refusal.holds() && refusal.is_news() && refusal.holds());
        refusal.0 = Instant::now().checked_sub(RETRY_INTERVAL + Duration::from_secs(1));
        assert!(refusal.0.is_none() || !refusal.holds(), "another attempt is made");
        refusal.0 = Some(Instant::now());
        assert!(!refusal.is_news(), "the log has it");
        refusal.end();
        assert!(!refusal.holds() && refusal.is_news());
    }
}
