"""Batches such as environments and recorders give, from an algorithm's own actions at random observations."""

from __future__ import annotations

import functools

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from weft.algorithm import Algorithm, State
from weft.experience.replay import Transitions
from weft.types import Spaces, Trajectory, Tree

KEY = jax.random.key(0)
jitted = functools.cache(jax.jit)
"""Functions that are the same are compiled once."""
VECTOR = spaces.Box(-1, 1, (3,))
DISCRETE = Spaces(VECTOR, spaces.Discrete(3))
CONTINUOUS = Spaces(VECTOR, spaces.Box(-2, 2, (2,)))


def take(tree: Tree, index: object) -> Tree:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def observations(space: gymnasium.Space, *leading: int, seed: int = 0) -> Tree:
    """Observations [*leading, ...]."""
    batched = functools.reduce(batch_space, reversed(leading), space)
    batched.seed(seed)
    return batched.sample()


def trajectory(
    algorithm: Algorithm, state: State, space: gymnasium.Space, length: int, number: int, seed: int = 0
) -> Trajectory:
    """[T, B] of next-step form; episodes end at random, half of them by truncation."""
    random = np.random.default_rng(seed)
    observation = observations(space, length + 1, number, seed=seed)
    last = np.zeros((length + 1, number), bool)
    for t in range(1, length + 1):
        last[t] = ~last[t - 1] & (random.random(number) < 0.3)
    first = np.zeros_like(last)
    first[0], first[1:] = True, last[:-1]
    memory, acts, act = algorithm.memory(number), [], jitted(algorithm.act)
    begun = memory
    for t in range(length):
        key = jax.random.fold_in(KEY, 1000 * seed + t)
        acts.append(act(state.policy, take(observation, t), memory, first[t], key, 1.0))
        memory = acts[-1].memory
    terminated = last[1:] & (random.random((length, number)) < 0.5)
    valid = ~last[:-1]
    return Trajectory(
        observation=observation,
        first=first,
        action=jax.tree.map(lambda *leaves: np.stack(leaves), *(one.raw for one in acts)),
        reward=np.where(valid, random.normal(1, 3, (length, number)), 0).astype(np.float32),
        discount=(~terminated).astype(np.float32),
        valid=valid,
        extras={
            **{name: np.stack([one.extras[name] for one in acts]) for name in acts[0].extras},
            "running_return": random.normal(0, 3, (length, number)).astype(np.float32),
        },
        memory=begun,
    )


def other_where(mask: np.ndarray, leaf: np.ndarray, seed: int = 0) -> np.ndarray:
    """``leaf`` [T, B, ...] with something else where ``mask`` [T, B] is set."""
    random = np.random.default_rng(seed)
    noise = random.integers(0, 3, leaf.shape) if leaf.dtype.kind == "i" else random.normal(5, 9, leaf.shape)
    return np.where(mask.reshape(mask.shape + (1,) * (leaf.ndim - mask.ndim)), noise, leaf).astype(leaf.dtype)


def with_other_fillers(batch: Trajectory) -> Trajectory:
    """The same real steps, with something else recorded at the fillers between episodes."""
    filled = batch._replace(
        **{
            name: jax.tree.map(lambda leaf: other_where(~batch.valid, np.asarray(leaf)), getattr(batch, name))
            for name in ("action", "reward", "discount", "extras")
        }
    )
    assert (filled.reward != batch.reward).any()
    return filled


def transitions(batch: Trajectory, discount: float) -> Transitions:
    """The real steps of a trajectory one by one."""
    real = np.flatnonzero(batch.valid)
    rows = [take(batch.observation, slice(None, -1)), batch.action, batch.reward, batch.discount]
    rows.append(take(batch.observation, slice(1, None)))
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[real], rows)
    observation, action, reward, kept, successor = flat
    return Transitions(observation, action, reward, discount * kept, successor)


def all_finite(tree: Tree) -> bool:
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


def assert_close(left: Tree, right: Tree, atol: float = 1e-5) -> None:
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=atol), left, right)
