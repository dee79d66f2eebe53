//! Migration: a plan's moves, and the rest of blocks that moved in part.

use tierwise_core::migrate::{Move, MoveOutcome};

use super::apply::MoveContext;
use super::{LiveWorld, WorldEvent};
use crate::migrate::Calls;

impl<C: Calls> LiveWorld<C> {
    /// Applies moves. Adds one outcome per move.
    pub(super) fn apply_moves(&mut self, moves: &[Move], out: &mut Vec<MoveOutcome>) {
        let dry_run = self.moves_nothing();
        let context = MoveContext {
            roots: &self.config.roots,
            host: &self.host,
            blocks: &mut self.blocks,
            survey: &mut self.survey,
        };
        let applied = self.migrator.apply(moves, dry_run, context, out);
        self.migrator.correct(&self.host, &mut self.tenants);
        self.account.cpu_budget.moving(self.migrator.take_cpu());
        if let Err(e) = applied {
            // Not fatal: a later plan may succeed.
            self.account.events.push(WorldEvent::Refused(e.to_string()));
        }
    }

    /// True if moves are only planned.
    fn moves_nothing(&self) -> bool {
        self.config.dry_run || self.unreadable().is_some()
    }

    /// Moves the rest of blocks that moved in part.
    pub(super) fn finish_moves(&mut self) {
        if self.moves_nothing() {
            return;
        }
        let finished = self.migrator.finish(MoveContext {
            roots: &self.config.roots,
            host: &self.host,
            blocks: &mut self.blocks,
            survey: &mut self.survey,
        });
        self.migrator.correct(&self.host, &mut self.tenants);
        self.account.cpu_budget.moving(self.migrator.take_cpu());
        if let Err(e) = finished {
            self.account.events.push(WorldEvent::Refused(e.to_string()));
        }
    }
}
