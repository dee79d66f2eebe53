//! The decisions and notices that the view shows.

use std::collections::VecDeque;
use std::fmt::Write;

use tierwise_core::engine::Engine;
use tierwise_core::migrate::{Cause, MoveOutcome};
use tierwise_core::share::{Decision, Share};
use tierwise_core::units::{TenantId, TierId};
use tierwise_driver::Observer;
use tierwise_linux::world::LiveWorld;

use super::snapshot;
use crate::view::{CauseView, DecisionView, Notice};

/// Decisions and notices kept for the view: a screen of each, a few times over.
const KEPT: usize = 200;

/// Decisions and events, the last [`KEPT`] of each.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Each tenant's share of each tier, with the rule that set it.
    shares: Vec<Vec<Option<(Share, String)>>>,
    pub(super) decisions: VecDeque<DecisionView>,
    pub(super) notices: VecDeque<Notice>,
    /// By tenant: its moves that were made, by cause.
    causes: Vec<Vec<(Cause, CauseView)>>,
    /// The decisions since the last call of [`History::record_decisions`].
    fresh: Vec<Decision>,
}

impl History {
    /// Logs a line and keeps it for the view. `at` is in seconds since the daemon started.
    pub(super) fn notice(&mut self, at: f64, text: impl Into<String>) {
        let text = text.into();
        tracing::info!("{text}");
        if self.notices.len() == KEPT {
            self.notices.pop_front();
        }
        self.notices.push_back(Notice { at, text });
    }

    pub(super) fn share(&self, tenant: TenantId, tier: TierId) -> Option<&(Share, String)> {
        self.shares.get(tenant.index())?.get(tier.index())?.as_ref()
    }

    /// Forgets the shares of an engine that was replaced, and the moves of tenants whose numbers
    /// may mean others now.
    pub(super) fn forget_shares(&mut self) {
        self.shares.clear();
        self.causes.clear();
    }

    /// A tenant's moves that were made, by cause.
    pub(super) fn causes(&self, tenant: usize) -> impl Iterator<Item = &CauseView> {
        self.causes.get(tenant).into_iter().flatten().map(|(_, moves)| moves)
    }

    fn count(&mut self, tenant: TenantId, cause: Cause, promoted: bool) {
        if self.causes.len() <= tenant.index() {
            self.causes.resize_with(tenant.index() + 1, Vec::new);
        }
        let causes = &mut self.causes[tenant.index()];
        let at = causes.iter().position(|(known, _)| *known == cause).unwrap_or_else(|| {
            let because = cause.words().into();
            causes.push((cause, CauseView { because, ..CauseView::default() }));
            causes.len() - 1
        });
        let moves = &mut causes[at].1;
        moves.promoted += u64::from(promoted);
        moves.demoted += u64::from(!promoted);
    }

    /// Records the decisions of the last round's plans.
    pub(super) fn record_decisions(&mut self, world: &LiveWorld) {
        let fresh = std::mem::take(&mut self.fresh);
        for decision in &fresh {
            let (tenant, tier) = (decision.tenant.index(), decision.tier.index());
            if self.shares.len() <= tenant {
                self.shares.resize_with(tenant + 1, Vec::new);
            }
            let tiers = &mut self.shares[tenant];
            if tiers.len() <= tier {
                tiers.resize_with(tier + 1, || None);
            }
            let (share, because) = tiers[tier].get_or_insert_with(|| (Share::FREE, String::new()));
            // The same rule with other numbers each second is not worth a line; another share is.
            let same = *share == decision.share && !because.is_empty();
            *share = decision.share;
            because.clear();
            // Writing to a String does not fail.
            let _ = write!(because, "{}", decision.rule);
            if same {
                continue;
            }
            if self.decisions.len() == KEPT {
                self.decisions.pop_front();
            }
            self.decisions.push_back(snapshot::decision(decision, because.clone(), world));
        }
        self.fresh = fresh;
        self.fresh.clear();
    }
}

impl Observer<LiveWorld> for History {
    fn migrated(&mut self, _: &LiveWorld, engine: &Engine, outcomes: &[MoveOutcome]) {
        self.fresh.extend_from_slice(engine.decisions());
        for (m, outcome) in engine.plan().moves.iter().zip(outcomes) {
            if let (Ok(()), Some(from)) = (outcome.result, outcome.from) {
                self.count(engine.pages().tenant(m.page), m.cause, m.to < from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_counted_by_cause() {
        let mut history = History::default();
        for (tenant, cause, promoted) in [
            (1, Cause::Hot, true),
            (1, Cause::AtShare, false),
            (1, Cause::Hot, true),
            (0, Cause::Hot, true),
        ] {
            history.count(TenantId(tenant), cause, promoted);
        }
        let of = |history: &History, tenant| {
            let moves = |c: &CauseView| (c.because.clone(), c.promoted, c.demoted);
            history.causes(tenant).map(moves).collect::<Vec<_>>()
        };
        let words = |cause: Cause| cause.words().to_owned();
        let expected = [(words(Cause::Hot), 2, 0), (words(Cause::AtShare), 0, 1)];
        assert_eq!(of(&history, 1), expected);
        assert_eq!(of(&history, 0), [(words(Cause::Hot), 1, 0)]);
        assert_eq!(of(&history, 2), []);
        history.forget_shares();
        assert_eq!(of(&history, 1), []);
    }
}
