//! The only loop: wait, observe, decide, migrate. It is the same for a simulated machine and a live
//! host.

#![warn(unreachable_pub)]

use tierwise_core::engine::Engine;
use tierwise_core::migrate::MoveOutcome;
use tierwise_core::observe::Observation;
use tierwise_core::world::World;

/// Receives each step of the loop. It cannot change the course of the loop.
pub trait Observer<W> {
    /// The world was observed.
    fn observed(&mut self, _world: &W, _observation: &Observation) {}

    /// A plan ([`Engine::plan`]) was executed, with one outcome per move. The engine does not know
    /// the outcomes yet. [`Engine::cut`] holds the moves that exceeded the budget.
    fn migrated(&mut self, _world: &W, _engine: &Engine, _outcomes: &[MoveOutcome]) {}
}

/// The observer that does nothing.
impl<W> Observer<W> for () {}

/// The steps that a round takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RoundMode {
    /// Wait until the engine's deadline, observe, decide, migrate. A world that cannot afford a
    /// decision goes on with the moves of the last plan.
    #[default]
    Manage,
    /// Wait for as long as the world decides, and observe. The engine keeps its page table current
    /// and makes no plan.
    Observe,
}

/// The loop, with buffers that it keeps between rounds so that a steady state allocates nothing.
#[derive(Debug, Default)]
pub struct Driver {
    mode: RoundMode,
    observation: Observation,
    outcomes: Vec<MoveOutcome>,
}

impl Driver {
    /// Sets the steps of the rounds from now on. A new driver manages.
    pub fn set_mode(&mut self, mode: RoundMode) {
        self.mode = mode;
    }

    /// Drives until the world ends.
    ///
    /// # Errors
    /// The world broke down.
    pub fn drive<W: World>(&mut self, engine: &mut Engine, world: &mut W) -> Result<(), W::Error> {
        self.start(engine, world)?;
        while self.round(engine, world)? {}
        Ok(())
    }

    /// Passes the engine's initial plan to the world: the signals that the policy requires and its
    /// persistent placement settings. Comes before the first round.
    ///
    /// # Errors
    /// The world broke down.
    pub fn start<W: World>(&mut self, engine: &Engine, world: &mut W) -> Result<(), W::Error> {
        self.outcomes.clear();
        world.migrate(&engine.initial_plan(), &mut self.outcomes)
    }

    /// Runs one round in the driver's [`RoundMode`]. Returns false when the world has ended.
    ///
    /// # Errors
    /// The world broke down.
    pub fn round<W: World>(
        &mut self,
        engine: &mut Engine,
        world: &mut W,
    ) -> Result<bool, W::Error> {
        self.round_with(engine, world, &mut ())
    }

    /// Like [`Driver::round`], and reports each step to `observer`.
    ///
    /// # Errors
    /// The world broke down.
    pub fn round_with<W: World>(
        &mut self,
        engine: &mut Engine,
        world: &mut W,
        observer: &mut impl Observer<W>,
    ) -> Result<bool, W::Error> {
        let deadline = match self.mode {
            RoundMode::Manage => engine.poll_timeout(),
            RoundMode::Observe => None,
        };
        let goes_on = world.wait_until(deadline)?;
        world.observe(&mut self.observation)?;
        observer.observed(world, &self.observation);
        engine.handle_observation(world.now(), &self.observation);
        if self.mode == RoundMode::Observe {
            return Ok(goes_on);
        }
        let plan = if world.affords_decision() {
            engine.poll_plan(world.now())
        } else {
            engine.poll_rest()
        };
        if let Some(plan) = plan {
            self.outcomes.clear();
            world.migrate(plan, &mut self.outcomes)?;
            observer.migrated(world, engine, &self.outcomes);
            engine.handle_outcomes(world.now(), &self.outcomes);
        }
        Ok(goes_on)
    }
}
