"""Returns and advantages along one trajectory: functions of arrays [T]; further axes, as in [T, B], are carried along.

Time-index names follow the literature: an action taken at time t-1 from ``v_tm1`` earns ``r_t`` and ``discount_t`` and
leads to ``v_t``. ``discount_t`` is the algorithm's discount times 0 where the episode terminated. ``continues_t`` is 0
where the state at time t does not follow the action at t-1 (an episode began in between), so that nothing learned
beyond it flows back, whether the episode had terminated or was cut off.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from weft.types import Array


def generalised_advantages(
    r_t: Array, discount_t: Array, continues_t: Array, v_tm1: Array, v_t: Array, lambda_: float
) -> Array:
    """Return the advantages [T] of Schulman et al. 2016, 'High-dimensional continuous control using GAE', eq. 16.

    All arguments are [T]; ``v_t[k]`` is the value of the true successor of step k, whether or not it is
    ``v_tm1[k + 1]``.
    """
    errors = r_t + discount_t * v_t - v_tm1
    decays = discount_t * continues_t * lambda_
    return _backward_sums(errors, decays)


def n_step_returns(r_t: Array, discount_t: Array, continues_t: Array, v_t: Array, n: int) -> Array:
    """Return bootstrapped n-step returns [T]: up to n rewards, then the value reached (Sutton & Barto, sec. 7.1).

    All arguments are [T]. Near the end of the trajectory, or where an episode is cut off, fewer rewards are summed.

    >>> one, zero = jnp.ones(3), jnp.zeros(3)
    >>> n_step_returns(one, one, one, zero, n=2).tolist()
    [2.0, 2.0, 1.0]
    """
    reached_t = jnp.asarray(v_t)
    for _ in range(n):
        returns = r_t + discount_t * reached_t
        following = jnp.concatenate([returns[1:], v_t[-1:]])
        reached_t = jnp.where(continues_t > 0, following, v_t)
    return returns


class VTrace(NamedTuple):
    """What V-trace makes of a trajectory, [T] each."""

    target: Array
    """what the value of each state should have been under the learner's policy"""
    advantage: Array
    """of each action: its reward and the target of where it led to, less the value of where it was taken"""


def vtrace(
    r_t: Array,
    discount_t: Array,
    continues_t: Array,
    v_tm1: Array,
    v_t: Array,
    rho_tm1: Array,
    lambda_: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> VTrace:
    """Return the targets of Espeholt et al. 2018, 'IMPALA', arXiv:1802.01561, eq. 1 with the ``lambda_`` of remark 2.

    All arguments are [T]; ``v_t[k]`` is the value of the true successor of step k, and ``rho_tm1`` the probability of
    its action under the learner's policy over that under the policy that acted. ``rho_bar`` clips these ratios where
    they decide what is learned, ``c_bar`` where they decide how far back. Advantages are those of section 4.2 without
    the ratio of the action itself, which is for the loss to add; with a ``lambda_`` below 1 the target of where an
    action led to is mixed with the value there, in such a way that ratios of 1 give ``generalised_advantages``.
    """
    traces = lambda_ * jnp.minimum(rho_tm1, c_bar)
    errors = r_t + discount_t * v_t - v_tm1
    corrections = _backward_sums(jnp.minimum(rho_tm1, rho_bar) * errors, discount_t * continues_t * traces)
    following = jnp.concatenate([corrections[1:], jnp.zeros_like(corrections[:1])])
    return VTrace(v_tm1 + corrections, errors + discount_t * continues_t * lambda_ * following)


def _backward_sums(terms: Array, decays: Array) -> Array:
    """Return ``s[t] = terms[t] + decays[t] * s[t + 1]`` for [T] arrays, with nothing beyond the end."""

    def step(total: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        term, decay = inputs
        total = term + decay * total
        return total, total

    nothing: Array = jnp.zeros_like(terms[0])
    return jax.lax.scan(step, nothing, (terms, decays), reverse=True, unroll=8)[1]
