"""RepeatPrevious: name the suit of the card dealt a few cards ago (POPGym: Morad et al., 2023)."""

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

SUITS = 4
RANKS = 13


class State(NamedTuple):
    """What was dealt and what will be."""

    deck: jax.Array
    """[52 * decks] int8, suits in the order of dealing."""
    shown: jax.Array
    """int32 scalar, index of the card that is seen now."""


@dataclass(frozen=True)
class RepeatPrevious:
    """POPGym's RepeatPreviousEasy: with k = 4, name the suit of the card dealt three before the one that is seen.

    The reward of each answer is 1 / (cards - k) if right and as much below zero if wrong, from the first that can be
    known: always right returns 1, guessing -0.5 on average. Observation: a suit.
    """

    name: ClassVar[str] = "RepeatPrevious"
    time_limit: int | None = None
    decks: int = 1
    k: int = 4

    def __post_init__(self) -> None:
        if not (self.decks >= 1 and 1 <= self.k < self.cards):
            raise WeftError(f"RepeatPrevious needs 1 <= k < 52 * decks, not k = {self.k} and decks = {self.decks}.")

    @property
    def cards(self) -> int:
        """How many cards are dealt in an episode."""
        return SUITS * RANKS * self.decks

    @cached_property
    def observation_space(self) -> gymnasium.spaces.Discrete:
        """The suit that is seen."""
        return gymnasium.spaces.Discrete(SUITS)

    @cached_property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """The suit that was seen."""
        return gymnasium.spaces.Discrete(SUITS)

    def reset(self, key: jax.Array) -> tuple[State, jax.Array]:
        """Shuffle and deal the first card."""
        deck = jax.random.permutation(key, jnp.arange(self.cards, dtype=jnp.int8) % SUITS)
        state = State(deck, jnp.int32(0))
        return state, _observe(state)

    def step(self, state: State, action: jax.Array, key: jax.Array) -> tuple[State, jax.Array, jax.Array, jax.Array]:
        """Judge the answer and deal the next card; the episode ends with the deck."""
        asked = state.shown + 1 - self.k
        scale = 1 / (self.cards - self.k)
        reward = jnp.where(asked < 0, 0.0, jnp.where(action == state.deck[asked], scale, -scale))
        state = State(state.deck, state.shown + 1)
        return state, _observe(state), reward, state.shown >= self.cards - 1

    def render(self, state: State) -> np.ndarray:
        """Draw the cards dealt, one row for each suit; the one to name is yellow, the one that is seen is dark."""
        cells: Cells = [[None] * self.cards for _ in range(SUITS)]
        shown = int(state.shown)
        colours: dict[int, str] = {shown + 1 - self.k: "yellow", shown: "ink"}
        for index in range(shown + 1):
            cells[int(state.deck[index])][index] = colours.get(index, "grey")
        return board(cells, cell=16)


def _observe(state: State) -> jax.Array:
    return state.deck[state.shown].astype(jnp.int32)
