"""TorchRL as a replay buffer: prints one line of JSON.

Its priorities are left out: they are in an extension in C++ that has to be built for the very PyTorch in use, and no
published wheel (0.6.0 to 0.14.1) is built for ``measuring.TORCH``: the symbols of PyTorch it looks for are not there.
Measured with as many threads as PyTorch takes by itself and with 1, which is faster when a core is busy.
"""

import functools

import numpy as np
import torch
from replaying import BATCH, LENGTH, SEQUENCES, Columns, Row, run
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer


class Buffer:
    """Transitions in tensors."""

    def __init__(self, batches: list[Columns], capacity: int, prioritised: bool, threads: int | None = None) -> None:
        torch.set_num_threads(threads or torch.get_num_threads())
        self.buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(capacity), batch_size=BATCH)
        self.batches = [{name: torch.from_numpy(column) for name, column in batch.items()} for batch in batches]
        self.held = capacity

    def insert(self, number: int) -> None:
        self.buffer.extend(TensorDict(self.batches[number % len(self.batches)], batch_size=[BATCH]))

    def sample(self) -> TensorDict:
        return self.buffer.sample()

    def columns(self, sample: TensorDict) -> Columns:
        return {name: sample[name].numpy() for name in self.batches[0]}

    def update(self, sample: TensorDict, priorities: np.ndarray) -> None:
        raise NotImplementedError("no wheel of TorchRL has priorities with this PyTorch")


class Sequences:
    """Slices of trajectories of 80 steps; where they begin is found once and remembered until the next insertion."""

    def __init__(self, batches: list[Columns], capacity: int, prioritised: bool, threads: int | None = None) -> None:
        torch.set_num_threads(threads or torch.get_num_threads())
        steps = SEQUENCES * LENGTH
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(capacity),
            sampler=SliceSampler(num_slices=SEQUENCES, traj_key="trajectory", truncated_key=None, cache_values=True),
            batch_size=steps,
        )
        self.batches = [
            {name: torch.from_numpy(column.reshape(steps, *column.shape[2:])) for name, column in batch.items()}
            for batch in batches
        ]
        self.trajectories = torch.arange(SEQUENCES).repeat_interleave(LENGTH)
        self.held = capacity

    def insert(self, number: int) -> None:
        batch = self.batches[number % len(self.batches)]
        trajectories = self.trajectories + number * SEQUENCES
        self.buffer.extend(TensorDict({**batch, "trajectory": trajectories}, batch_size=len(trajectories)))

    def sample(self) -> TensorDict:
        return self.buffer.sample().reshape(SEQUENCES, LENGTH)

    def columns(self, sample: TensorDict) -> Columns:
        return {name: sample[name].numpy() for name in self.batches[0]}

    def update(self, sample: TensorDict, priorities: np.ndarray) -> None:
        raise NotImplementedError("sequences are drawn uniformly")


if __name__ == "__main__":
    sequences = Row(Sequences, cases=("sequences",), prioritised=False)
    run(
        "torchrl",
        {
            "torchrl": Row(Buffer, prioritised=False),
            "torchrl, 1 thread": Row(functools.partial(Buffer, threads=1), prioritised=False),
            "torchrl, SliceSampler": sequences,
            "torchrl, SliceSampler, 1 thread": sequences._replace(make=functools.partial(Sequences, threads=1)),
        },
    )
