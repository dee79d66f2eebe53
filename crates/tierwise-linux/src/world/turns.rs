//! The order in which a plan's moves are made. A plan demotes before it promotes; a round that is
//! too short for all would only demote.

use tierwise_core::migrate::{Cause, Move, MoveOutcome};

use super::blocks::Blocks;

/// Moves in the order in which they are made.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Places in the plan.
    order: Vec<usize>,
    /// Scratch: the places of promotions and demotions.
    up: Vec<usize>,
    down: Vec<usize>,
    pub(super) moves: Vec<Move>,
    /// One outcome per move that was made, in the same order.
    pub(super) outcomes: Vec<MoveOutcome>,
    /// The outcomes in the plan's order.
    sorted: Vec<(usize, MoveOutcome)>,
}

impl Turns {
    /// Orders a plan's moves: demotions and promotions in turns of so many bytes, each in the
    /// plan's order. Both halves of an exchange belong to the promotions, as one may fail because
    /// the other did.
    pub(super) fn start(&mut self, moves: &[Move], blocks: &Blocks, portion: u64) {
        for list in [&mut self.order, &mut self.up, &mut self.down] {
            list.clear();
        }
        for (i, m) in moves.iter().enumerate() {
            let is_up = makes_room(m.cause) || is_promotion(m, blocks);
            if is_up { self.up.push(i) } else { self.down.push(i) }
        }
        let turn = usize::try_from((portion / blocks.size()).max(1)).unwrap_or(usize::MAX);
        let (mut up, mut down) = (self.up.chunks(turn), self.down.chunks(turn));
        while self.order.len() < moves.len() {
            let parts = [down.next(), up.next()].into_iter().flatten();
            parts.for_each(|part| self.order.extend_from_slice(part));
        }
        self.moves.clear();
        self.moves.extend(self.order.iter().map(|&i| moves[i]));
        self.outcomes.clear();
    }

    /// Adds the outcomes in the plan's order.
    pub(super) fn end(&mut self, out: &mut Vec<MoveOutcome>) {
        self.sorted.clear();
        self.sorted.extend(self.order.iter().copied().zip(self.outcomes.iter().copied()));
        self.sorted.sort_unstable_by_key(|&(i, _)| i);
        out.extend(self.sorted.iter().map(|&(_, outcome)| outcome));
    }
}

/// True if a move is one half of an exchange: without the promotion that follows, its tenant would
/// only lose memory.
pub(super) fn makes_room(cause: Cause) -> bool {
    matches!(cause, Cause::AtShare | Cause::MakeRoom)
}

fn is_promotion(m: &Move, blocks: &Blocks) -> bool {
    blocks.get(m.page).is_some_and(|block| m.to < block.tier)
}
