//! One page's history, and the reasons why it never moved.

use serde::Serialize;
use tierwise_core::migrate::FailReason;
use tierwise_sim::record::{
    DecisionRecord, LifetimeRecord, MOVES_OF_A_PAGE, MoveRecord, RunRecord, cause_name,
    outcome_name,
};

use super::record::{ShareChange, change, direction, tier};
use crate::number::counted;

/// The history of a page.
#[derive(Debug, Serialize)]
pub struct PageStory {
    pub page: u32,
    /// Events in the order of time.
    pub events: Vec<PageEvent>,
    /// The conclusions, in sentences.
    pub verdict: Vec<String>,
}

/// One event of the page.
#[derive(Debug, Serialize)]
pub struct PageEvent {
    pub at_seconds: f64,
    /// "mapped", "unmapped", "promotion", "demotion", or "none" for a move of an unmapped page.
    pub event: &'static str,
    pub from: Option<String>,
    pub to: Option<String>,
    pub cause: Option<&'static str>,
    pub outcome: Option<&'static str>,
    pub words: String,
    /// The tenant's share of the faster of the two tiers at that time, if the policy partitions.
    pub share: Option<ShareChange>,
}

/// Collects the story of a page.
pub fn collect(record: &RunRecord, tenant: usize, page: u32) -> PageStory {
    let lifetimes: Vec<&LifetimeRecord> =
        record.lifetimes.iter().filter(|l| l.is_of(tenant, page)).collect();
    let is_its = |m: &&MoveRecord| usize::from(m.tenant) == tenant && m.page == page;
    let moves: Vec<&MoveRecord> = record.moves.iter().filter(is_its).collect();
    let mut events: Vec<PageEvent> = lifetimes.iter().map(|life| lived(record, life)).collect();
    events.extend(moves.iter().map(|m| moved(record, m)));
    // Allocations come before a plan in the report, so a stable sort keeps them first at the same
    // time.
    events.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
    let verdict = Case { record, tenant, lifetimes: &lifetimes, moves: &moves }.verdict();
    PageStory { page, events, verdict }
}

fn lived(record: &RunRecord, life: &LifetimeRecord) -> PageEvent {
    let to = life.tier.map(|id| tier(record, id.into()));
    PageEvent {
        at_seconds: life.at_seconds,
        event: if to.is_some() { "mapped" } else { "unmapped" },
        // The record, like a policy, has allocations and their ends from the next observation.
        words: to.as_ref().map_or_else(
            || "reported as unmapped".to_owned(),
            |tier| format!("reported as mapped in {tier}"),
        ),
        from: None,
        to,
        cause: None,
        outcome: None,
        share: None,
    }
}

fn moved(record: &RunRecord, m: &MoveRecord) -> PageEvent {
    let event = direction(m.from, m.to);
    let to = tier(record, m.to.into());
    let from = m.from.map(|id| tier(record, id.into()));
    let verb = match event {
        "promotion" => "promoted",
        "demotion" => "demoted",
        _ => "moved",
    };
    let why = m.cause.map_or("", |cause| cause.words());
    let words = match (m.outcome, &from) {
        (Ok(()), Some(from)) => format!("{verb} from {from} to {to} {why}"),
        (Ok(()), None) => format!("{verb} to {to} {why}"),
        (Err(reason), _) => {
            format!("was to be {verb} to {to} {why}{}", failed(reason, &to))
        }
    };
    let faster = m.from.map_or(m.to, |from| from.min(m.to));
    PageEvent {
        at_seconds: m.at_seconds,
        event,
        from,
        to: Some(to),
        cause: m.cause.map(cause_name),
        outcome: Some(outcome_name(m.outcome)),
        words: words.replace(" ;", ";"),
        share: share_at(record, m.tenant.into(), faster.into(), m.at_seconds)
            .map(|decision| change(record, decision)),
    }
}

fn failed(reason: FailReason, to: &str) -> String {
    match reason {
        FailReason::Busy => "; it was locked or pinned".to_owned(),
        FailReason::TargetFull => format!("; {to} had no free page"),
        FailReason::NotPresent => "; it had been unmapped before".to_owned(),
        FailReason::Budget => "; the budget for moving was spent".to_owned(),
        FailReason::Already => "; it lay there already".to_owned(),
    }
}

/// Returns the decision in force at a time.
fn share_at(record: &RunRecord, tenant: usize, tier: usize, at: f64) -> Option<&DecisionRecord> {
    let its = |d: &&DecisionRecord| d.tenant == tenant && d.tier == tier && d.at_seconds <= at;
    record.decisions.iter().rfind(its)
}

/// The record of a page.
struct Case<'a> {
    record: &'a RunRecord,
    tenant: usize,
    lifetimes: &'a [&'a LifetimeRecord],
    moves: &'a [&'a MoveRecord],
}

impl Case<'_> {
    fn verdict(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let Some(first) = self.lifetimes.iter().find(|life| life.tier.is_some()) else {
            let why = if self.record.lifetimes_left_out > 0 {
                "The record does not hold its allocation: there were too many to keep."
            } else {
                "It was never mapped in this run."
            };
            return vec![why.to_owned()];
        };
        if self.moves.is_empty() {
            lines.extend(self.never_planned(first));
        } else {
            lines.push(self.moves_in_short());
        }
        lines.extend(self.left_out());
        lines.push(
            "The record holds what was decided and moved, not what was accessed: how hot the page \
             was is not known from it."
                .to_owned(),
        );
        lines
    }

    fn moves_in_short(&self) -> String {
        let count = |wanted: &str| {
            let done = self.moves.iter().filter(|m| m.outcome.is_ok());
            done.filter(|m| direction(m.from, m.to) == wanted).count()
        };
        let failed = self.moves.iter().filter(|m| m.outcome.is_err()).count();
        let mut line = format!(
            "It was promoted {} and demoted {}",
            times(count("promotion")),
            times(count("demotion"))
        );
        if failed > 0 {
            line += &format!("; {} planned for it failed", counted(failed as u64, "move"));
        }
        line + "."
    }

    fn never_planned(&self, allocation: &LifetimeRecord) -> Vec<String> {
        let end = self
            .lifetimes
            .iter()
            .find(|l| l.tier.is_none() && l.at_seconds >= allocation.at_seconds);
        let end = end.map_or(self.record.seconds, |life| life.at_seconds);
        let where_it_lay = allocation.tier.unwrap_or_default();
        let name = tier(self.record, where_it_lay.into());
        let from = allocation.at_seconds;
        let mut lines = vec![format!(
            "No move of it was planned: it lay in {name} from its first report at {from:.3} s to \
             {end:.3} s."
        )];
        let Some(faster) = where_it_lay.checked_sub(1) else {
            lines.push("That is the fastest tier.".to_owned());
            return lines;
        };
        if self.record.counts.is_empty() {
            let policy = &self.record.policy;
            lines.push(format!("{policy} planned no move of any page in this run."));
            return lines;
        }
        lines.extend(self.held_back(faster.into(), from, end));
        let promoted: u64 = self.promotions();
        let tenant = &self.record.tenants[self.tenant].name;
        lines.push(match promoted {
            0 => format!("No page of {tenant} was chosen for promotion at any time."),
            _ => format!(
                "For {tenant} {} planned, never one of this page: it was no candidate, or colder \
                 than those that were chosen.",
                if promoted == 1 {
                    "1 promotion was".to_owned()
                } else {
                    format!(
                        "{promoted} \
                    promotions were"
                    )
                }
            ),
        });
        lines
    }

    fn promotions(&self) -> u64 {
        let its = self.record.counts.iter().filter(|c| usize::from(c.tenant) == self.tenant);
        its.filter(|c| direction(c.from, c.to) == "promotion").map(|c| c.moves).sum()
    }

    /// Returns for how long the tenant's promotion was slowed down in the page's life.
    fn held_back(&self, faster: usize, from: f64, end: f64) -> Option<String> {
        let mut slowed = 0.0;
        let mut worst: Option<&DecisionRecord> = None;
        let own =
            || self.record.decisions.iter().filter(|d| d.tenant == self.tenant && d.tier == faster);
        let ends = own().skip(1).map(|d| d.at_seconds).chain([end]);
        for (decision, until) in own().zip(ends) {
            let span = until.min(end) - decision.at_seconds.max(from);
            if decision.promotion < 1.0 && span > 0.0 {
                slowed += span;
                worst = worst.filter(|w| w.promotion <= decision.promotion).or(Some(decision));
            }
        }
        let worst = worst?;
        Some(format!(
            "Its tenant's promotion into {} was throttled for {slowed:.1} of those {:.1} s, most \
             at {:.1} s: {}.",
            tier(self.record, faster),
            end - from,
            worst.at_seconds,
            worst.words
        ))
    }

    fn left_out(&self) -> Option<String> {
        if self.moves.len() >= MOVES_OF_A_PAGE as usize {
            return Some(format!(
                "Only its first {MOVES_OF_A_PAGE} moves are in the record; what came later is not \
                 known."
            ));
        }
        let last = self.record.moves.last()?;
        (self.record.moves.len() >= tierwise_sim::record::MOVES_IN_ALL).then(|| {
            format!(
                "The record was full at {:.3} s: moves of it after that are not known.",
                last.at_seconds
            )
        })
    }
}

fn times(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}
