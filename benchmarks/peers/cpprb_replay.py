"""cpprb as a replay buffer: prints one line of JSON."""

import functools

import numpy as np
from cpprb import PrioritizedReplayBuffer, ReplayBuffer
from replaying import BATCH, LENGTH, SEQUENCES, Columns, Row, run


class Buffer:
    """Arrays with the names of the batches, one row for each item."""

    size = BATCH

    def __init__(self, batches: list[Columns], capacity: int, prioritised: bool, **options: str) -> None:
        once = options.get("next_of")
        shapes = {
            name: {"shape": column.shape[1:] or 1, "dtype": column.dtype}
            for name, column in batches[0].items()
            if name != f"next_{once}"
        }
        kind = PrioritizedReplayBuffer if prioritised else ReplayBuffer
        self.buffer = kind(capacity, shapes, **options)
        self.batches = batches
        self.held = capacity

    def insert(self, number: int) -> None:
        self.buffer.add(**self.batches[number % len(self.batches)])

    def sample(self) -> Columns:
        return self.buffer.sample(self.size)

    def columns(self, sample: Columns) -> Columns:
        return sample

    def update(self, sample: Columns, priorities: np.ndarray) -> None:
        self.buffer.update_priorities(sample["indexes"], priorities)


class Sequences(Buffer):
    """cpprb has no sequences of its own: an item is a whole one, of columns [80, ...]."""

    size = SEQUENCES

    def __init__(self, batches: list[Columns], capacity: int, prioritised: bool) -> None:
        super().__init__(batches, capacity // LENGTH, prioritised)
        self.held = capacity // LENGTH * LENGTH


if __name__ == "__main__":
    once = functools.partial(Buffer, next_of="observation")
    stacked = functools.partial(Buffer, next_of="observation", stack_compress="observation")
    run(
        "cpprb",
        {
            "cpprb": Row(Buffer),
            "cpprb, next_of": Row(once),
            "cpprb, next_of, stack_compress": Row(stacked, cases=("images",)),
            "cpprb, sequences as items": Row(Sequences, cases=("sequences",)),
        },
    )
