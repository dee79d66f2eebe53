//! The decisions of a run and their reasons, in the form in which it is written to a file:
//! `tierwise simulate --record-run` makes one, `tierwise explain` reads it. Its keys are stable.
//!
//! A page is named by its tenant and its number in the tenant's workload, as `tierwise trace stat`
//! names it: pages of one number in different loops of a workload are one page here.
//!
//! The *accesses* are not in a record: they would repeat the trace, and the policy has only samples
//! of it.

mod collect;
mod names;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tierwise_core::migrate::{Cause, FailReason};

pub use collect::Recorder;
pub use names::{cause_name, numbers, outcome_name, rule_name};

/// The version of the format; a reader refuses others.
pub const VERSION: u32 = 1;

/// Limit of recorded moves per page, the earliest: a policy that moves a page more often thrashes,
/// and the first hundred rounds show how.
pub const MOVES_OF_A_PAGE: u32 = 100;

/// Limit of all moves kept, the earliest: about 100 bytes each in JSON, a file of 100 MB at most
/// (a tenth of it compressed).
pub const MOVES_IN_ALL: usize = 1_000_000;

/// Limit of allocations and frees kept: runs of pages, so that only a workload that maps and unmaps
/// single pages comes near.
pub const LIFETIMES_IN_ALL: usize = 1_000_000;

/// One run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`VERSION`].
    pub version: u32,
    /// The scenario's name.
    pub scenario: String,
    /// The recipe's name.
    pub policy: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// Bytes of a base page.
    pub page_size: u64,
    /// Virtual seconds that the run took.
    pub seconds: f64,
    /// The tiers, fastest first.
    pub tiers: Vec<TierRecord>,
    /// The tenants, in the scenario's order; everything else names them by index.
    pub tenants: Vec<TenantRecord>,
    /// Shares that changed, in the order of time.
    pub decisions: Vec<DecisionRecord>,
    /// All moves, counted.
    pub counts: Vec<MoveCount>,
    /// Moves that are in `counts` and not in `moves`, because there were too many.
    pub moves_left_out: u64,
    /// Moves, in the order of time: at most [`MOVES_OF_A_PAGE`] of a page and [`MOVES_IN_ALL`].
    pub moves: Vec<MoveRecord>,
    /// Runs of allocated and freed pages that are not in `lifetimes`, because there were too many.
    pub lifetimes_left_out: u64,
    /// Pages mapped and unmapped, in the order of time.
    pub lifetimes: Vec<LifetimeRecord>,
    /// The tenants' usage, about once per second.
    pub usage: Vec<UsageRecord>,
}

/// A tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierRecord {
    /// Name in output.
    pub name: String,
    /// Size in base pages.
    pub capacity_pages: u64,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantRecord {
    /// The workload's name.
    pub name: String,
    /// The number of its pages, which are numbered from 0.
    pub pages: u32,
    /// Time of its end, if it ended before the run.
    pub ended_seconds: Option<f64>,
    /// Base pages by tier, at its end or the run's.
    pub usage_pages: Vec<u64>,
}

/// A change of a share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// Virtual seconds.
    pub at_seconds: f64,
    /// The tenant.
    pub tenant: usize,
    /// Index of the tier.
    pub tier: usize,
    /// Protected base pages from now on.
    pub floor_pages: u64,
    /// The cap in base pages from now on; `None` for no limit.
    pub cap_pages: Option<u64>,
    /// Share of the base rate at which promotion into the tier continues.
    pub promotion: f64,
    /// The rule's name.
    pub rule: String,
    /// The rule's numbers by name; times in seconds.
    pub numbers: BTreeMap<String, f64>,
    /// The rule in words.
    pub words: String,
}

/// A move that was planned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MoveRecord {
    /// Virtual seconds.
    pub at_seconds: f64,
    /// The page's tenant.
    pub tenant: u16,
    /// The page's number within the tenant.
    pub page: u32,
    /// The tier in which it was; `None` if it was freed.
    pub from: Option<u8>,
    /// The index of the target tier.
    pub to: u8,
    /// Success, or the reason for the failure.
    #[serde(with = "names::outcome")]
    pub outcome: Result<(), FailReason>,
    /// The cause; `None` for a move that the budget cut, whose cause is not kept.
    #[serde(with = "names::cause")]
    pub cause: Option<Cause>,
}

/// Moves of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MoveCount {
    /// The pages' tenant.
    pub tenant: u16,
    /// The tier in which they were; `None` if they were freed.
    pub from: Option<u8>,
    /// Index of the target tier.
    pub to: u8,
    /// Success, or the reason for the failure.
    #[serde(with = "names::outcome")]
    pub outcome: Result<(), FailReason>,
    /// The cause; `None` for moves that the budget cut.
    #[serde(with = "names::cause")]
    pub cause: Option<Cause>,
    /// Number of pages.
    pub moves: u64,
}

/// A run of pages that was mapped or unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LifetimeRecord {
    /// Virtual seconds of the observation that reported it.
    pub at_seconds: f64,
    /// The tenant.
    pub tenant: u16,
    /// The first page.
    pub first: u32,
    /// Number of pages.
    pub pages: u32,
    /// The tier in which they were allocated; `None` if they were unmapped.
    pub tier: Option<u8>,
}

impl LifetimeRecord {
    /// Returns true if a page is in the run.
    pub fn is_of(&self, tenant: usize, page: u32) -> bool {
        usize::from(self.tenant) == tenant && (self.first..self.first + self.pages).contains(&page)
    }
}

/// The tenants' usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageRecord {
    /// Virtual seconds.
    pub at_seconds: f64,
    /// Base pages by tenant, then by tier.
    pub pages: Vec<Vec<u64>>,
}
