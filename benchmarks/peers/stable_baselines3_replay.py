"""Stable-Baselines3 as a replay buffer: prints one line of JSON. It has neither priorities nor sequences.

Measured with as many threads as PyTorch takes by itself and with 1, which is faster when a core is busy.
"""

import functools

import numpy as np
import torch
from gymnasium import spaces
from replaying import BATCH, Columns, Row, run
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples


class Buffer:
    """Steps of 256 environments; ``once`` finds the next observation in the next step."""

    def __init__(
        self,
        batches: list[Columns],
        capacity: int,
        prioritised: bool,
        once: bool = False,
        threads: int | None = None,
    ) -> None:
        torch.set_num_threads(threads or torch.get_num_threads())
        observation, action = batches[0]["observation"], batches[0]["action"]
        if observation.dtype == np.uint8:
            seen: spaces.Space = spaces.Box(0, 255, observation.shape[1:], np.uint8)
        else:
            seen = spaces.Box(-np.inf, np.inf, observation.shape[1:], np.float32)
        done: spaces.Space = spaces.Discrete(18) if action.ndim == 1 else spaces.Box(-1, 1, action.shape[1:])
        self.buffer = ReplayBuffer(
            capacity, seen, done, "cpu", BATCH, optimize_memory_usage=once, handle_timeout_termination=not once
        )
        self.batches = [batch | {"done": 1 - batch["discount"]} for batch in batches]
        self.infos: list[dict] = [{} for _ in range(BATCH)]
        self.held = capacity // BATCH * BATCH

    def insert(self, number: int) -> None:
        batch = self.batches[number % len(self.batches)]
        self.buffer.add(
            batch["observation"], batch["next_observation"], batch["action"], batch["reward"], batch["done"], self.infos
        )

    def sample(self) -> ReplayBufferSamples:
        return self.buffer.sample(BATCH)

    def columns(self, sample: ReplayBufferSamples) -> Columns:
        return {
            "observation": sample.observations.numpy(),
            "reward": sample.rewards.numpy(),
            "next_observation": sample.next_observations.numpy(),
        }

    def update(self, sample: ReplayBufferSamples, priorities: np.ndarray) -> None:
        raise NotImplementedError("Stable-Baselines3 has no priorities")


if __name__ == "__main__":
    row = Row(Buffer, streams=BATCH, prioritised=False)
    run(
        "stable-baselines3",
        {
            "stable-baselines3": row,
            "stable-baselines3, 1 thread": row._replace(make=functools.partial(Buffer, threads=1)),
            "stable-baselines3, optimize_memory_usage, 1 thread": row._replace(
                make=functools.partial(Buffer, once=True, threads=1)
            ),
        },
    )
