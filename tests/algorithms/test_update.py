"""``update``: every sample once an epoch, its parts together, and gradients through ``reduce``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from weft.algorithm import Algorithm, Feedback, State
from weft.experience.kinds import Experience, Replay, Unrolls
from weft.update import random_order, shuffled, update

SAMPLES = 12


def counting(experience: Experience, log: int) -> Algorithm:
    """An algorithm whose parameters count how often each sample was seen and whose target logs the minibatches."""

    def init(key: jax.Array) -> State:
        size = SAMPLES // log if isinstance(experience, Unrolls) else SAMPLES
        steps = log * getattr(experience, "epochs", 1)
        return State.begin(jnp.zeros(SAMPLES), (), target=jnp.full((steps, size), -1))

    def prepare(state: State, batch: jax.Array) -> tuple[State, Any]:
        return state._replace(statistics=batch.sum()), {"index": batch, "pair": (10 * batch, jnp.stack([batch] * 2, 1))}

    def gradients(state: State, minibatch: Any, key: jax.Array) -> tuple[Any, Feedback]:
        index = minibatch["index"]
        together = (minibatch["pair"][0] == 10 * index) & (minibatch["pair"][1] == index[:, None]).all(1)
        metrics = {"loss": state.updates.astype(float), "together": together.all(), "random": jax.random.uniform(key)}
        return (jnp.zeros(SAMPLES).at[index].add(1.0), index), Feedback(metrics)

    def apply(state: State, grads: Any) -> State:
        counts, index = grads
        target = state.target.at[state.updates].set(index)
        return state._replace(params=state.params + counts, target=target, updates=state.updates + 1)

    unused: Any = None
    return Algorithm("counting", init, unused, unused, unused, unused, prepare, gradients, apply, experience)


@pytest.mark.parametrize(("epochs", "minibatches"), [(1, 1), (1, 4), (3, 1), (3, 4), (2, 12)])
def test_every_sample_once_an_epoch(epochs, minibatches):
    algorithm = counting(Unrolls(length=1, epochs=epochs, minibatches=minibatches), minibatches)
    run = jax.jit(lambda state, batch, key: update(algorithm, state, batch, key))
    state, feedback = run(algorithm.init(jax.random.key(0)), jnp.arange(SAMPLES), jax.random.key(1))
    np.testing.assert_array_equal(state.params, epochs)
    orders = np.asarray(state.target).reshape(epochs, SAMPLES)
    for order in orders:
        assert sorted(order) == list(range(SAMPLES))
    assert state.updates == epochs * minibatches
    assert state.statistics == sum(range(SAMPLES))
    assert feedback.metrics["together"] == 1
    assert feedback.metrics["loss"] == (epochs * minibatches - 1) / 2
    if minibatches > 1:
        assert len(np.unique(orders, axis=0)) == epochs
        other, _ = run(algorithm.init(jax.random.key(0)), jnp.arange(SAMPLES), jax.random.key(2))
        assert (other.target != state.target).any()


def test_gradients_pass_through_reduce():
    def double(gradients: Any) -> Any:
        return 2 * gradients[0], gradients[1]

    for experience, expected in ((Unrolls(length=1, epochs=2, minibatches=3), 4), (Unrolls(length=1), 2)):
        algorithm = counting(experience, experience.minibatches)
        state, _ = update(
            algorithm, algorithm.init(jax.random.key(0)), jnp.arange(SAMPLES), jax.random.key(1), reduce=double
        )
        np.testing.assert_array_equal(state.params, expected)


def test_reduce_can_be_a_mean_over_a_mapped_axis():
    algorithm = counting(Unrolls(length=1, epochs=2, minibatches=3), 3)

    def learn(batch: jax.Array, key: jax.Array) -> State:
        reduce = lambda gradients: (jax.lax.pmean(gradients[0], "learner"), gradients[1])  # noqa: E731
        return update(algorithm, algorithm.init(key), batch, key, reduce)[0]

    batches = jnp.stack([jnp.arange(SAMPLES), jnp.zeros(SAMPLES, int)])
    states = jax.vmap(learn, axis_name="learner")(batches, jax.random.split(jax.random.key(0)))
    expected = np.full(SAMPLES, 1.0)
    expected[0] += 12
    np.testing.assert_allclose(states.params, [expected, expected])


def test_batches_from_replay_are_learned_from_as_they_are():
    algorithm = counting(Replay(capacity=100, batch=SAMPLES, warmup=1), 1)
    state, feedback = update(algorithm, algorithm.init(jax.random.key(0)), jnp.arange(SAMPLES), jax.random.key(1))
    np.testing.assert_array_equal(state.target[0], np.arange(SAMPLES))
    assert feedback.metrics["random"] == jax.random.uniform(jax.random.key(1))


def test_shuffled_is_a_permutation_that_keeps_pairs_together():
    data = {"x": np.arange(SAMPLES), "more": (np.arange(SAMPLES * 4).reshape(SAMPLES, 2, 2), ())}
    parts = shuffled(data, 3, jax.random.key(0))
    assert parts["x"].shape == (3, 4) and parts["more"][0].shape == (3, 4, 2, 2)
    order = parts["x"].reshape(-1)
    assert sorted(order.tolist()) == list(range(SAMPLES)) != order.tolist()
    np.testing.assert_array_equal(parts["more"][0].reshape(SAMPLES, 2, 2), data["more"][0][order])


@pytest.mark.parametrize("size", [1, 2, 12, 1000, 70_000])
def test_random_order_is_a_permutation(size):
    orders = [random_order(size, jax.random.key(seed)) for seed in range(2)]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(size))
    assert size < 12 or (orders[0] != orders[1]).any()


def test_every_order_is_equally_likely():
    orders = jax.vmap(lambda key: random_order(4, key))(jax.random.split(jax.random.key(0), 12_000))
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 24 and (abs(counts - 500) < 5 * np.sqrt(500)).all()
