"""What travels between nodes, and how it is laid out, which follows from the algorithm and the spaces alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from weft.experience.episodes import EpisodeStatistics
from weft.experience.kinds import Unrolls
from weft.program import Leaf
from weft.topologies.job import Work
from weft.trees import write
from weft.types import Array, Trajectory, Tree


class Finished(NamedTuple):
    """Episodes that finished in one place: how many, and the newest of them."""

    number: np.ndarray
    """[] how many"""
    returns: np.ndarray
    """[WINDOW], of the newest ``min(number, WINDOW)``, the others unused"""
    lengths: np.ndarray
    """[WINDOW]"""

    @classmethod
    def layout(cls) -> Finished:
        """Return the layout."""
        window = (EpisodeStatistics.WINDOW,)
        return cls(Leaf((), "int64"), Leaf(window, "float64"), Leaf(window, "int64"))  # type: ignore[arg-type]

    def fill(self, episodes: EpisodeStatistics, before: int) -> None:
        """Write the episodes that finished since there were ``before``."""
        number, newest = episodes.since(before)
        self.number[...] = number
        for place, (value, length) in enumerate(newest):
            self.returns[place], self.lengths[place] = value, length

    def add_to(self, episodes: EpisodeStatistics) -> None:
        """Count them in the run's statistics."""
        number = int(self.number)
        held = min(number, len(self.returns))
        episodes.add(number, zip(self.returns[:held], self.lengths[:held], strict=True))


class Unroll(NamedTuple):
    """What an actor recorded with one policy."""

    trajectory: Trajectory
    version: np.ndarray
    """[] which version of the parameters acted"""
    steps: np.ndarray
    """[] agent steps"""
    episodes: Finished
    seconds: dict[str, np.ndarray]
    """[] each: what the time went into"""


NUMBER, REAL = Leaf((), "int64"), Leaf((), "float64")
PARTS = ("environment", "policy")
"""What actors spend their time on."""


def leaves_like(tree: Tree) -> Tree:
    """Return the layout of arrays like those of ``tree``, which may be abstract."""
    return jax.tree.map(lambda leaf: Leaf(tuple(leaf.shape), np.dtype(leaf.dtype).name), tree)


def unroll_layout(work: Work) -> Unroll:
    """Return the layout of an actor's unrolls."""
    experience, number = work.algorithm.experience, work.envs
    assert isinstance(experience, Unrolls)
    rows = (experience.length, number)
    observation = _observation(work)
    act, memory = jax.eval_shape(lambda: _act(work))

    def steps(tree: Tree) -> Tree:
        return jax.tree.map(lambda leaf: Leaf((*rows, *leaf.shape[1:]), np.dtype(leaf.dtype).name), tree)

    extras = steps(act.extras)
    if experience.return_discount is not None:
        extras["running_return"] = Leaf(rows, "float32")
    trajectory = Trajectory(
        observation=_with_leading(observation, (rows[0] + 1, number)),
        first=Leaf((rows[0] + 1, number), "bool"),  # type: ignore[arg-type]
        action=steps(act.raw),
        reward=Leaf(rows, "float32"),  # type: ignore[arg-type]
        discount=Leaf(rows, "float32"),  # type: ignore[arg-type]
        valid=Leaf(rows, "bool"),  # type: ignore[arg-type]
        extras=extras,
        memory=leaves_like(memory),
        final=_with_leading(observation, rows) if work.delivers_final else None,
    )
    return Unroll(trajectory, NUMBER, NUMBER, Finished.layout(), dict.fromkeys(PARTS, REAL))  # type: ignore[arg-type]


def abstract_batch(work: Work) -> Trajectory:
    """Return zeros like the unroll of one actor."""
    return zeros(unroll_layout(work).trajectory)


def weight_of(layout: Unroll) -> int:
    """Return how many agent steps an unroll is."""
    return layout.trajectory.reward.size


def _act(work: Work) -> Tree:
    """What acting returns for all environments of an actor, and the memory before it."""
    algorithm, number = work.algorithm, work.envs
    observation = jax.tree.map(
        lambda leaf: jax.numpy.zeros((number, *leaf.shape), leaf.dtype), _observation(work), is_leaf=_is_leaf
    )
    memory, policy = algorithm.memory(number), algorithm.init(jax.random.key(0)).policy
    first = jax.numpy.zeros(number, bool)
    return algorithm.act(policy, observation, memory, first, jax.random.key(0), jax.numpy.ones(())), memory


def _observation(work: Work) -> Tree:
    """Layout of one observation, in the dtypes that the environment delivers."""
    from weft.networks.spaces import tree_of

    return jax.tree.map(lambda space: Leaf(space.shape, np.dtype(space.dtype).name), tree_of(work.spaces.observation))


def _with_leading(layout: Tree, leading: tuple[int, ...]) -> Tree:
    return jax.tree.map(lambda leaf: Leaf((*leading, *leaf.shape), leaf.dtype), layout, is_leaf=_is_leaf)


def zeros(layout: Tree) -> Tree:
    """Return arrays of a layout."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), layout, is_leaf=_is_leaf)


def _is_leaf(thing: object) -> bool:
    return isinstance(thing, Leaf)


class Shipment:
    """How trees of arrays with one structure, such as parameters, travel: as the tuple of their leaves."""

    def __init__(self, example: Tree) -> None:
        leaves, self._structure = jax.tree.flatten(example)
        self.layout = tuple(leaves_like(leaf) for leaf in leaves)

    def pack(self, tree: Tree) -> tuple[Array, ...]:
        """Return the leaves, on the host."""
        return tuple(jax.device_get(jax.tree.leaves(tree)))

    def unpack(self, leaves: Sequence[Array]) -> Tree:
        """Return the tree, on the device."""
        return jax.tree.unflatten(self._structure, jax.device_put(list(leaves)))


class Batch:
    """Unrolls of several actors side by side, in arrays that are used again for the next batch."""

    def __init__(self, layout: Trajectory, number: int) -> None:
        self._width = layout.reward.shape[1]
        self._trajectory: Trajectory = _widened(layout, number)

    def put(self, place: int, trajectory: Trajectory) -> None:
        """Copy one unroll to its place."""
        columns = slice(place * self._width, (place + 1) * self._width)
        whole = self._trajectory
        write(whole.memory, columns, trajectory.memory)  # type: ignore[arg-type]
        for held, given in zip(whole._replace(memory=()), trajectory._replace(memory=()), strict=True):
            if held is not None:
                write(held, (slice(None), columns), given)  # type: ignore[arg-type]

    @property
    def trajectory(self) -> Trajectory:
        """All of them."""
        return self._trajectory


def _widened(layout: Trajectory, number: int) -> Trajectory:
    """Zeros for ``number`` unrolls side by side."""

    def zeros(leaf: Leaf, axis: int) -> np.ndarray:
        shape = tuple(size * number if place == axis else size for place, size in enumerate(leaf.shape))
        return np.zeros(shape, leaf.dtype)

    memory = jax.tree.map(lambda leaf: zeros(leaf, 0), layout.memory, is_leaf=_is_leaf)
    rest = layout._replace(memory=())
    return jax.tree.map(lambda leaf: zeros(leaf, 1), rest, is_leaf=_is_leaf)._replace(memory=memory)


def policy_layout(work: Work) -> Tree:
    """Return the layout of what actors need of a learner."""
    return {"policy": Shipment(abstract_policy(work)).layout, "progress": REAL}


def abstract_policy(work: Work) -> Tree:
    """Return the shapes of what acting needs."""
    return jax.eval_shape(work.algorithm.init, jax.random.key(0)).policy


def begin_anew(environment: str) -> str:
    """Return what to tell when environments could not be continued."""
    return (
        f"The state of {environment} cannot be saved: its episodes begin anew, "
        "so this run is no longer the same, bit for bit, as one that was never stopped."
    )
