"""Trains Stable-Baselines3's Soft Actor-Critic on `fast_tier.toml`.

``python sb3_sac.py --seed 1 --curve sb3-1.csv --model sb3-1.zip``, with ``pip install tierwise
stable-baselines3``.
"""

from pathlib import Path

import numpy as np
import torch
from fast_tier import Curve, Policy, arguments
from stable_baselines3 import SAC
from tierwise import State


def load(model: Path) -> Policy:
    """A trained model's deterministic policy."""
    sac = SAC.load(model, device="cpu")

    def act(state: State) -> float:
        action, _ = sac.predict(np.array(state, np.float32), deterministic=True)
        return float(action[0])

    return act


def main() -> None:
    """Trains, and writes the curve and the model."""
    asked = arguments(__doc__ or "")
    torch.set_num_threads(1)
    sac = SAC(
        "MlpPolicy",
        Curve("Stable-Baselines3 SAC", asked.seed, asked.curve),
        policy_kwargs={"net_arch": [64, 64]},
        learning_rate=1e-3,
        learning_starts=400,
        batch_size=64,
        seed=asked.seed,
        device="cpu",
    )
    sac.learn(asked.transitions)
    sac.save(asked.model)


if __name__ == "__main__":
    main()
