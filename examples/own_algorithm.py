"""An algorithm of your own in one file: REINFORCE with a learned baseline (Williams 1992, Machine Learning 8).

The same from a shell in this folder: weft train own_algorithm:reinforce CartPole-v1 --reinforce.discount 0.98
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

import weft
from weft.algorithm import Act, Algorithm, Feedback, Policy, State
from weft.experience.kinds import Unrolls
from weft.experience.trajectories import continues
from weft.maths.losses import masked_mean, masked_standardised
from weft.maths.returns import generalised_advantages
from weft.networks.action import action_adapter
from weft.networks.network import NetworkSettings, Torso, build
from weft.networks.policy import stochastic, value
from weft.networks.values import unroll_with_successors
from weft.settings import positive, within
from weft.types import Array, Spaces, Trajectory, Tree


@dataclass(frozen=True)
class Config:
    """REINFORCE with a learned baseline (Williams 1992)."""

    learning_rate: float = positive(1e-2)
    """Step size of Adam."""
    unroll: int = positive(64)
    """Steps of each environment between two updates; returns are completed by the baseline where it ends."""
    discount: float = within(0.99, 0, 1)
    """Weight of a reward that comes one step later."""
    network: NetworkSettings = field(default_factory=NetworkSettings)
    """The network."""


class Samples(NamedTuple):
    """What ``gradients`` learns from: a whole unroll, [T, B, ...]."""

    batch: Trajectory
    observation: Tree
    target: Array
    advantage: Array


def reinforce(config: Config, spaces: Spaces, torso: Torso | None = None) -> Algorithm:
    """Return REINFORCE for these spaces."""
    actions = action_adapter(spaces.action)
    network = build(spaces.observation, {"policy": stochastic(actions), "value": value()}, config.network, torso)
    optimiser = optax.adam(config.learning_rate)

    def init(key: jax.Array) -> State:
        params = network.init(key)
        return State.begin(params, optimiser.init(params))

    def act(policy: Policy, observation: Tree, memory: Tree, first: Array, key: jax.Array, explore: Array) -> Act:
        outputs, memory = network.apply(policy[0], observation, memory, first)
        distribution = actions.distribution(outputs["policy"])
        sampled, likeliest = distribution.sample(key), distribution.mode()
        raw = jax.tree.map(lambda a, b: jnp.where(explore > 0, a, b), sampled, likeliest)
        return Act(actions.to_environment(raw), raw, memory, {})

    def state_value(policy: Policy, observation: Tree, memory: Tree, first: Array) -> Array:
        return network.apply(policy[0], observation, memory, first)[0]["value"]

    def prepare(state: State, batch: Trajectory) -> tuple[State, Samples]:
        here, successor = unroll_with_successors(network, state.params, batch)
        discount_t, continues_t = batch.discount * config.discount, continues(batch)
        advantage = generalised_advantages(
            batch.reward, discount_t, continues_t, here["value"], successor["value"], lambda_=1.0
        )
        observation = jax.tree.map(lambda leaf: leaf[:-1], batch.observation)
        target = advantage + here["value"]
        return state, Samples(batch, observation, target, masked_standardised(advantage, batch.valid))

    def loss(params: Tree, samples: Samples) -> tuple[jax.Array, dict[str, jax.Array]]:
        batch = samples.batch
        outputs, _ = network.unroll(params, samples.observation, batch.memory, batch.first[:-1])
        log_prob = actions.distribution(outputs["policy"]).log_prob(batch.action)
        policy_loss = -masked_mean(log_prob * samples.advantage, batch.valid)
        value_loss = masked_mean(optax.huber_loss(outputs["value"], samples.target), batch.valid)
        total = policy_loss + 0.5 * value_loss
        return total, {"loss": total, "policy_loss": policy_loss, "value_loss": value_loss}

    def gradients(state: State, minibatch: Samples, key: jax.Array) -> tuple[Tree, Feedback]:
        grads, metrics = jax.grad(loss, has_aux=True)(state.params, minibatch)
        return grads, Feedback(metrics)

    def apply(state: State, grads: Tree) -> State:
        updates, optimiser_state = optimiser.update(grads, state.optimiser)
        params = optax.apply_updates(state.params, updates)
        return state._replace(params=params, optimiser=optimiser_state, updates=state.updates + 1)

    return Algorithm(
        name="reinforce",
        init=init,
        memory=network.memory,
        act=act,
        value=state_value,
        explore=lambda progress: 1.0,  # sample while learning
        prepare=prepare,
        gradients=gradients,
        apply=apply,
        experience=Unrolls(length=config.unroll),  # one epoch, one minibatch
    )


def main() -> None:
    run = weft.train(reinforce, "CartPole-v1", steps=60_000, settings={"discount": 0.98})
    print(f"mean return {run.evaluate(episodes=10).mean_return:.0f}")


if __name__ == "__main__":
    main()
