"""DeepSea: a treasure that only a dive of N right decisions finds (Osband et al., 2019; bsuite: 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from weft.envs.device.picture import Cells, board
from weft.errors import WeftError


class State(NamedTuple):
    """int32 scalars."""

    row: jax.Array
    column: jax.Array


@dataclass(frozen=True)
class DeepSea:
    """bsuite's deterministic DeepSea: the best return is 1 less ``move_cost``, without exploration it is 0 or less.

    Observation: [size, size] float32, 1 at the diver; all zero in the end.
    """

    name: ClassVar[str] = "DeepSea"
    time_limit: int | None = None
    size: int = 10
    move_cost: float = 0.01
    """Paid in equal parts by every move to the right."""
    mapping_seed: int | None = 42
    """Which action is 'right' is drawn for every cell from this seed (the same draw as bsuite's); None: always 1."""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise WeftError(f"The size of DeepSea is at least 1, not {self.size}.")

    @cached_property
    def observation_space(self) -> gymnasium.spaces.Box:
        """The board."""
        return gymnasium.spaces.Box(0, 1, (self.size, self.size), np.float32)

    @cached_property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """Left or right, which is which depends on the cell."""
        return gymnasium.spaces.Discrete(2)

    @cached_property
    def right(self) -> np.ndarray:
        """The action that moves to the right in each cell, [size, size]."""
        shape = (self.size, self.size)
        if self.mapping_seed is None:
            return np.ones(shape, np.int32)
        return np.random.RandomState(self.mapping_seed).binomial(1, 0.5, shape).astype(np.int32)

    def reset(self, key: jax.Array) -> tuple[State, jax.Array]:
        """Begin at the top left."""
        state = State(jnp.int32(0), jnp.int32(0))
        return state, self._observe(state)

    def step(self, state: State, action: jax.Array, key: jax.Array) -> tuple[State, jax.Array, jax.Array, jax.Array]:
        """Dive by one row, to the left or to the right; 1 for going right in the last column."""
        row, column = state
        goes_right = action == jnp.asarray(self.right)[row, column]
        treasure = goes_right & (column == self.size - 1)
        reward = jnp.where(treasure, 1.0, 0.0) - jnp.where(goes_right, self.move_cost / self.size, 0.0)
        column = jnp.clip(column + jnp.where(goes_right, 1, -1), 0, self.size - 1)
        state = State(row + 1, column)
        return state, self._observe(state), reward, state.row >= self.size

    def _observe(self, state: State) -> jax.Array:
        cells = jnp.arange(self.size)
        return ((cells[:, None] == state.row) & (cells == state.column)).astype(jnp.float32)

    def render(self, state: State) -> np.ndarray:
        """Draw the sea, the treasure and the diver, whose last position is on the ground below the board."""
        cells: Cells = [[None] * self.size for _ in range(self.size)]
        cells.append(["grey"] * self.size)
        cells[-1][-1] = "yellow"
        cells[int(state.row)][int(state.column)] = "blue"
        return board(cells, cell=max(4, 320 // self.size // 2 * 2))
