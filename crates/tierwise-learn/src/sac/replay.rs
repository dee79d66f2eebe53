//! Transitions, and the replay buffer from which they are drawn.

use candle_core::{Device, Result, Tensor};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::STATE;
use super::mlp::column;

/// The largest magnitude of a state's number or of a reward. Networks need inputs of about one
/// (MTAT's are ratios, and its rewards are in -1..=1, eq. 2). A number a thousand times as large
/// was not scaled. Its square must stay far below f32's largest number.
const MAX_NUMBER: f32 = 1000.0;

/// The result of one decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transition {
    /// The state before the decision: usage ratio, access ratio, normalised load.
    pub state: [f32; STATE],
    /// The action taken, scaled into -1..=1.
    pub action: f32,
    /// Its reward, about -1..=1.
    pub reward: f32,
    /// The state after the action.
    pub next: [f32; STATE],
    /// True if no further reward can follow (the tenant has ended).
    pub done: bool,
}

/// Numbers of a transition in a file: state, action, reward, next state, and 1 if it was the last.
pub(super) const NUMBERS: usize = 2 * STATE + 3;

impl Transition {
    /// Its numbers, in a file's order.
    fn numbers(&self) -> [f32; NUMBERS] {
        let mut numbers = [0.0; NUMBERS];
        numbers[..STATE].copy_from_slice(&self.state);
        numbers[STATE..STATE + 2].copy_from_slice(&[self.action, self.reward]);
        numbers[STATE + 2..NUMBERS - 1].copy_from_slice(&self.next);
        numbers[NUMBERS - 1] = f32::from(u8::from(self.done));
        numbers
    }

    /// The transition with these numbers.
    fn of(numbers: &[f32; NUMBERS]) -> Self {
        let mut transition = Self {
            state: [0.0; STATE],
            action: numbers[STATE],
            reward: numbers[STATE + 1],
            next: [0.0; STATE],
            done: numbers[NUMBERS - 1] != 0.0,
        };
        transition.state.copy_from_slice(&numbers[..STATE]);
        transition.next.copy_from_slice(&numbers[STATE + 2..NUMBERS - 1]);
        transition
    }

    /// Returns this transition with its action clipped into -1..=1 (MTAT, algorithm 1, line 5).
    /// Returns `None` if a number is not finite or larger than [`MAX_NUMBER`].
    fn checked(mut self) -> Option<Self> {
        let usable = self.action.is_finite() && usable(&self.state) && usable(&self.next);
        self.action = self.action.clamp(-1.0, 1.0);
        (usable && fits(self.reward)).then_some(self)
    }
}

fn fits(number: f32) -> bool {
    number.is_finite() && number.abs() <= MAX_NUMBER
}

/// Returns true if the learner can learn from every number of a state.
pub(super) fn usable(state: &[f32; STATE]) -> bool {
    state.iter().copied().all(fits)
}

/// The newest transitions, up to a capacity.
#[derive(Debug)]
pub(super) struct Replay {
    kept: Vec<Transition>,
    capacity: usize,
    oldest: usize,
}

/// A mini-batch, one row per transition.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) states: Tensor,
    pub(super) actions: Tensor,
    pub(super) rewards: Tensor,
    pub(super) next: Tensor,
    /// 1 where a further decision follows, 0 where the transition was the last.
    pub(super) goes_on: Tensor,
}

impl Replay {
    /// Allocates memory for `capacity` transitions, in their order.
    pub(super) fn new(capacity: usize) -> Self {
        Self { kept: Vec::new(), capacity, oldest: 0 }
    }

    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Transitions kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// All transitions as rows of [`NUMBERS`], oldest first.
    pub(super) fn rows(&self) -> Vec<f32> {
        let (newer, older) = self.kept.split_at(self.oldest);
        older.iter().chain(newer).flat_map(Transition::numbers).collect()
    }

    /// Stores the transitions of [`Self::rows`]. Returns the first row that the learner cannot
    /// learn from.
    pub(super) fn restore(&mut self, rows: &[f32]) -> Option<usize> {
        let (rows, _) = rows.as_chunks::<NUMBERS>();
        rows.iter().position(|row| !self.push(Transition::of(row)))
    }

    /// Bytes that the buffer takes now.
    pub(super) fn bytes(&self) -> usize {
        self.kept.capacity() * size_of::<Transition>()
    }

    /// Stores a transition. Returns false if the learner cannot learn from it.
    pub(super) fn push(&mut self, transition: Transition) -> bool {
        let Some(transition) = transition.checked() else { return false };
        if self.kept.len() < self.capacity {
            self.kept.push(transition);
        } else {
            self.kept[self.oldest] = transition;
            self.oldest = (self.oldest + 1) % self.capacity;
        }
        true
    }

    /// Draws `rows` transitions uniformly, with repetition. The buffer must not be empty.
    pub(super) fn draw(&self, rows: usize, rng: &mut ChaCha8Rng) -> Result<Batch> {
        let drawn: Vec<&Transition> =
            (0..rows).map(|_| &self.kept[rng.random_range(0..self.kept.len())]).collect();
        let states = |of: fn(&Transition) -> [f32; STATE]| {
            let numbers: Vec<f32> = drawn.iter().flat_map(|transition| of(transition)).collect();
            Tensor::from_vec(numbers, (rows, STATE), &Device::Cpu)
        };
        let numbers = |of: fn(&Transition) -> f32| column(drawn.iter().map(|t| of(t)).collect());
        Ok(Batch {
            states: states(|t| t.state)?,
            actions: numbers(|t| t.action)?,
            rewards: numbers(|t| t.reward)?,
            next: states(|t| t.next)?,
            goes_on: numbers(|t| if t.done { 0.0 } else { 1.0 })?,
        })
    }
}
