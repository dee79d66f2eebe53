//! An agent whose decisions are made elsewhere: it sends the observation, and waits for the action.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use tierwise_core::learn::{Agent, AgentState, Experience, Learning, Objective};

use crate::stop;

/// The decision to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoteDecision {
    /// The observation.
    pub state: AgentState,
    /// The reward of the action before; none before the first.
    pub reward: Option<f64>,
}

/// Gives the agent of a run its channels. Everything else is left to the learner that ships.
pub(crate) struct Remote {
    decisions: Sender<RemoteDecision>,
    actions: Receiver<f64>,
    asked: AtomicBool,
    others: Arc<dyn Learning>,
}

impl Remote {
    /// Returns the learner, the receiver of its decisions, and the sender of actions.
    pub(crate) fn new() -> (Self, Receiver<RemoteDecision>, Sender<f64>) {
        let (decisions, out) = unbounded();
        let (action, actions) = unbounded();
        let (asked, others) = (AtomicBool::new(false), tierwise_learn::learning());
        (Self { decisions, actions, asked, others }, out, action)
    }

    /// True once a policy wanted an agent.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Learning for Remote {
    fn agent(&self, _: Option<&str>, _: u64) -> Result<Box<dyn Agent>, String> {
        self.asked.store(true, Ordering::Relaxed);
        let (decisions, actions) = (self.decisions.clone(), self.actions.clone());
        Ok(Box::new(RemoteAgent { decisions, actions, reward: None, learned: 0 }))
    }

    fn anneal(&self, objective: &dyn Objective, start: &[u64], seed: u64) -> Vec<u64> {
        self.others.anneal(objective, start, seed)
    }
}

struct RemoteAgent {
    decisions: Sender<RemoteDecision>,
    actions: Receiver<f64>,
    reward: Option<f64>,
    learned: u64,
}

impl Agent for RemoteAgent {
    fn act(&mut self, state: AgentState) -> f64 {
        let decision = RemoteDecision { state, reward: self.reward.take() };
        let asked = self.decisions.send(decision).is_ok();
        // The environment was closed: no question or answer follows.
        asked.then(|| self.actions.recv().ok()).flatten().unwrap_or_else(|| stop::now())
    }

    fn learn(&mut self, experience: Experience) {
        self.learned += 1;
        self.reward = Some(experience.reward);
    }

    /// The caller judges its own actions.
    fn is_guarded(&self) -> bool {
        false
    }

    fn experience(&self) -> u64 {
        self.learned
    }
}
