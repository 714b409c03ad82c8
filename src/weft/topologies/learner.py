"""The learner's role: hold the state, turn batches into updates, report what happened."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from time import perf_counter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from weft.algorithm import Algorithm, Feedback, State
from weft.errors import TrainingDiverged
from weft.topologies.job import random_key
from weft.types import Array, Tree
from weft.update import update


class Totals(NamedTuple):
    """Sums over the updates since the last report, kept on the device so that learning never waits for them."""

    metrics: dict[str, Array]
    updates: Array
    """int32, how many updates were summed"""
    diverged_at: Array
    """int32, the first update with a metric that is not finite; -1 if there was none"""


def learning_key(seeds: np.random.SeedSequence, index: int) -> jax.Array:
    """Return the random key of one learner of several, which is folded with the count of updates."""
    return jax.random.wrap_key_data(jnp.asarray(random_key(_spawned(seeds, 1 + index))))


def _spawned(seeds: np.random.SeedSequence, index: int) -> np.random.SeedSequence:
    """Return the child of this index, however many were spawned before."""
    return np.random.SeedSequence(seeds.entropy, spawn_key=(*seeds.spawn_key, index))


class Learner:
    """Owns an algorithm's state; everything random in it follows from (seeds, updates)."""

    def __init__(self, algorithm: Algorithm, seeds: np.random.SeedSequence, index: int = 0) -> None:
        """Learners of one team have the same seeds and begin with the same state; ``index`` tells them apart."""
        self.algorithm = algorithm
        self._key = random_key(_spawned(seeds, 1 + index))
        init_seeds = _spawned(seeds, 0)
        self.state: State = jax.jit(lambda key: algorithm.init(jax.random.wrap_key_data(key)))(random_key(init_seeds))
        self._learn = jax.jit(partial(_learn, algorithm), donate_argnums=(0, 1))
        self._totals: Totals | None = None
        self._seconds = 0.0
        self.updated = False
        """Whether this learner has made an update."""

    def learn(self, batch: Tree, progress: float) -> None:
        """Update the state from one batch; returns when it is done, so that the batch may be overwritten."""
        started = perf_counter()
        if self._totals is None:
            self._totals = self._first_totals(batch)
        self.state, self._totals = self._learn(self.state, self._totals, batch, self._key, np.float32(progress))
        jax.block_until_ready(self._totals.updates)
        self._seconds += perf_counter() - started
        self.updated = True

    def take_seconds(self) -> float:
        """Seconds spent learning since the last call."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def report(self) -> dict[str, float]:
        """Mean metrics of the updates since the last report, which are waited for."""
        updates = int(self.state.updates)
        if self._totals is None:
            return {"updates": updates}
        totals = jax.device_get(self._totals)
        if totals.diverged_at >= 0:
            names = [name for name, value in totals.metrics.items() if not np.isfinite(value)]
            raise TrainingDiverged(
                f"Training diverged: {' and '.join(names)} became NaN or infinite at update {totals.diverged_at}."
            )
        self._totals = no_totals(totals.metrics)
        count = max(int(totals.updates), 1)
        return {"updates": updates, **{name: float(value) / count for name, value in totals.metrics.items()}}

    def save(self) -> Tree:
        """Everything as a tree of arrays, unless it is not worth keeping."""
        state = jax.device_get(self.state)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params)):
            raise TrainingDiverged(f"Training diverged: parameters became NaN or infinite at update {state.updates}.")
        return {"state": state}

    def template(self) -> Tree:
        """Return the structure that ``restore`` takes, abstract arrays for leaves."""
        return {"state": jax.eval_shape(lambda: self.state)}

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned."""
        self.state = jax.device_put(saved["state"])

    def _key_of(self, state: State) -> jax.Array:
        """Return the random key of the next update."""
        return jax.random.fold_in(jax.random.wrap_key_data(jnp.asarray(self._key)), state.updates)

    def _first_totals(self, batch: Tree) -> Totals:
        key = jax.eval_shape(jax.random.wrap_key_data, self._key)
        names = jax.eval_shape(partial(update, self.algorithm), self.state, batch, key)[1].metrics
        return no_totals(names)


def no_totals(names: Iterable[str]) -> Totals:
    """Return sums of nothing."""
    return Totals({name: np.zeros((), np.float32) for name in names}, np.zeros((), np.int32), np.full((), -1, np.int32))


def _learn(
    algorithm: Algorithm, state: State, totals: Totals, batch: Tree, key: jax.Array, progress: Array
) -> tuple[State, Totals]:
    key = jax.random.fold_in(jax.random.wrap_key_data(key), state.updates)
    learned, feedback = update(algorithm, state._replace(progress=progress), batch, key)
    return learned, added(totals, feedback, state.updates)


def added(totals: Totals, feedback: Feedback, update_number: Array) -> Totals:
    """Add the metrics of one update."""
    finite = jnp.all(jnp.stack([jnp.isfinite(value) for value in feedback.metrics.values()]))
    diverged_at = jnp.where((totals.diverged_at < 0) & ~finite, update_number, totals.diverged_at)
    metrics = {name: totals.metrics[name] + value for name, value in feedback.metrics.items()}
    return Totals(metrics, totals.updates + 1, diverged_at)
