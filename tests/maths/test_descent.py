"""Descent: two steps of each optimiser by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from weft.algorithm import State
from weft.maths.descent import Descent

BEGIN = {"a": jnp.array([1.0, -2.0]), "b": jnp.array(3.0)}
GRADIENTS = [{"a": jnp.array([0.3, -4.0]), "b": jnp.array(0.01)}, {"a": jnp.array([0.1, 2.0]), "b": jnp.array(-1.0)}]


def stepped(descent: Descent, progress: float = 0.0) -> State:
    state = State.begin(BEGIN, descent.init(BEGIN))._replace(progress=jnp.float32(progress))
    for gradients in GRADIENTS:
        state = descent.step(state, gradients)
    assert state.updates == 2
    return state


def by_hand(rate: float, epsilon: float, optimiser: str, decay: float = 0.99) -> dict[str, np.ndarray]:
    params = {}
    for name, leaf in BEGIN.items():
        param, mean, square = np.asarray(leaf), 0.0, 0.0
        for number, gradients in enumerate(GRADIENTS, 1):
            gradient = np.asarray(gradients[name])
            if optimiser == "rmsprop":
                square = decay * square + (1 - decay) * gradient**2
                param = param - rate * gradient / np.sqrt(square + epsilon)
            else:
                mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
                size = np.sqrt(square / (1 - 0.999**number)) + epsilon
                param = param - rate * mean / (1 - 0.9**number) / size
        params[name] = param
    return params


@pytest.mark.parametrize(("optimiser", "epsilon"), [("rmsprop", 0.1), ("rmsprop", 1e-5), ("adam", 1e-5), ("adam", 0.1)])
def test_two_steps_by_hand(optimiser, epsilon):
    after = stepped(Descent(0.1, False, None, epsilon, optimiser)).params
    for name, param in by_hand(0.1, epsilon, optimiser).items():
        np.testing.assert_allclose(after[name], param, rtol=1e-4)


def test_rmsprop_forgets_as_fast_as_it_is_told():
    after = stepped(Descent(0.1, False, None, 0.1, "rmsprop", decay=0.5)).params
    for name, param in by_hand(0.1, 0.1, "rmsprop", decay=0.5).items():
        np.testing.assert_allclose(after[name], param, rtol=1e-5)


@pytest.mark.parametrize("optimiser", ["rmsprop", "adam"])
def test_the_rate_falls_with_progress(optimiser):
    for progress in (0.5, 1.0):
        after = stepped(Descent(0.1, True, None, 0.1, optimiser), progress).params
        for name, param in by_hand(0.1 * (1 - progress), 0.1, optimiser).items():
            np.testing.assert_allclose(after[name], param, rtol=1e-5)
