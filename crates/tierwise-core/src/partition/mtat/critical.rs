//! One latency-critical tenant and its agent (MTAT, section 3.2.1, algorithm 1).

use std::time::Duration;

use super::reward;
use crate::learn::{Agent, AgentState, Experience};
use crate::observe::TenantReading;
use crate::share::Rule;
use crate::units::Pages;

/// A tenant's readings, summed over an interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct IntervalReadings {
    /// Accesses that the fastest tier served.
    fast: u64,
    /// All accesses.
    all: u64,
    /// The worst reported 99th percentile.
    p99: Option<Duration>,
}

impl IntervalReadings {
    /// Adds a reading.
    pub(super) fn add(&mut self, reading: &TenantReading) {
        self.fast += reading.misses.first().copied().unwrap_or(0);
        self.all += reading.misses.iter().sum::<u64>();
        self.p99 = self.p99.max(reading.p99);
    }
}

/// A latency-critical tenant.
pub(super) struct Critical {
    /// `None` if no agent could be made: the partition stays.
    agent: Option<Box<dyn Agent>>,
    slo: Duration,
    /// The partition; `None` before its first answered requests.
    partition: Option<Pages>,
    /// The maximum of accesses per second in an interval.
    limit: f64,
    state: AgentState,
    action: f64,
    /// True if the agent acted on the state and the action's effect is not known yet.
    pending: bool,
}

impl Critical {
    /// Makes a tenant without readings.
    pub(super) fn new(agent: Option<Box<dyn Agent>>, slo: Duration) -> Self {
        let state = AgentState::default();
        Self { agent, slo, partition: None, limit: 0.0, state, action: 0.0, pending: false }
    }

    /// Returns true if its agent has acted.
    pub(super) fn acts(&self) -> bool {
        self.partition.is_some()
    }

    /// Ends an interval: the agent learns from its last action and takes the next, of at most
    /// `largest` pages up or down.
    pub(super) fn act(
        &mut self,
        readings: &IntervalReadings,
        elapsed: Duration,
        held: Pages,
        resident: Pages,
        largest: Pages,
    ) {
        let before = self.state;
        self.update(readings, elapsed, held, resident);
        let Some(agent) = &mut self.agent else { return };
        if let Some(p99) = readings.p99.filter(|_| self.pending) {
            let reward = reward(p99, self.slo, self.state.usage_ratio);
            agent.learn(Experience {
                state: before,
                action: self.action,
                reward,
                next: self.state,
            });
        }
        self.pending = false;
        if self.partition.is_none() && readings.p99.is_none() {
            return;
        }
        let action = agent.act(self.state);
        self.action = if action.is_finite() { action.clamp(-1.0, 1.0) } else { 0.0 };
        self.pending = true;
        let partition = self.partition.unwrap_or(held).0 as f64;
        let step = self.action * largest.0 as f64;
        self.partition = Some(Pages((partition + step).max(0.0).round() as u64));
    }

    fn update(
        &mut self,
        readings: &IntervalReadings,
        elapsed: Duration,
        held: Pages,
        resident: Pages,
    ) {
        let rate = readings.all as f64 / elapsed.as_secs_f64().max(1e-9);
        self.limit = self.limit.max(rate);
        let of = |part: f64, whole: f64, empty: f64| if whole > 0.0 { part / whole } else { empty };
        self.state = AgentState {
            usage_ratio: of(held.0 as f64, resident.0 as f64, 0.0),
            // Without accesses, none was slow.
            access_ratio: of(readings.fast as f64, readings.all as f64, 1.0),
            load: of(rate, self.limit, 0.0),
        };
    }

    /// Returns the tenant's claim: its partition, not below its floor, and no more than its cap or
    /// its memory. Before its first requests it claims the memory that it holds.
    pub(super) fn claim(
        &mut self,
        held: Pages,
        resident: Pages,
        floor: Pages,
        cap: Pages,
    ) -> (Pages, Rule) {
        let limit = resident.max(floor).min(cap);
        let pages = self.partition.unwrap_or(held).clamp(floor, limit);
        if self.partition.is_some() {
            self.partition = Some(pages);
        }
        let AgentState { usage_ratio, access_ratio, load } = self.state;
        (pages, Rule::Learned { usage_ratio, access_ratio, load, action: self.action })
    }
}
