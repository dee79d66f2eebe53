//! Migration: a plan's moves, and the rest of blocks that moved in part.

use tierwise_core::migrate::{Move, MoveOutcome};

use super::apply::MoveContext;
use super::{Event, LiveWorld};
use crate::migrate::Calls;

impl<C: Calls> LiveWorld<C> {
    /// Carries out moves, one outcome for each.
    pub(super) fn carry_out(&mut self, moves: &[Move], out: &mut Vec<MoveOutcome>) {
        let dry_run = self.moves_nothing();
        let context = MoveContext {
            roots: &self.config.roots,
            host: &self.host,
            blocks: &mut self.blocks,
            survey: &mut self.survey,
        };
        let carried = self.migrator.apply(moves, dry_run, context, out);
        self.account.cpu_budget.moving(self.migrator.take_cpu());
        if let Err(e) = carried {
            // A later plan may be carried out: a missing capability is reported and ends nothing.
            self.account.events.push(Event::Refused(e.to_string()));
        }
    }

    /// Whether moves are only decided.
    fn moves_nothing(&self) -> bool {
        self.config.dry_run || self.unreadable().is_some()
    }

    /// What is left behind of blocks that moved follows them.
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
        self.account.cpu_budget.moving(self.migrator.take_cpu());
        if let Err(e) = finished {
            self.account.events.push(Event::Refused(e.to_string()));
        }
    }
}
