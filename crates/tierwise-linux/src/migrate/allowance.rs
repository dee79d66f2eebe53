//! A token bucket: how much may be moved, or how much CPU time spent, by when.

use std::time::Duration;

use tierwise_core::units::Timestamp;

/// Tokens accumulate for at most this long, as in the engine's own budget: after an idle time no
/// burst takes the memory bandwidth for longer than an application notices.
const BURST: Duration = Duration::from_secs(1);

/// Tokens that come at a rate; unlimited without one. What is overdrawn is paid back first.
///
/// ```
/// use tierwise_core::units::Timestamp;
/// use tierwise_linux::migrate::allowance::Allowance;
///
/// let mut bytes = Allowance::new(Some(1000), 0);
/// assert_eq!(bytes.left(Timestamp(0)), 1000);
/// bytes.spend(1500);
/// assert_eq!(bytes.left(Timestamp(250_000_000)), -250);
/// assert_eq!(bytes.left(Timestamp(5_000_000_000)), 1000);
/// ```
#[derive(Debug, Clone)]
pub struct Allowance {
    per_second: Option<u64>,
    most: i64,
    tokens: i64,
    refilled: Option<Timestamp>,
}

impl Allowance {
    /// So many tokens a second, in a bucket that holds at least `least` (the largest single thing
    /// ever spent).
    pub fn new(per_second: Option<u64>, least: u64) -> Self {
        let burst = u128::from(per_second.unwrap_or(0)) * BURST.as_nanos() / 1_000_000_000;
        let burst = u64::try_from(burst).unwrap_or(u64::MAX).max(least);
        let most = i64::try_from(burst).unwrap_or(i64::MAX);
        Self { per_second, most, tokens: most, refilled: None }
    }

    /// Tokens left, negative if overdrawn. Time that runs backwards earns nothing.
    pub fn left(&mut self, now: Timestamp) -> i64 {
        let Some(per_second) = self.per_second else { return i64::MAX };
        let since = now.since(*self.refilled.get_or_insert(now));
        let earned = u128::from(per_second) * since.as_nanos() / 1_000_000_000;
        // Time whose tokens round down to none is not lost: the clock only moves with a token.
        if earned > 0 {
            let earned = i64::try_from(earned).unwrap_or(i64::MAX);
            self.tokens = self.tokens.saturating_add(earned).min(self.most);
            self.refilled = Some(now);
        }
        self.tokens
    }

    /// Takes tokens, more than there are if it must be.
    pub fn spend(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_sub(i64::try_from(tokens).unwrap_or(i64::MAX));
    }
}
