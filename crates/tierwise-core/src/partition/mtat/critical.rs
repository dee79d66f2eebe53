//! One latency-critical tenant and its agent (MTAT, section 3.2.1, algorithm 1).

use std::time::Duration;

use super::reward;
use crate::learn::{Agent, AgentState, Experience};
use crate::observe::TenantReading;
use crate::share::Rule;
use crate::units::Pages;

/// Time without a violation after which the agent acts again. Chosen, not measured: the paper's
/// largest steps (2 GB a second) move two thirds of its fast tier in it. With a shorter time a
/// service that is late again and again grows and shrinks by turns; a longer one keeps memory from
/// the others after a single late second.
const GUARD: Duration = Duration::from_secs(10);

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
    /// Accesses per second under the highest load: the spec's, or the maximum so far.
    full_load: f64,
    state: AgentState,
    action: f64,
    /// Time for which the guard still acts.
    guarded: Duration,
    /// True if the agent acted on the state and the action's effect is not known yet.
    pending: bool,
}

impl Critical {
    /// Makes a tenant without readings. `full_load` is its accesses per second under its highest
    /// load; 0 if they are not known.
    pub(super) fn new(agent: Option<Box<dyn Agent>>, slo: Duration, full_load: f64) -> Self {
        let state = AgentState::default();
        Self {
            agent,
            slo,
            partition: None,
            full_load,
            state,
            action: 0.0,
            guarded: Duration::ZERO,
            pending: false,
        }
    }

    /// Returns true if its agent has acted.
    pub(super) fn acts(&self) -> bool {
        self.partition.is_some()
    }

    /// Ends an interval: the agent learns from its last action and takes the next, of at most
    /// `largest` pages up or down. After a violation the guard acts in its place.
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
        self.guarded = match readings.p99 {
            Some(p99) if p99 > self.slo && agent.is_guarded() => GUARD,
            _ => self.guarded.saturating_sub(elapsed),
        };
        if self.guarded > Duration::ZERO {
            self.action = 1.0;
        }
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
        self.full_load = self.full_load.max(rate);
        let of = |part: f64, whole: f64, empty: f64| if whole > 0.0 { part / whole } else { empty };
        self.state = AgentState {
            usage_ratio: of(held.0 as f64, resident.0 as f64, 0.0),
            // Without accesses, none was slow.
            access_ratio: of(readings.fast as f64, readings.all as f64, 1.0),
            load: of(rate, self.full_load, 0.0),
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
