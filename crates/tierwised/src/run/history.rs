//! The decisions and notices that the view shows.

use std::collections::VecDeque;
use std::fmt::Write;

use tierwise_core::engine::Engine;
use tierwise_core::migrate::MoveOutcome;
use tierwise_core::share::{Decision, Share};
use tierwise_core::units::{TenantId, TierId};
use tierwise_driver::Observer;
use tierwise_linux::world::LiveWorld;

use super::snapshot;
use crate::view::{DecisionView, Notice};

/// Decisions and notices kept for the view: a screen of each, a few times over.
const KEPT: usize = 200;

/// Decisions and events, the last [`KEPT`] of each.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Each tenant's share of each tier, with the rule that set it.
    shares: Vec<Vec<Option<(Share, String)>>>,
    pub(super) decisions: VecDeque<DecisionView>,
    pub(super) notices: VecDeque<Notice>,
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

    /// Forgets the shares of an engine that was replaced.
    pub(super) fn forget_shares(&mut self) {
        self.shares.clear();
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
    fn migrated(&mut self, _: &LiveWorld, engine: &Engine, _: &[MoveOutcome]) {
        self.fresh.extend_from_slice(engine.decisions());
    }
}
