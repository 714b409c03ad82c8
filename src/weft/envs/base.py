"""What an environment is: the host kind (a batch that is stepped from Python) and the device kind (pure functions)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import gymnasium
import numpy as np

from weft.types import Spaces, Timestep, Tree

if TYPE_CHECKING:
    import jax


@runtime_checkable
class Environment(Protocol):
    """A batch of ``number`` environments stepped together from Python, in the canonical form of ``Timestep``.

    Arrays of a timestep are numpy and are never written again by the environment.
    """

    name: str
    number: int
    spaces: Spaces
    delivers_final: bool
    """Whether timesteps have ``final``: these environments reset within the step that ends an episode."""

    def reset(self, seed: int) -> Timestep:
        """Begin new episodes everywhere; the same seed gives the same episodes."""

    def step(self, action: Tree) -> Timestep:
        """Act in every environment; ``action`` is ``[B, ...]``, nested like the action space."""

    def render(self) -> np.ndarray | None:
        """Return a picture of the first environment, [height, width, 3] uint8, or None where there is none."""

    def save(self) -> Tree | None:
        """Return everything needed to continue the episodes bit for bit, or None where it cannot be had."""

    def restore(self, saved: Tree) -> Timestep:
        """Continue from what ``save`` returned; gives the timestep that was current then."""

    def close(self) -> None:
        """Release windows, processes and files."""


@runtime_checkable
class AsynchronousEnvironment(Protocol):
    """``number`` environments of which whichever ``batch`` are ready come back first.

    A loop over it is ``reset(seed)``, then again and again ``ids, timestep = receive()`` and ``send(ids, action)``.
    Followed by its id, every environment is a canonical stream of its own: the timestep received after an action was
    sent is the one that this action led to. Its state cannot be saved.
    """

    name: str
    number: int
    batch: int
    spaces: Spaces
    delivers_final: bool
    """Whether timesteps have ``final``."""

    def reset(self, seed: int) -> None:
        """Begin new episodes everywhere; each environment then comes back once with ``first`` set."""

    def receive(self) -> tuple[np.ndarray, Timestep]:
        """Wait for the next ``batch`` environments that are ready; returns their ids [batch] and timesteps."""

    def send(self, ids: np.ndarray, action: Tree) -> None:
        """Act in the environments ``ids``, which were received and have not been sent an action since."""

    def render(self) -> np.ndarray | None:
        """Return a picture of the first environment, [height, width, 3] uint8, or None where there is none."""

    def close(self) -> None:
        """Release windows, processes and files."""


StateT = TypeVar("StateT")


class DeviceEnvironment(Protocol[StateT]):
    """One environment as pure unbatched JAX functions; a frozen dataclass whose fields are its physical constants.

    It knows nothing of batches or automatic resets: ``weft.envs.device.autoreset`` adds those and the time limit.
    """

    @property
    def name(self) -> str:
        """The id that ``weft.make`` knows it by."""

    @property
    def time_limit(self) -> int | None:
        """Actions after which an episode is truncated; None for never."""

    @property
    def observation_space(self) -> gymnasium.Space:
        """What ``reset`` and ``step`` show."""

    @property
    def action_space(self) -> gymnasium.Space:
        """What ``step`` takes."""

    def reset(self, key: jax.Array) -> tuple[StateT, Tree]:
        """Draw an initial state; returns it with its observation."""

    def step(self, state: StateT, action: Tree, key: jax.Array) -> tuple[StateT, Tree, jax.Array, jax.Array]:
        """Return (state, observation, reward: float32, terminated: bool)."""

    def render(self, state: StateT) -> np.ndarray | None:
        """Return a picture of a state whose arrays are numpy, [height, width, 3] uint8, or None if there is none."""
