"""The few records that everything in weft exchanges: a step of environments, a trajectory, a pair of spaces.

Time-index convention: row ``t`` of a trajectory holds the observation seen at time t, the action taken there, and the
reward and discount that this action earned. Batches are time-major, ``[T, B, ...]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import gymnasium
    import jax

Array: TypeAlias = "np.ndarray | jax.Array"
Tree: TypeAlias = Any
"""A pytree: nested tuples and dicts of arrays."""


Ids: TypeAlias = slice | np.ndarray
"""Which of a batch of environments: ``EVERY`` one, or those of the ids [B]."""
EVERY = slice(None)


class Spaces(NamedTuple):
    """What one environment shows and takes (gymnasium spaces, unbatched)."""

    observation: gymnasium.Space
    action: gymnasium.Space


class Timestep(NamedTuple):
    """One step of B environments, in weft's canonical form.

    An episode of L actions is L + 1 timesteps: the first has ``first`` set, the final one ``last``. The action given
    at a ``last`` timestep is ignored and the following timestep is the ``first`` of the next episode, so the true
    final observation is always part of the stream.

    Environments that reset within the step that ends an episode cannot show the final observation in the stream;
    they set ``first`` at once (never ``last``) and deliver it in ``final``.
    """

    observation: Tree
    """[B, ...] what the policy sees now."""
    reward: Array
    """[B] float32, earned by the action that led here; 0 on a ``first`` that follows a ``last``."""
    discount: Array
    """[B] float32, 0 where that action ended the episode in a terminal state, otherwise 1 (truncation too)."""
    first: Array
    """[B] bool, this observation begins an episode."""
    last: Array
    """[B] bool, this observation ends an episode; the next action is ignored."""
    final: Tree | None = None
    """[B, ...] the true final observation where ``first`` is set, for same-step resets only; otherwise None."""


class Trajectory(NamedTuple):
    """T consecutive steps of B environments, time-major; what acting produces and learning consumes."""

    observation: Tree
    """[T + 1, B, ...]; row T is the observation after the last action, for bootstrapping."""
    first: Array
    """[T + 1, B] bool, this observation begins an episode (recurrent memory is reset before it)."""
    action: Tree
    """[T, B, ...] taken at ``observation[t]``, in the algorithm's own form (``Act.raw``)."""
    reward: Array
    """[T, B] float32, earned by ``action[t]``."""
    discount: Array
    """[T, B] float32, 0 where ``action[t]`` ended the episode in a terminal state, otherwise 1."""
    valid: Array
    """[T, B] bool, False where ``action[t]`` was ignored by the environment (the filler between two episodes)."""
    extras: Tree
    """[T, B, ...] what ``act`` recorded beside the action, e.g. its log-probability."""
    memory: Tree
    """[B, ...] recurrent memory before ``observation[0]``; () when there is none."""
    final: Tree | None = None
    """[T, B, ...] the true successor of ``observation[t]`` where ``first[t + 1] & valid[t]``; None if never needed."""
