"""Deep Q-networks: learn the value of each action from replayed experience, act by the best one.

Mnih et al. 2015, 'Human-level control through deep reinforcement learning', Nature 518; with double Q-learning (van
Hasselt et al. 2016, arXiv:1509.06461), duelling heads (Wang et al. 2016, arXiv:1511.06581) and n-step returns.
A recurrent network learns from replayed sequences that begin with the memory they were recorded with (Kapturowski et
al. 2019, 'Recurrent experience replay in distributed reinforcement learning').
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp

from weft.algorithm import Act, Algorithm, Policy, State
from weft.experience.kinds import Replay
from weft.experience.replay import Transitions
from weft.experience.trajectories import continues
from weft.maths.descent import Descent, gradients_of
from weft.maths.losses import huber, masked_mean
from weft.maths.returns import n_step_returns
from weft.networks.action import JointActions
from weft.networks.network import NetworkSettings, Torso, build
from weft.networks.policy import action_values, dueling
from weft.networks.values import unroll_with_successors
from weft.settings import positive, within
from weft.types import Array, Spaces, Trajectory, Tree


@dataclass(frozen=True)
class Config:
    """Deep Q-networks (Mnih et al. 2015, Nature 518)."""

    learning_rate: float = positive(1e-3)
    """Step size of Adam. Paper: 2.5e-4 with RMSProp (Atari)."""
    anneal: bool = True
    """Let the learning rate fall linearly to 0 over the run; the papers keep it constant."""
    batch: int = positive(128)
    """Transitions (or sequences, for recurrent networks) in each update. Paper: 32."""
    capacity: int = positive(100_000)
    """Steps kept in the replay. Paper: 1,000,000."""
    warmup: int = positive(1_000)
    """Steps taken before the first update. Paper: 50,000."""
    steps_per_update: float = positive(2.0)
    """Agent steps for one update. Paper: 4."""
    discount: float = within(0.99, 0, 1)
    """Weight of a reward that comes one step later."""
    n_step: int = positive(3)
    """Rewards that are summed before the value is trusted. Paper: 1; Rainbow: 3."""
    double: bool = True
    """Choose the best next action by the learning network and value it by the target network."""
    dueling: bool = False
    """Split action values into the state's value and the actions' advantages."""
    target_period: int = positive(250)
    """Updates between two copies of the network to the target network. Paper: 10,000."""
    huber: float = positive(1.0)
    """Errors beyond this size have a constant gradient."""
    epsilon_start: float = within(1.0, 0, 1)
    """Share of random actions at the beginning."""
    epsilon_end: float = within(0.04, 0, 1)
    """Share of random actions from ``epsilon_fraction`` of the run on. Paper: 0.1."""
    epsilon_fraction: float = within(0.16, 0, 1)
    """Share of the run's steps over which epsilon falls linearly."""
    max_gradient_norm: float | None = positive(10.0)
    """Scale gradients down to this global norm."""
    sequence: int = positive(20)
    """Length of the sequences that recurrent networks learn from."""
    network: NetworkSettings = field(default_factory=NetworkSettings)
    """The network."""


class Lesson(NamedTuple):
    """A batch and what the value of its actions should have been, [N] or, for sequences, [T, N]."""

    batch: Transitions | Trajectory
    target: Array


def dqn(config: Config, spaces: Spaces, torso: Torso | None = None) -> Algorithm:
    """Return DQN for these spaces."""
    actions = JointActions(spaces.action, "dqn", ["ppo"])
    head = dueling(actions.number) if config.dueling else action_values(actions.number)
    network = build(spaces.observation, {"values": head}, config.network, torso)
    recurrent = config.network.recurrent is not None
    descent = Descent(config.learning_rate, config.anneal, config.max_gradient_norm, epsilon=1e-8)

    def init(key: jax.Array) -> State:
        params = network.init(key)
        return State.begin(params, descent.init(params), target=jax.tree.map(jnp.copy, params))

    def act(policy: Policy, observation: Tree, memory: Tree, first: Array, key: jax.Array, explore: Array) -> Act:
        outputs, memory = network.apply(policy[0], observation, memory, first)
        random_key, choice_key = jax.random.split(key)
        best = jnp.argmax(outputs["values"], axis=-1)
        random = jax.random.randint(choice_key, best.shape, 0, actions.number)
        raw = jnp.where(jax.random.uniform(random_key, best.shape) < explore, random, best)
        return Act(actions.action(raw), raw, memory, {})

    def state_value(policy: Policy, observation: Tree, memory: Tree, first: Array) -> Array:
        return network.apply(policy[0], observation, memory, first)[0]["values"].max(axis=-1)

    def explore(progress: float) -> float:
        share = min(progress / config.epsilon_fraction, 1.0) if config.epsilon_fraction else 1.0
        return config.epsilon_start + share * (config.epsilon_end - config.epsilon_start)

    def best_value(learned: Array, slow: Array) -> jax.Array:
        """Value [...] of the best action, from the two networks' values [..., n]."""
        choice = jnp.argmax(learned if config.double else slow, axis=-1)
        return _chosen(slow, choice)

    def prepare(state: State, batch: Transitions | Trajectory) -> tuple[State, Lesson]:
        if isinstance(batch, Transitions):
            learned, slow = (
                network.apply(params, batch.successor, (), jnp.zeros(batch.reward.shape, bool))[0]["values"]
                for params in (state.params, state.target)
            )
            return state, Lesson(batch, batch.reward + batch.discount * best_value(learned, slow))
        learned, slow = (
            unroll_with_successors(network, params, batch)[1]["values"] for params in (state.params, state.target)
        )
        target = n_step_returns(
            batch.reward, batch.discount * config.discount, continues(batch), best_value(learned, slow), config.n_step
        )
        return state, Lesson(batch, target)

    def evaluate(params: Tree, batch: Transitions | Trajectory) -> tuple[jax.Array, Array]:
        """Values of the actions taken, and which of them to learn from."""
        if isinstance(batch, Transitions):
            first = jnp.zeros(batch.reward.shape, bool)
            outputs, _ = network.apply(params, batch.observation, (), first)
            return _chosen(outputs["values"], batch.action), ~first
        observation = jax.tree.map(lambda leaf: leaf[:-1], batch.observation)
        outputs, _ = network.unroll(params, observation, batch.memory, batch.first[:-1])
        return _chosen(outputs["values"], batch.action), batch.valid

    def loss(params: Tree, lesson: Lesson) -> tuple[jax.Array, dict[str, jax.Array]]:
        value, valid = evaluate(params, lesson.batch)
        error = value - lesson.target
        total = masked_mean(huber(error, config.huber), valid)
        return total, {"loss": total, "value": masked_mean(value, valid), "error": masked_mean(jnp.abs(error), valid)}

    def apply(state: State, grads: Tree) -> State:
        state = descent.step(state, grads)
        renewed = state.updates % config.target_period == 0
        target = jax.tree.map(lambda new, old: jnp.where(renewed, new, old), state.params, state.target)
        return state._replace(target=target)

    return Algorithm(
        name="dqn",
        init=init,
        memory=network.memory,
        act=act,
        value=state_value,
        explore=explore,
        prepare=prepare,
        gradients=gradients_of(loss),
        apply=apply,
        experience=Replay(
            capacity=config.capacity,
            batch=config.batch,
            warmup=config.warmup,
            steps_per_update=config.steps_per_update,
            n_step=config.n_step,
            discount=config.discount,
            sequence=config.sequence if recurrent else None,
        ),
        max_gradient_norm=descent.max_gradient_norm,
    )


def _chosen(values: Array, action: Array) -> jax.Array:
    """Values [...] of the actions [...] out of the values [..., n] of all actions."""
    return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]
