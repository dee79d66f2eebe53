//! One tenant's part of a record, in the form in which `--json` prints it. Keys stay.

use serde::Serialize;
use tierwise_sim::record::{DecisionRecord, RunRecord, cause_name, outcome_name};

use super::page::{self, PageStory};
use super::record::{ShareChange, change, direction, tier};

/// One tenant's story.
#[derive(Debug, Serialize)]
pub struct Story {
    pub scenario: String,
    pub policy: String,
    pub seed: u64,
    pub seconds: f64,
    pub tenant: String,
    /// Time of its end, if it ended before the run.
    pub ended_seconds: Option<f64>,
    /// The changes of its shares.
    pub shares: Vec<ShareChange>,
    /// Its memory, fastest tier first.
    pub holdings: Vec<Holding>,
    /// Moves, the most frequent first.
    pub moves: Vec<Moves>,
    /// Moves of all tenants that the record counts but does not list one by one.
    pub moves_left_out: u64,
    pub page: Option<PageStory>,
}

/// Its memory in a tier against its share.
#[derive(Debug, Serialize)]
pub struct Holding {
    pub tier: String,
    /// Memory at its end, or the run's.
    pub bytes: u64,
    /// Maximum memory at a point of the record.
    pub most_bytes: u64,
    /// `None` if no policy partitions.
    pub floor_bytes: Option<u64>,
    pub cap_bytes: Option<u64>,
}

/// Moves of one kind.
#[derive(Debug, Serialize)]
pub struct Moves {
    /// `None` if the pages were unmapped.
    pub from: Option<String>,
    pub to: String,
    /// "promotion", "demotion", or "none" if the pages were unmapped.
    pub direction: &'static str,
    pub cause: Option<&'static str>,
    pub outcome: &'static str,
    pub moves: u64,
    pub words: String,
}

/// Collects a tenant's story from a record.
pub fn collect(record: &RunRecord, tenant: usize, page: Option<u32>) -> Story {
    let known = &record.tenants[tenant];
    let own = record.decisions.iter().filter(|d| d.tenant == tenant);
    Story {
        scenario: record.scenario.clone(),
        policy: record.policy.clone(),
        seed: record.seed,
        seconds: record.seconds,
        tenant: known.name.clone(),
        ended_seconds: known.ended_seconds,
        shares: own.map(|d| change(record, d)).collect(),
        holdings: (0..record.tiers.len()).map(|tier| holding(record, tenant, tier)).collect(),
        moves: moves(record, tenant),
        moves_left_out: record.moves_left_out,
        page: page.map(|page| page::collect(record, tenant, page)),
    }
}

fn holding(record: &RunRecord, tenant: usize, id: usize) -> Holding {
    let bytes = |pages: u64| pages.saturating_mul(record.page_size);
    let at = |pages: &[Vec<u64>]| pages.get(tenant).and_then(|t| t.get(id)).copied().unwrap_or(0);
    // Decisions after its end concern no tenant.
    let end = record.tenants[tenant].ended_seconds.unwrap_or(f64::INFINITY);
    let its = |d: &&DecisionRecord| d.tenant == tenant && d.tier == id && d.at_seconds <= end;
    let last = record.decisions.iter().rfind(its);
    let now = record.tenants[tenant].usage_pages.get(id).copied().unwrap_or(0);
    let most = record.usage.iter().map(|point| at(&point.pages)).fold(now, u64::max);
    Holding {
        tier: tier(record, id),
        bytes: bytes(now),
        most_bytes: bytes(most),
        floor_bytes: last.map(|d| bytes(d.floor_pages)),
        cap_bytes: last.and_then(|d| d.cap_pages).map(bytes),
    }
}

fn moves(record: &RunRecord, tenant: usize) -> Vec<Moves> {
    let own = record.counts.iter().filter(|count| usize::from(count.tenant) == tenant);
    let mut moves: Vec<Moves> = own
        .map(|count| Moves {
            from: count.from.map(|from| tier(record, from.into())),
            to: tier(record, count.to.into()),
            direction: direction(count.from, count.to),
            cause: count.cause.map(cause_name),
            outcome: outcome_name(count.outcome),
            moves: count.moves,
            words: count.cause.map_or("its reason is not kept", |cause| cause.words()).to_owned(),
        })
        .collect();
    moves.sort_by_key(|m| std::cmp::Reverse(m.moves));
    moves
}
