"""A sum tree: masses of which one is drawn, or changed, in logarithmic time (Schaul et al. 2016, appendix B.2.1).

Compiled, and therefore imported only by those who build one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np


class SumTree:
    """Masses of the slots 0 .. ``capacity`` - 1, none of them negative, zero to begin with.

    Every node is the sum of its two children as they are, never adjusted by a difference. So the tree is a function of
    the masses alone, bit for bit, and does not depend on the way to them.
    """

    def __init__(self, capacity: int) -> None:
        self._nodes = np.zeros(2 * capacity)
        """The root is node 1, the children of node i are 2 i and 2 i + 1, and slot s is node ``capacity`` + s."""
        self._capacity = capacity

    @property
    def total(self) -> float:
        """The sum of all masses."""
        return float(self._nodes[1])

    def masses(self, slots: np.ndarray) -> np.ndarray:
        """Return the masses [n] of the slots [n]."""
        masses: np.ndarray = self._nodes[self._capacity + slots]
        return masses

    def write(self, slots: np.ndarray, masses: np.ndarray | float) -> None:
        """Set the masses [n] of the slots [n]. Of a slot that is named several times the last one counts."""
        leaves = self._capacity + slots
        self._nodes[leaves] = masses
        if len(slots) < self._capacity // 8:
            _renew_above(self._nodes, leaves)
        else:
            _renew_all(self._nodes)

    def draw(self, shares: np.ndarray) -> np.ndarray:
        """Return the slots [n] in which the ``shares`` [n] of the total fall, each in [0, 1), the slots put in a row.

        Some mass must be there; a slot without any is never returned, however the sums were rounded.
        """
        nodes: np.ndarray = _descend(self._nodes, shares)
        return nodes - self._capacity


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function once and for all, or once for this process where nothing can be written."""
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # neither the package nor the user's cache can be written
        return numba.njit(function)


@_compiled
def _renew_above(nodes: np.ndarray, changed: np.ndarray) -> None:
    """Renew the sums above the nodes ``changed``, all of them one level higher at a time.

    Level by level, rather than path by path, the processor fetches many nodes at once. Paths may differ in length by
    one: then those that reach a sum first have it renewed once more by those that come later.
    """
    above = changed >> 1
    below_root = True
    while below_root:
        below_root = False
        for i in range(len(above)):
            node = above[i]
            if node > 0:
                nodes[node] = nodes[2 * node] + nodes[2 * node + 1]
                above[i] = node >> 1
                below_root = True


@_compiled
def _renew_all(nodes: np.ndarray) -> None:
    """Renew all sums, from below."""
    for node in range(len(nodes) // 2 - 1, 0, -1):
        nodes[node] = nodes[2 * node] + nodes[2 * node + 1]


@_compiled
def _descend(nodes: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the leaves [n] in which the shares [n] of the root fall, all of them one level lower at a time."""
    leaves = len(nodes) // 2
    reached, masses = np.ones(len(shares), np.int64), shares * nodes[1]
    end_of_level = 2
    while end_of_level <= leaves:
        for i in range(len(reached)):
            _step_down(nodes, reached, masses, i)
        end_of_level *= 2
    for i in range(len(reached)):
        if reached[i] < leaves:
            _step_down(nodes, reached, masses, i)
    return reached


@_compiled
def _step_down(nodes: np.ndarray, reached: np.ndarray, masses: np.ndarray, i: int) -> None:
    """Go to the child of node ``reached[i]`` in which its part ``masses[i]`` falls; without a branch, which is faster.

    The second condition is for a part that rounding made larger than the node.
    """
    left = 2 * reached[i]
    right = (masses[i] >= nodes[left]) & (nodes[left + 1] > 0.0)
    masses[i] -= nodes[left] * right
    reached[i] = left + right
