//! Collects a record during a run.

use std::collections::BTreeMap;

use tierwise_core::engine::Engine;
use tierwise_core::migrate::{Cause, FailReason, MoveOutcome};
use tierwise_core::observe::Observation;
use tierwise_core::share::{Decision, Share};
use tierwise_core::topology::Topology;
use tierwise_core::units::{PageId, Pages, Timestamp};
use tierwise_core::world::World;
use tierwise_driver::Observer;

use super::{
    DecisionRecord, LIFETIMES_IN_ALL, LifetimeRecord, MOVES_IN_ALL, MOVES_OF_A_PAGE, MoveCount,
    MoveRecord, RunRecord, TenantRecord, TierRecord, UsageRecord, VERSION, names,
};
use crate::host::SimulatedHost;

/// Seconds between two points of the tenants' usage; shares rarely change faster.
const USAGE_EVERY: f64 = 1.0;

/// Key of the moves that are counted together.
type Kind = (u16, Option<u8>, u8, &'static str, Option<&'static str>);

/// Converts to seconds by a division, so that whole seconds are whole in JSON.
fn seconds(at: Timestamp) -> f64 {
    at.0 as f64 / 1e9
}

/// Observer that records a run.
#[derive(Debug)]
pub struct Recorder {
    record: RunRecord,
    counts: BTreeMap<Kind, MoveCount>,
    /// Moves kept so far, by tenant and page.
    kept: Vec<Vec<u32>>,
}

impl Recorder {
    /// Makes an empty record of a run that starts now.
    pub fn new(scenario: &str, policy: &str, seed: u64, topology: &Topology) -> Self {
        let tier = |t: &tierwise_core::topology::Tier| TierRecord {
            name: t.name.clone(),
            capacity_pages: t.capacity.0,
        };
        let record = RunRecord {
            version: VERSION,
            scenario: scenario.to_owned(),
            policy: policy.to_owned(),
            seed,
            page_size: topology.page_size.0,
            tiers: topology.tiers.iter().map(tier).collect(),
            ..RunRecord::default()
        };
        Self { record, counts: BTreeMap::new(), kept: Vec::new() }
    }

    /// Records the decisions of a round.
    pub fn decided(&mut self, decisions: &[Decision]) {
        self.record.decisions.extend(decisions.iter().map(|d| DecisionRecord {
            at_seconds: seconds(d.at),
            tenant: d.tenant.index(),
            tier: d.tier.index(),
            floor_pages: d.share.floor.0,
            cap_pages: (d.share.cap != Share::UNCAPPED).then_some(d.share.cap.0),
            promotion: d.share.promotion,
            rule: names::rule_name(&d.rule).to_owned(),
            numbers: names::numbers(&d.rule),
            words: d.rule.to_string(),
        }));
    }

    /// Returns the record of a run that has ended.
    pub fn finish<'a>(
        mut self,
        host: &SimulatedHost,
        tenants: impl Iterator<Item = &'a str>,
    ) -> RunRecord {
        self.record.seconds = seconds(host.now());
        self.record.counts = self.counts.into_values().collect();
        let pages = |usage: &[Pages]| usage.iter().map(|p| p.0).collect::<Vec<u64>>();
        for (i, name) in tenants.enumerate() {
            let account = &host.stats().accounts[i];
            let usage = match account.ended {
                Some(_) => &account.last_usage[..],
                None => host.memory().usage(i),
            };
            self.record.tenants.push(TenantRecord {
                name: name.to_owned(),
                pages: host.workloads()[i].locals.len() as u32,
                ended_seconds: account.ended.map(|at| seconds(Timestamp(at))),
                usage_pages: pages(usage),
            });
        }
        let mut next = 0.0;
        for point in host.stats().timeline().map_or(&[][..], |t| &t.points) {
            let at_seconds = seconds(Timestamp(point.at));
            if at_seconds >= next {
                let pages = point.workloads.iter().map(|p| pages(&p.usage)).collect();
                self.record.usage.push(UsageRecord { at_seconds, pages });
                next = at_seconds + USAGE_EVERY;
            }
        }
        self.record
    }

    fn planned(&mut self, host: &SimulatedHost, outcome: &MoveOutcome, cause: Option<Cause>) {
        let frame = host.memory().frame(outcome.page);
        let m = MoveRecord {
            at_seconds: seconds(host.now()),
            tenant: frame.workload,
            page: frame.local,
            from: outcome.from.map(|tier| tier.0),
            to: outcome.to.0,
            outcome: outcome.result,
            cause,
        };
        let outcome_name = names::outcome_name(m.outcome);
        let kind = (m.tenant, m.from, m.to, outcome_name, cause.map(names::cause_name));
        let counted = self.counts.entry(kind).or_insert(MoveCount {
            tenant: m.tenant,
            from: m.from,
            to: m.to,
            outcome: m.outcome,
            cause,
            moves: 0,
        });
        counted.moves += 1;
        self.keep(m);
    }

    fn keep(&mut self, m: MoveRecord) {
        let (tenant, page) = (usize::from(m.tenant), m.page as usize);
        if self.kept.len() <= tenant {
            self.kept.resize(tenant + 1, Vec::new());
        }
        let pages = &mut self.kept[tenant];
        if pages.len() <= page {
            pages.resize(page + 1, 0);
        }
        if pages[page] >= MOVES_OF_A_PAGE || self.record.moves.len() >= MOVES_IN_ALL {
            self.record.moves_left_out += 1;
            return;
        }
        pages[page] += 1;
        self.record.moves.push(m);
    }

    /// Adds an allocation or a free, in one run with the one before if they are alike and adjacent.
    fn lived(&mut self, host: &SimulatedHost, page: PageId, tier: Option<u8>) {
        let frame = host.memory().frame(page);
        let (tenant, first) = (frame.workload, frame.local);
        let at_seconds = seconds(host.now());
        let lifetimes = &mut self.record.lifetimes;
        if let Some(run) = lifetimes.last_mut()
            && (run.at_seconds, run.tenant, run.tier) == (at_seconds, tenant, tier)
            && run.first + run.pages == first
        {
            run.pages += 1;
        } else if lifetimes.len() < LIFETIMES_IN_ALL {
            lifetimes.push(LifetimeRecord { at_seconds, tenant, first, pages: 1, tier });
        } else {
            self.record.lifetimes_left_out += 1;
        }
    }
}

impl Observer<SimulatedHost> for Recorder {
    fn observed(&mut self, host: &SimulatedHost, observation: &Observation) {
        for allocated in &observation.allocated {
            for page in allocated.pages() {
                self.lived(host, page, Some(allocated.attributes.tier.0));
            }
        }
        for &page in &observation.freed {
            self.lived(host, page, None);
        }
    }

    fn migrated(&mut self, host: &SimulatedHost, engine: &Engine, outcomes: &[MoveOutcome]) {
        for (m, outcome) in engine.plan().moves.iter().zip(outcomes) {
            self.planned(host, outcome, Some(m.cause));
        }
        for cut in engine.cut().iter().filter(|cut| cut.result == Err(FailReason::Budget)) {
            self.planned(host, cut, None);
        }
    }
}
