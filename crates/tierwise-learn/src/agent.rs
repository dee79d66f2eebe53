//! MTAT's agent for one latency-critical tenant, over [`Sac`] (section 3.2.1, algorithm 1).

use tierwise_core::learn::{Agent, AgentState, Experience};

use crate::sac::{STATE, Sac, SacConfig, SacError, Transition};

/// An agent that learns while it acts. It stores each experience, and trains after every 50 new
/// ones (section 4).
///
/// A new agent explores: it samples its actions from its policy. An agent that starts from a
/// trained model takes the mean of its policy, because exploration would cost its tenant the SLO
/// that the model was trained for. It goes on learning from the transitions of its training and new
/// ones together, as if it had not been stopped. A model whose file has no transitions does not
/// learn: the first hundred are those of one load, and a few steps on them alone unlearn the
/// others.
///
/// ```
/// use tierwise_core::learn::{Agent, AgentState};
/// use tierwise_learn::{SacAgent, sac::SacConfig};
///
/// let mut agent = SacAgent::new(&SacConfig::default(), 1)?;
/// let action = agent.act(AgentState { usage_ratio: 0.5, access_ratio: 0.9, load: 0.3 });
/// assert!((-1.0..=1.0).contains(&action));
/// assert_eq!(agent.experience(), 0);
/// # Ok::<(), tierwise_learn::sac::SacError>(())
/// ```
pub struct SacAgent {
    sac: Sac,
    trained: bool,
    learns: bool,
    learned: u64,
}

impl SacAgent {
    /// An agent without experience.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn new(config: &SacConfig, seed: u64) -> Result<Self, SacError> {
        Ok(Self { sac: Sac::new(config, seed)?, trained: false, learns: true, learned: 0 })
    }

    /// An agent that starts from the model in a file of [`Sac::save`].
    ///
    /// # Errors
    /// Like [`Sac::load`].
    pub fn trained(path: &str, config: &SacConfig, seed: u64) -> Result<Self, SacError> {
        Ok(Self::started_from(Sac::load(path, config, seed)?))
    }

    /// An agent that starts from the model in these bytes. Errors use `name` for them.
    pub(crate) fn of(
        name: &str,
        bytes: &[u8],
        config: &SacConfig,
        seed: u64,
    ) -> Result<Self, SacError> {
        Ok(Self::started_from(Sac::read(name, bytes, config, seed)?))
    }

    fn started_from(sac: Sac) -> Self {
        let learns = !sac.is_empty();
        Self { sac, trained: true, learns, learned: 0 }
    }

    /// The learner, which the caller can save.
    pub fn sac(&self) -> &Sac {
        &self.sac
    }
}

fn numbers(state: AgentState) -> [f32; STATE] {
    [state.usage_ratio as f32, state.access_ratio as f32, state.load as f32]
}

impl Agent for SacAgent {
    fn act(&mut self, state: AgentState) -> f64 {
        let state = numbers(state);
        f64::from(if self.trained { self.sac.act_mean(state) } else { self.sac.act(state) })
    }

    fn learn(&mut self, experience: Experience) {
        self.learned += 1;
        if !self.learns {
            return;
        }
        self.sac.store(Transition {
            state: numbers(experience.state),
            action: experience.action as f32,
            reward: experience.reward as f32,
            next: numbers(experience.next),
            // A tenant's load does not end, so no state is the last.
            done: false,
        });
    }

    /// The number of experiences. The file of a trained model does not contain it, so a trained
    /// agent returns the largest number: no caller then waits for it to learn.
    fn experience(&self) -> u64 {
        if self.trained { u64::MAX } else { self.learned }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: AgentState = AgentState { usage_ratio: 0.5, access_ratio: 0.8, load: 0.4 };

    fn experience(action: f64) -> Experience {
        Experience { state: STATE, action, reward: 0.5, next: STATE }
    }

    /// The learner's warm-up is 100 experiences, and it trains at every 50.
    #[test]
    fn training_runs_every_fifty_experiences() {
        let mut agent = SacAgent::new(&SacConfig::default(), 3).unwrap();
        let trained = |agent: &SacAgent| agent.sac().steps() > 0;
        (0..99).for_each(|i| agent.learn(experience(f64::from(i % 3) - 1.0)));
        assert!(!trained(&agent));
        agent.learn(experience(0.0));
        assert!(trained(&agent));
        assert_eq!(agent.experience(), 100);
        let steps = agent.sac().steps();
        (0..49).for_each(|_| agent.learn(experience(0.5)));
        assert_eq!(agent.sac().steps(), steps);
        agent.learn(experience(0.5));
        assert_eq!(agent.sac().steps(), 2 * steps);
    }

    #[test]
    fn model_learns_from_its_own_transitions_too() {
        let mut agent = SacAgent::new(&SacConfig::default(), 3).unwrap();
        (0..100).for_each(|i| agent.learn(experience(f64::from(i % 3) - 1.0)));
        let bytes = agent.sac().to_bytes().unwrap();
        let mut model = SacAgent::of("bytes", &bytes, &SacConfig::default(), 4).unwrap();
        (0..50).for_each(|_| model.learn(experience(0.5)));
        assert_eq!((model.sac().len(), model.sac().steps()), (150, 50));
    }

    #[test]
    fn model_acts_deterministically_without_exploring() {
        let agent = |seed| SacAgent::new(&SacConfig::default(), seed).unwrap();
        let acts = |mut agent: SacAgent| -> Vec<f64> { (0..5).map(|_| agent.act(STATE)).collect() };
        assert_eq!(acts(agent(1)), acts(agent(1)));
        assert_ne!(acts(agent(1)), acts(agent(2)));

        let file = tempfile::NamedTempFile::new().unwrap();
        agent(1).sac().save(file.path()).unwrap();
        let path = file.path().to_str().unwrap();
        let model = SacAgent::trained(path, &SacConfig::default(), 9).unwrap();
        let actions = acts(model);
        assert!(actions.iter().all(|action| *action == actions[0]));
        let mut model = SacAgent::trained(path, &SacConfig::default(), 9).unwrap();
        (0..200).for_each(|_| model.learn(experience(0.5)));
        assert_eq!(model.sac().steps(), 0, "its file has no transitions");
        assert!(SacAgent::trained("no/such/file", &SacConfig::default(), 9).is_err());
    }
}
