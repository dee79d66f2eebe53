//! A control problem shaped like MTAT's, with a known optimum.
//!
//! The state is usage ratio, access ratio and load; the tenant meets its SLO if its usage is at
//! least what the load needs; the reward is MTAT's (eq. 2); the action changes the usage by up to
//! 0.2.

use crate::sac::{Sac, Transition};

/// Largest change of the usage ratio by one action.
const REACH: f32 = 0.2;
/// Decisions under one load when the learner is evaluated.
const JUDGED: usize = 20;
/// Decisions under one load while the learner trains: few, so that it trains under many loads.
const LIVED: usize = 5;

#[derive(Clone, Copy)]
pub(super) struct ControlTask {
    usage: f32,
    load: f32,
}

impl ControlTask {
    pub(super) fn new(usage: f32, load: f32) -> Self {
        Self { usage, load }
    }

    /// The least usage that meets the SLO.
    fn need(self) -> f32 {
        0.1 + 0.5 * self.load
    }

    /// The hottest memory comes first, so accesses to fast memory grow faster than its usage.
    pub(super) fn state(self) -> [f32; 3] {
        [self.usage, self.usage.sqrt(), self.load]
    }

    /// Changes the usage and returns the reward.
    pub(super) fn step(&mut self, action: f32) -> f32 {
        self.usage = (self.usage + REACH * action).clamp(0.0, 1.0);
        if self.usage >= self.need() { 1.0 - self.usage } else { -1.0 }
    }

    /// The best action, which sets the usage to the need.
    fn best(self) -> f32 {
        // Slightly above the need, so that rounding does not miss the SLO.
        ((self.need() + 1e-5 - self.usage) / REACH).clamp(-1.0, 1.0)
    }
}

/// Mean reward per decision over held-out loads, from a start in the middle.
pub(super) fn mean_reward(mut act: impl FnMut(ControlTask) -> f32) -> f32 {
    let loads = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95];
    let mut sum = 0.0;
    for load in loads {
        let mut control = ControlTask::new(0.5, load);
        for _ in 0..JUDGED {
            let action = act(control);
            sum += control.step(action);
        }
    }
    sum / (loads.len() * JUDGED) as f32
}

pub(super) fn best_reward() -> f32 {
    mean_reward(ControlTask::best)
}

/// Trains the learner on episodes of random starts and loads.
pub(super) fn live(learner: &mut Sac, transitions: usize) {
    // Loads and starts that cover 0..1 evenly (fractional parts of multiples of irrational numbers)
    // and equal none of the held-out loads.
    let part = |episode: usize, of: f32| (episode as f32 * of).fract();
    for episode in 0..transitions / LIVED {
        let mut control = ControlTask::new(part(episode, 0.754_878), part(episode, 0.569_84));
        for _ in 0..LIVED {
            let state = control.state();
            let action = learner.act(state);
            let reward = control.step(action);
            let next = control.state();
            learner.store(Transition { state, action, reward, next, done: false });
        }
    }
}
