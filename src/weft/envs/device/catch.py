"""Catch: move a paddle below a falling ball (Mnih et al., 2014; bsuite: Osband et al., 2020)."""

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

    ball_row: jax.Array
    ball_column: jax.Array
    paddle: jax.Array
    """Its column; it is always in the lowest row."""


@dataclass(frozen=True)
class Catch:
    """bsuite's Catch: 1 for catching the ball, -1 for missing it.

    Observation: [rows, columns] float32, 1 at the ball and at the paddle.
    """

    name: ClassVar[str] = "Catch"
    time_limit: int | None = None
    rows: int = 10
    columns: int = 5

    def __post_init__(self) -> None:
        if self.rows < 2 or self.columns < 1:
            raise WeftError(f"Catch needs at least 2 rows and 1 column, not {self.rows} and {self.columns}.")

    @cached_property
    def observation_space(self) -> gymnasium.spaces.Box:
        """The board."""
        return gymnasium.spaces.Box(0, 1, (self.rows, self.columns), np.float32)

    @cached_property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """Move to the left, stay, or move to the right."""
        return gymnasium.spaces.Discrete(3)

    def reset(self, key: jax.Array) -> tuple[State, jax.Array]:
        """Begin with the ball at the top of any column and the paddle in the middle."""
        column = jax.random.randint(key, (), 0, self.columns, jnp.int32)
        state = State(jnp.int32(0), column, jnp.int32(self.columns // 2))
        return state, self._observe(state)

    def step(self, state: State, action: jax.Array, key: jax.Array) -> tuple[State, jax.Array, jax.Array, jax.Array]:
        """Move the paddle and drop the ball by one row; the episode ends in the lowest."""
        paddle = jnp.clip(state.paddle + jnp.asarray(action, jnp.int32) - 1, 0, self.columns - 1)
        state = State(state.ball_row + 1, state.ball_column, paddle)
        terminated = state.ball_row >= self.rows - 1
        reward = jnp.where(terminated, jnp.where(paddle == state.ball_column, 1.0, -1.0), 0.0)
        return state, self._observe(state), reward, terminated

    def _observe(self, state: State) -> jax.Array:
        row = jnp.arange(self.rows)[:, None]
        column = jnp.arange(self.columns)
        ball = (row == state.ball_row) & (column == state.ball_column)
        paddle = (row == self.rows - 1) & (column == state.paddle)
        return (ball | paddle).astype(jnp.float32)

    def render(self, state: State) -> np.ndarray:
        """Draw the board."""
        cells: Cells = [[None] * self.columns for _ in range(self.rows)]
        cells[-1][int(state.paddle)] = "blue"
        cells[int(state.ball_row)][int(state.ball_column)] = "orange"
        return board(cells)
