"""Train in an environment of your own: any Gymnasium environment, given as its class or as a function that makes it.

The same from a shell in this folder:

    weft train dqn own_environment:Corridor --env.arguments length 12 --env.time-limit 60
"""

from typing import Any

import gymnasium
import numpy as np

import weft


class Corridor(gymnasium.Env):
    """Walk to the right end of a corridor; every step costs a little."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, length: int = 8, render_mode: str | None = None) -> None:
        self.observation_space = gymnasium.spaces.Discrete(length)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.render_mode = render_mode
        self.length = length
        self.position = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = int(self.np_random.integers(self.length // 2))
        return self.position, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.position = int(np.clip(self.position + (1 if action else -1), 0, self.length - 1))
        arrived = self.position == self.length - 1
        return self.position, 1.0 if arrived else -0.01, arrived, False, {}

    def render(self) -> np.ndarray:
        picture = np.full((16, 16 * self.length, 3), 230, np.uint8)
        picture[:, 16 * self.position : 16 * (self.position + 1)] = (0, 114, 178)
        return picture


def main() -> None:
    run = weft.train(
        "dqn",
        Corridor,
        env={"arguments": {"length": 12}, "time_limit": 60},  # truncated after 60 steps; see docs/environments.md
        steps=6_000,
        settings={"warmup": 500},
    )
    print(f"mean return {run.evaluate(episodes=10).mean_return:.2f}")
    print(f"filmed in {run.record(run.folder / 'corridor.gif')}")


if __name__ == "__main__":
    main()
