"""Reverb as a replay buffer, its server in the same process: prints one line of JSON.

Written with its structured writers, which create the items in C++, and read through its dataset, which fetches ahead.
Reverb takes steps one by one; the dictionaries they come in are made before the clock starts.
"""

import functools
from typing import Any

import numpy as np
import reverb
import tensorflow as tf
from replaying import BATCH, LENGTH, SEQUENCES, Columns, Row, run
from reverb import structured

PATTERNS = {
    "whole": lambda step: {name: column[-1] for name, column in step.items()},
    "once": lambda step: (
        {name: column[-2] for name, column in step.items()} | {"next_observation": step["observation"][-1]}
    ),
    "steps": lambda step: {name: column[-LENGTH:] for name, column in step.items()},
}


class Buffer:
    """A server with one table, a writer and a dataset."""

    def __init__(self, batches: list[Columns], capacity: int, prioritised: bool, pattern: str, size: int) -> None:
        self.batches = [_steps(batch) for batch in batches]
        self.size = size
        self.held = capacity
        example = self.batches[0][0]
        apply = [structured.Condition.steps_since_applied() >= LENGTH] if pattern == "steps" else []
        config = structured.create_config(
            structured.pattern_from_transform(dict.fromkeys(example), PATTERNS[pattern]), "table", apply
        )
        specs = {name: tf.TensorSpec(np.shape(value), value.dtype) for name, value in example.items()}
        table = reverb.Table(
            name="table",
            sampler=reverb.selectors.Prioritized(0.6) if prioritised else reverb.selectors.Uniform(),
            remover=reverb.selectors.Fifo(),
            max_size=capacity,
            rate_limiter=reverb.rate_limiters.MinSize(1),
            signature=structured.infer_signature([config], specs),
        )
        self.server = reverb.Server([table])
        self.client = self.server.localhost_client()
        self.writer = self.client.structured_writer([config])
        self.dataset: Any = None

    def insert(self, number: int) -> None:
        for step in self.batches[number % len(self.batches)]:
            self.writer.append(step)
        self.writer.flush()

    def sample(self) -> Any:
        if self.dataset is None:
            dataset = reverb.TrajectoryDataset.from_table_signature(
                f"localhost:{self.server.port}", "table", max_in_flight_samples_per_worker=2 * self.size
            )
            self.dataset = dataset.batch(self.size).as_numpy_iterator()
        return next(self.dataset)

    def columns(self, sample: Any) -> Columns:
        return sample.data

    def update(self, sample: Any, priorities: np.ndarray) -> None:
        updates = dict(zip(sample.info.key.tolist(), priorities.tolist(), strict=True))
        self.client.mutate_priorities("table", updates)


class Sequences(Buffer):
    """Items of 80 steps."""

    def __init__(self, batches: list[Columns], capacity: int, prioritised: bool, pattern: str) -> None:
        if pattern == "steps":
            steps = SEQUENCES * LENGTH
            batches = [
                {name: column.reshape(steps, *column.shape[2:]) for name, column in batch.items()} for batch in batches
            ]
        super().__init__(batches, capacity // LENGTH, prioritised, pattern, SEQUENCES)
        self.held = capacity // LENGTH * LENGTH


def once(batches: list[Columns], capacity: int, prioritised: bool) -> Buffer:
    steps = [{name: column for name, column in batch.items() if name != "next_observation"} for batch in batches]
    return Buffer(steps, capacity, prioritised, "once", BATCH)


def _steps(batch: Columns) -> list[dict[str, Any]]:
    """Take a batch apart into its rows."""
    return [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]


if __name__ == "__main__":
    tf.constant(0)  # its runtime is no part of a buffer's memory
    run(
        "dm-reverb",
        {
            "reverb": Row(functools.partial(Buffer, pattern="whole", size=BATCH)),
            "reverb, steps once": Row(once),
            "reverb, sequences of steps": Row(functools.partial(Sequences, pattern="steps"), cases=("sequences",)),
            "reverb, sequences as steps": Row(functools.partial(Sequences, pattern="whole"), cases=("sequences",)),
        },
    )
