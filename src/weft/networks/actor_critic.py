"""A stochastic policy and a state value on normalised observations: the part that actor-critic algorithms share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from weft.algorithm import Act, Algorithm, Policy, State
from weft.experience.kinds import Unrolls
from weft.experience.trajectories import swapped
from weft.maths.descent import Descent, Loss, gradients_of
from weft.maths.normalisation import Normaliser
from weft.networks.action import ActionAdapter, action_adapter
from weft.networks.distributions import Distribution
from weft.networks.network import Network, NetworkSettings, Torso, build
from weft.networks.observation import is_image
from weft.networks.policy import stochastic, value
from weft.networks.spaces import examples
from weft.types import Array, Spaces, Trajectory, Tree

Prepare = Callable[[State, Trajectory], tuple[State, Tree]]


@dataclass(frozen=True)
class ActorCritic:
    """A network with the outputs ``policy`` and ``value``, and what turns observations into its input."""

    spaces: Spaces
    network: Network
    actions: ActionAdapter
    normaliser: Normaliser
    recurrent: bool

    def distribution(self, outputs: dict[str, jax.Array]) -> Distribution:
        """Return the policy [...] that the network's outputs [..., ...] stand for."""
        return self.actions.distribution(outputs["policy"])

    def act(self, policy: Policy, observation: Tree, memory: Tree, first: Array, key: jax.Array, explore: Array) -> Act:
        """Draw actions, or take the likeliest ones where ``explore`` is 0; record their log-probabilities."""
        params, statistics = policy
        outputs, memory = self.network.apply(
            params, self.normaliser.observation(statistics, observation), memory, first
        )
        distribution = self.distribution(outputs)
        raw = jax.tree.map(
            lambda sampled, likeliest: jnp.where(explore > 0, sampled, likeliest),
            distribution.sample(key),
            distribution.mode(),
        )
        return Act(self.actions.to_environment(raw), raw, memory, {"log_prob": distribution.log_prob(raw)})

    def value(self, policy: Policy, observation: Tree, memory: Tree, first: Array) -> Array:
        """Return the values [B] of observations [B, ...]."""
        params, statistics = policy
        normalised = self.normaliser.observation(statistics, observation)
        return self.network.apply(params, normalised, memory, first)[0]["value"]

    def whole_unrolls(self, state: State, batch: Trajectory) -> tuple[State, Trajectory]:
        """``prepare`` for losses that look along time: normalised unrolls [B, T, ...], one for each environment."""
        statistics, batch = self.normaliser.trajectory(state.statistics, batch)
        return state._replace(statistics=statistics), swapped(batch)

    def algorithm(self, name: str, prepare: Prepare, loss: Loss, descent: Descent, experience: Unrolls) -> Algorithm:
        """Return the algorithm that acts with this network and learns by descent on ``loss``."""

        def init(key: jax.Array) -> State:
            params = self.network.init(key)
            statistics = self.normaliser.initial(examples(self.spaces.observation))
            return State.begin(params, descent.init(params), statistics=statistics)

        return Algorithm(
            name=name,
            init=init,
            memory=self.network.memory,
            act=self.act,
            value=self.value,
            explore=lambda progress: 1.0,
            prepare=prepare,
            gradients=gradients_of(loss),
            apply=descent.step,
            experience=experience,
            max_gradient_norm=descent.max_gradient_norm,
        )


def actor_critic(
    spaces: Spaces, settings: NetworkSettings, torso: Torso | None, shared: bool | None, normaliser: Normaliser
) -> ActorCritic:
    """Return the actor-critic for these spaces; without a word about it, policy and value share layers for images."""
    actions = action_adapter(spaces.action)
    heads = {"policy": stochastic(actions), "value": value()}
    shared = is_image(spaces.observation) if shared is None else shared
    network = build(spaces.observation, heads, settings, torso, shared=shared)
    return ActorCritic(spaces, network, actions, normaliser, settings.recurrent is not None)
