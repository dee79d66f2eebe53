//! The daemon's view of one tenant, in the form in which `--json` prints it. Keys stay.

use serde::Serialize;
use tierwised::view::{CauseView, DecisionView, PodView, Snapshot, TenantTierView, TenantView};

use super::story::Holding;

/// One tenant's story so far.
#[derive(Debug, Serialize)]
pub struct LiveStory {
    pub tenant: String,
    /// Its pod, if it is one of Kubernetes'.
    pub pod: Option<PodView>,
    pub policy: String,
    /// The daemon's mode: `manage`, `steer`, `dry-run`, `observe` or `paused`.
    pub mode: tierwised::view::DaemonMode,
    /// The reason for the mode; empty when the daemon manages.
    pub mode_reason: String,
    pub processes: u32,
    pub p99_ms: Option<f64>,
    pub slo_ms: Option<f64>,
    pub fast_access_ratio: Option<f64>,
    /// The reason for its share.
    pub because: String,
    /// Its memory, fastest tier first.
    pub holdings: Vec<LiveHolding>,
    /// Its memory in slower tiers that its processes have placed, and the daemon leaves there.
    pub placed_bytes: u64,
    /// The last changes of its shares, newest last.
    pub decisions: Vec<DecisionView>,
    /// Moves by outcome; outcomes without moves are left out.
    pub moves: Vec<LiveMoves>,
    /// Moves that were made, by reason.
    pub causes: Vec<CauseView>,
    pub thrash_events: u64,
}

/// Its memory in a tier.
#[derive(Debug, Serialize)]
pub struct LiveHolding {
    pub tier: String,
    pub bytes: u64,
    pub floor_bytes: Option<u64>,
    pub cap_bytes: Option<u64>,
    pub share_bytes: Option<u64>,
}

/// Moves of one kind, in blocks.
#[derive(Debug, PartialEq, Serialize)]
pub struct LiveMoves {
    /// `into` a tier for promotions, `out of` one for demotions.
    pub tier: String,
    /// "promotion" or "demotion".
    pub direction: &'static str,
    /// "done" or "failed".
    pub outcome: &'static str,
    pub moves: u64,
}

impl LiveHolding {
    /// Converts to the form of a recorded run. The daemon keeps no maximum of a tenant's memory: it
    /// is the current amount.
    pub fn as_recorded(&self) -> Holding {
        let has_limits = self.floor_bytes.is_some() || self.cap_bytes.is_some();
        Holding {
            tier: self.tier.clone(),
            bytes: self.bytes,
            most_bytes: self.bytes,
            floor_bytes: has_limits.then(|| self.floor_bytes.unwrap_or(0)),
            cap_bytes: self.cap_bytes,
        }
    }
}

/// Collects a tenant's story from a snapshot.
pub fn collect(snapshot: &Snapshot, tenant: &TenantView) -> LiveStory {
    let name = |index: usize| {
        snapshot.tiers.get(index).map_or_else(|| format!("tier {index}"), |tier| tier.name.clone())
    };
    let tiers = || tenant.tiers.iter().enumerate().map(|(index, tier)| (name(index), tier));
    LiveStory {
        tenant: tenant.name.clone(),
        pod: tenant.pod.clone(),
        policy: snapshot.policy.clone(),
        mode: snapshot.mode,
        mode_reason: snapshot.mode_reason.clone(),
        processes: tenant.processes,
        p99_ms: tenant.p99_ms,
        slo_ms: tenant.slo_ms,
        fast_access_ratio: tenant.fast_access_ratio,
        because: tenant.because.clone(),
        holdings: tiers().map(|(name, tier)| holding(name, tier)).collect(),
        placed_bytes: tenant.placed_bytes,
        decisions: snapshot.decisions.iter().filter(|d| d.tenant == tenant.name).cloned().collect(),
        moves: tiers().flat_map(|(name, tier)| moves(&name, tier)).collect(),
        causes: tenant.causes.clone(),
        thrash_events: tenant.thrash_events,
    }
}

fn holding(tier: String, held: &TenantTierView) -> LiveHolding {
    LiveHolding {
        tier,
        bytes: held.usage_bytes,
        floor_bytes: held.floor_bytes,
        cap_bytes: held.cap_bytes,
        share_bytes: held.share_bytes,
    }
}

fn moves(tier: &str, held: &TenantTierView) -> Vec<LiveMoves> {
    let kinds = [
        ("promotion", "done", held.promote_success),
        ("promotion", "failed", held.promote_fail),
        ("demotion", "done", held.demote_success),
        ("demotion", "failed", held.demote_fail),
    ];
    let some = kinds.into_iter().filter(|(.., moves)| *moves > 0);
    some.map(|(direction, outcome, moves)| LiveMoves {
        tier: tier.to_owned(),
        direction,
        outcome,
        moves,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::sample;

    #[test]
    fn only_own_decisions_and_moves_are_shown() {
        let snapshot = sample::snapshot();
        let story = collect(&snapshot, &snapshot.tenants[0]);
        assert_eq!(story.decisions.len(), 1);
        let moves: Vec<_> = story.moves.iter().map(|m| (m.direction, m.outcome, m.moves)).collect();
        assert_eq!(
            moves,
            [("promotion", "done", 3000), ("promotion", "failed", 7), ("demotion", "done", 500)]
        );
        assert_eq!(story.holdings[1].as_recorded().floor_bytes, None);
        assert_eq!(story.holdings[0].as_recorded().floor_bytes, Some(32 << 30));
    }
}
