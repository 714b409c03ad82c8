"""Flashbax as a replay buffer: prints one line of JSON.

Everything is compiled, and the state is donated, as its documentation asks for, so that it is updated in place.
"""

from typing import Any

import flashbax
import jax
import numpy as np
from replaying import BATCH, LENGTH, SEQUENCES, Columns, Row, run


class Buffer:
    """Compiled functions of one of Flashbax's buffers and the state they change."""

    def __init__(self, buffer: Any, batches: list[Columns], held: int) -> None:
        def sample(state: Any, key: jax.Array) -> tuple[jax.Array, Any]:
            key, now = jax.random.split(key)
            return key, buffer.sample(state, now)

        leading = 2 if batches[0]["reward"].ndim == 2 else 1
        step = {name: jax.numpy.zeros(column.shape[leading:], column.dtype) for name, column in batches[0].items()}
        self.state = buffer.init(step)
        self.key = jax.random.key(0)
        self._add = jax.jit(buffer.add, donate_argnums=0)
        self._sample = jax.jit(sample)
        if hasattr(buffer, "set_priorities"):
            self._set_priorities = jax.jit(buffer.set_priorities, donate_argnums=0)
        self.batches = batches
        self.held = held

    def insert(self, number: int) -> None:
        self.state = jax.block_until_ready(self._add(self.state, self.batches[number % len(self.batches)]))

    def sample(self) -> Any:
        self.key, sample = jax.block_until_ready(self._sample(self.state, self.key))
        return sample

    def columns(self, sample: Any) -> Columns:
        return sample.experience

    def update(self, sample: Any, priorities: np.ndarray) -> None:
        self.state = jax.block_until_ready(self._set_priorities(self.state, sample.indices, priorities))


class Flat(Buffer):
    """Steps are held once, and a sample is a pair of them."""

    def columns(self, sample: Any) -> Columns:
        first, second = sample.experience
        return first | {"next_observation": second["observation"]}


def items(batches: list[Columns], capacity: int, prioritised: bool) -> Buffer:
    make = flashbax.make_prioritised_item_buffer if prioritised else flashbax.make_item_buffer
    return Buffer(make(capacity, BATCH, BATCH, add_batches=True), batches, capacity)


def flat(batches: list[Columns], capacity: int, prioritised: bool) -> Flat:
    make = flashbax.make_prioritised_flat_buffer if prioritised else flashbax.make_flat_buffer
    steps = [{name: column for name, column in batch.items() if name != "next_observation"} for batch in batches]
    return Flat(make(capacity, BATCH, BATCH, add_batch_size=BATCH), steps, capacity // BATCH * BATCH)


def sequences(batches: list[Columns], capacity: int, prioritised: bool) -> Buffer:
    """All sequences of 80 steps of 32 streams."""
    length = capacity // SEQUENCES
    buffer = flashbax.make_trajectory_buffer(
        add_batch_size=SEQUENCES,
        sample_batch_size=SEQUENCES,
        sample_sequence_length=LENGTH,
        period=1,
        min_length_time_axis=LENGTH,
        max_length_time_axis=length,
    )
    return Buffer(buffer, batches, length * SEQUENCES)


if __name__ == "__main__":
    jax.block_until_ready(jax.numpy.zeros(1))  # its backend is no part of a buffer's memory
    run(
        "flashbax",
        {
            "flashbax, items": Row(items),
            "flashbax, flat": Row(flat, streams=BATCH),
            "flashbax, trajectories": Row(sequences, cases=("sequences",)),
        },
    )
