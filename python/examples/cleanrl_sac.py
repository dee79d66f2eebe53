"""Trains Soft Actor-Critic on `fast_tier.toml` as CleanRL's scripts do: the algorithm, its
networks and its loop in one file that uses nothing but PyTorch.

``python cleanrl_sac.py --seed 1 --curve cleanrl-1.csv --model cleanrl-1.pt``, with ``pip install
tierwise torch``. The algorithm is that of Haarnoja et al., "Soft Actor-Critic Algorithms and
Applications" (2018): two critics, a learned temperature, and an actor of a squashed Gaussian.
"""

import copy
import math
import random
from pathlib import Path

import numpy as np
import torch
from fast_tier import Curve, Observation, Policy, arguments
from tierwise import State
from torch import Tensor, nn
from torch.nn import functional

HIDDEN = 64
LEARNING_RATE = 1e-3
DISCOUNT = 0.99
#: The share of a critic that its target takes over per step.
TAU = 0.005
BATCH = 64
#: Transitions with random actions, before the first gradient step: five episodes.
START = 400
#: The actor's entropy that the temperature aims at: less one for each dimension of an action.
TARGET_ENTROPY = -1.0
#: Limits of a Gaussian's logarithmic deviation: outside, its gradient vanishes or explodes.
LOG_STD = (-5.0, 2.0)


def layers(inputs: int, outputs: int) -> nn.Sequential:
    """A network with two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, outputs),
    )


class Actor(nn.Module):
    """A Gaussian of three readings, squashed to -1 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.net = layers(3, 2)

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Returns sampled actions and the logarithms of their densities."""
        mean, log_std = self.net(states).chunk(2, dim=-1)
        normal = torch.distributions.Normal(mean, log_std.clamp(*LOG_STD).exp())
        raw = normal.rsample()
        # log(1 - tanh(x)^2), in a form that does not cancel.
        squashed = 2.0 * (math.log(2.0) - raw - functional.softplus(-2.0 * raw))
        return torch.tanh(raw), normal.log_prob(raw) - squashed

    def best(self, states: Tensor) -> Tensor:
        """Returns the means."""
        return torch.tanh(self.net(states)[..., :1])


class Memory:
    """All transitions of a training."""

    def __init__(self, size: int) -> None:
        self._states = np.zeros((size, 3), np.float32)
        self._nexts = np.zeros((size, 3), np.float32)
        self._actions = np.zeros((size, 1), np.float32)
        self._rewards = np.zeros((size, 1), np.float32)
        self._count = 0

    def add(self, state: Observation, action: Observation, reward: float, nxt: Observation) -> None:
        """Appends one. Episodes are truncated and never terminate, so no end is kept."""
        at = self._count
        self._states[at], self._nexts[at] = state, nxt
        self._actions[at], self._rewards[at] = action, reward
        self._count += 1

    def sample(self, generator: np.random.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Draws a batch."""
        at = generator.integers(self._count, size=BATCH)
        arrays = (self._states[at], self._actions[at], self._rewards[at], self._nexts[at])
        states, actions, rewards, nexts = map(torch.from_numpy, arrays)
        return states, actions, rewards, nexts


class Learner:
    """Networks, their targets and their optimisers."""

    def __init__(self) -> None:
        self.actor = Actor()
        self.critics = nn.ModuleList([layers(4, 1), layers(4, 1)])
        self.targets = copy.deepcopy(self.critics)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.of_actor = torch.optim.Adam(self.actor.parameters(), LEARNING_RATE)
        self.of_critics = torch.optim.Adam(self.critics.parameters(), LEARNING_RATE)
        self.of_alpha = torch.optim.Adam([self.log_alpha], LEARNING_RATE)

    def learn(self, states: Tensor, actions: Tensor, rewards: Tensor, nexts: Tensor) -> None:
        """Takes a gradient step with a batch."""
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            following, density = self.actor(nexts)
            inputs = torch.cat([nexts, following], 1)
            worst = torch.min(self.targets[0](inputs), self.targets[1](inputs))
            wanted = rewards + DISCOUNT * (worst - alpha * density)
        inputs = torch.cat([states, actions], 1)
        loss = sum(functional.mse_loss(critic(inputs), wanted) for critic in self.critics)
        self._step(self.of_critics, loss)

        chosen, density = self.actor(states)
        inputs = torch.cat([states, chosen], 1)
        worst = torch.min(self.critics[0](inputs), self.critics[1](inputs))
        self._step(self.of_actor, (alpha * density - worst).mean())
        gap = density.detach() + TARGET_ENTROPY
        self._step(self.of_alpha, -(self.log_alpha.exp() * gap).mean())
        with torch.no_grad():
            pairs = zip(self.targets.parameters(), self.critics.parameters(), strict=True)
            for target, critic in pairs:
                target.lerp_(critic, TAU)

    @staticmethod
    def _step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def load(model: Path) -> Policy:
    """A trained model's deterministic policy."""
    actor = Actor()
    actor.load_state_dict(torch.load(model, weights_only=True))

    def act(state: State) -> float:
        with torch.no_grad():
            return float(actor.best(torch.tensor(state, dtype=torch.float32)))

    return act


def main() -> None:
    """Trains, and writes the curve and the model."""
    asked = arguments(__doc__ or "")
    torch.set_num_threads(1)
    random.seed(asked.seed)
    torch.manual_seed(asked.seed)
    generator = np.random.default_rng(asked.seed)
    env = Curve("SAC in one file", asked.seed, asked.curve)
    learner, memory = Learner(), Memory(asked.transitions)
    observation, _ = env.reset(seed=asked.seed)
    for transition in range(asked.transitions):
        if transition < START:
            action = generator.uniform(-1.0, 1.0, 1).astype(np.float32)
        else:
            with torch.no_grad():
                action = learner.actor(torch.from_numpy(observation)[None])[0][0].numpy()
        following, reward, _, truncated, _ = env.step(action)
        memory.add(observation, action, reward, following)
        observation = env.reset()[0] if truncated else following
        if transition >= START:
            learner.learn(*memory.sample(generator))
    torch.save(learner.actor.state_dict(), asked.model)


if __name__ == "__main__":
    main()
