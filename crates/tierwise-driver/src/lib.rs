//! The only loop: observe, decide, migrate, wait. It is the same for a simulated machine and a live
//! host.

use tierwise_core::engine::Engine;
use tierwise_core::migrate::MoveOutcome;
use tierwise_core::observe::Observation;
use tierwise_core::world::World;

/// Sees what passes through the loop. Nothing that it does changes the course of it.
pub trait Observer<W> {
    /// The world was observed.
    fn observed(&mut self, _world: &W, _observation: &Observation) {}

    /// A plan ([`Engine::plan`]) was carried out, with one outcome a move. The engine has not heard
    /// of them yet; what the budget cut is in [`Engine::cut`].
    fn migrated(&mut self, _world: &W, _engine: &Engine, _outcomes: &[MoveOutcome]) {}
}

/// Looks away.
impl<W> Observer<W> for () {}

/// Buffers of the loop, kept between rounds so that a steady state allocates nothing.
#[derive(Debug, Default)]
pub struct Driver {
    observation: Observation,
    outcomes: Vec<MoveOutcome>,
}

impl Driver {
    /// Drives until the world ends.
    ///
    /// # Errors
    /// The world broke down.
    pub fn drive<W: World>(&mut self, engine: &mut Engine, world: &mut W) -> Result<(), W::Error> {
        self.start(engine, world)?;
        while self.round(engine, world)? {}
        Ok(())
    }

    /// Tells the world what the policy wants to see, before anything happens.
    ///
    /// # Errors
    /// The world broke down.
    pub fn start<W: World>(&mut self, engine: &Engine, world: &mut W) -> Result<(), W::Error> {
        self.outcomes.clear();
        world.migrate(&engine.initial_plan(), &mut self.outcomes)
    }

    /// One round: wait, observe, decide, migrate. Returns false when the world has ended.
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

    /// As [`Driver::round`], before the eyes of an observer.
    ///
    /// # Errors
    /// The world broke down.
    pub fn round_with<W: World>(
        &mut self,
        engine: &mut Engine,
        world: &mut W,
        observer: &mut impl Observer<W>,
    ) -> Result<bool, W::Error> {
        let goes_on = world.wait_until(engine.poll_timeout())?;
        world.observe(&mut self.observation)?;
        observer.observed(world, &self.observation);
        engine.handle_observation(world.now(), &self.observation);
        while let Some(plan) = engine.poll_plan(world.now()) {
            self.outcomes.clear();
            world.migrate(plan, &mut self.outcomes)?;
            observer.migrated(world, engine, &self.outcomes);
            engine.handle_outcomes(world.now(), &self.outcomes);
        }
        Ok(goes_on)
    }
}
