"""weft's store as a replay buffer: prints one line of JSON."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from replaying import BATCH, LENGTH, SEQUENCES, Columns, Row, run

from weft.experience.patterns import Pattern, column, stack
from weft.experience.priorities import Prioritised
from weft.experience.selectors import Uniform
from weft.experience.store import Sample, Store
from weft.experience.table import TableSettings
from weft.program import Leaf

NOW = {name: column(name)[-2] for name in ("action", "reward", "discount")}
WHOLE = {name: column(name)[-LENGTH:] for name in ("observation", "action", "reward", "discount")}


def layout_of(columns: Mapping[str, np.ndarray], leading: int) -> dict[str, Leaf]:
    return {name: Leaf(values.shape[leading:], values.dtype.name) for name, values in columns.items()}


class Transitions:
    """One stream of steps, stored once; an item is a step and the observation of the next one."""

    size = BATCH
    pattern = Pattern({**NOW, "observation": column("observation")[-2], "next_observation": column("observation")[-1]})

    def __init__(self, batches: list[Columns], capacity: int, prioritised: bool) -> None:
        self.batches = [self.steps(batch) for batch in batches]
        table = TableSettings("replay", capacity, Prioritised(0.6) if prioritised else Uniform())
        self.store = Store(
            layout_of(self.batches[0], 2),
            [table],
            reach=BATCH + self.pattern.span,
            chunk=BATCH,
            chunks=capacity // BATCH + 8,
        )
        self.held = capacity

    def steps(self, batch: Columns) -> Columns:
        """Return a batch as it is stored, [256, 1, ...]."""
        return {name: values[:, None] for name, values in batch.items() if name != "next_observation"}

    def insert(self, number: int) -> None:
        self.store.extend(self.batches[number % len(self.batches)], length=BATCH)
        complete = min(BATCH, int(self.store.streams.count[0]) - self.pattern.span + 1)
        self.store.insert("replay", self.pattern.span, number=complete)

    def sample(self) -> Sample:
        return self.store.sample("replay", self.size, self.pattern)

    def columns(self, sample: Sample) -> Any:
        return sample.items

    def update(self, sample: Sample, priorities: np.ndarray) -> None:
        self.store.update("replay", sample.drawn.keys, priorities)


class Frames(Transitions):
    """Every frame stored once: an item is 5 steps, of which two stacks of 4 are made on the way out."""

    pattern = Pattern(
        {
            **NOW,
            "observation": stack([column("frame")[age] for age in range(-5, -1)], axis=-1),
            "next_observation": stack([column("frame")[age] for age in range(-4, 0)], axis=-1),
        }
    )

    def steps(self, batch: Columns) -> Columns:
        steps = super().steps(batch)
        frame = np.ascontiguousarray(steps.pop("observation")[..., -1])
        return {**steps, "frame": frame}


class Sequences(Transitions):
    """32 streams side by side; an item is 80 steps of one, in a chunk of its own."""

    size = SEQUENCES
    pattern = Pattern(WHOLE)

    def __init__(self, batches: list[Columns], capacity: int, prioritised: bool) -> None:
        self.batches = [{name: values.swapaxes(0, 1) for name, values in batch.items()} for batch in batches]
        items = capacity // LENGTH
        self.store = Store(
            layout_of(self.batches[0], 2),
            [TableSettings("replay", items)],
            streams=SEQUENCES,
            reach=LENGTH,
            chunk=LENGTH,
            chunks=items + 4 * SEQUENCES,
        )
        self.held = items * LENGTH

    def insert(self, number: int) -> None:
        self.store.extend(self.batches[number % len(self.batches)], length=LENGTH)
        self.store.insert("replay", LENGTH)


if __name__ == "__main__":
    run(
        "weft",
        {
            "weft": Row(Transitions),
            "weft, frames once": Row(Frames, cases=("images",)),
            "weft, sequences": Row(Sequences, cases=("sequences",)),
        },
    )
