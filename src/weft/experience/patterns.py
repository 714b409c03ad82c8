"""Patterns: what of the steps of an item is served, and in what form.

A pattern is declared once, by slices of columns that are counted back from an item's newest step. Items are cut out of
the stored steps when they are sampled, a whole batch at a time: what the structured writer of Reverb (Cassirer et al.
2021, arXiv:2102.04736) does when steps are written, so that here they are stored once whatever is made of them.

>>> frames, reward, discount = column("observation", "camera"), column("reward"), column("discount")
>>> pattern = Pattern({
...     "frames": frames[-4:],
...     "successor": frames[-1],
...     "n_step": (reward[-3:] * discount[-3:].partial_products(exclusive=True)).sum(axis=0),
... })
>>> pattern.span
4

Integers and bools become float32 in arithmetic: see ``weft.experience.itemwise``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from weft.errors import WeftError, unknown
from weft.experience.chunks import named_leaves
from weft.experience.expressions import (
    ColumnReference,
    Expression,
    Path,
    Steps,
    column,
    concatenate,
    described,
    stack,
)
from weft.program import Leaf
from weft.trees import map_tree
from weft.types import Tree

__all__ = ["Pattern", "Take", "column", "concatenate", "stack"]

Take = Callable[[Path, int, int], Tree]
"""``take(path, begin, stop)`` gathers steps of a column, [N, stop - begin, ...], or of each column of a subtree; steps
are numbered from the item's oldest one."""

EXAMPLE = "column('reward')[-3:]"


class StoredItems(Protocol):
    """Items of a store, as ``weft.experience.store.Items``."""

    spans: np.ndarray

    def take(self, path: Path, begin: int, stop: int) -> Tree:
        """Return steps ``begin`` to ``stop`` of a column, [N, stop - begin, ...]."""


@dataclass(frozen=True, repr=False)
class Pattern:
    """A tree of expressions, by the names under which their values are served."""

    outputs: Tree
    span: int = field(init=False)
    """Steps that an item needs: the largest reach back."""

    def __post_init__(self) -> None:
        outputs = named_leaves(self.outputs) if isinstance(self.outputs, dict | tuple) else []
        if not outputs:
            raise WeftError(f"A pattern needs outputs with names, as in Pattern({{'rewards': {EXAMPLE}}}).")
        for name, output in outputs:
            if not isinstance(output, Expression):
                raise WeftError(f"The output {name!r} is {described(output)}, not made of steps such as {EXAMPLE}.")
        object.__setattr__(self, "span", max(output.reach for _, output in outputs))

    def __repr__(self) -> str:
        return f"Pattern({self.outputs!r})"

    def read(self, take: Take) -> Tree:
        """Return the outputs of a batch of items, [N, ...] each.

        They may share memory with each other and with what ``take`` returned, so they are not to be written to.
        """
        evaluation = _Evaluation(take, self.span)
        values = iter([evaluation.value(output, name) for name, output in named_leaves(self.outputs)])
        return map_tree(lambda _: next(values), self.outputs)

    def read_items(self, items: StoredItems) -> Tree:
        """Return the outputs of items of a store, which are equally long and have at least ``span`` steps."""
        longest, shortest = int(items.spans.max()), int(items.spans.min())
        if not self.span <= shortest == longest:
            raise WeftError(
                f"A pattern of {self.span} steps is served from items that are equally long and not shorter, but "
                f"these have {shortest} to {longest} steps."
            )
        older = longest - self.span
        return self.read(lambda path, begin, stop: items.take(path, begin + older, stop + older))

    def check(self, layout: Tree) -> None:
        """Refuse columns that are not in a step's ``layout``, a tree of ``Leaf``, and shapes that do not fit."""
        self.layout(layout)

    def layout(self, layout: Tree) -> Tree:
        """Return the tree of ``Leaf`` that is served for one item, given the one of a step."""

        def zeros(path: Path, begin: int, stop: int) -> Tree:
            return map_tree(lambda leaf: np.zeros((1, stop - begin, *leaf.shape), leaf.dtype), _subtree(layout, path))

        return map_tree(lambda array: Leaf(array.shape[1:], array.dtype.name), self.read(zeros))


class _Evaluation:
    """The values of expressions for one batch; each is worked out once, however often it is used."""

    def __init__(self, take: Take, span: int) -> None:
        self._take, self._span = take, span
        self._values: dict[Expression, Tree] = {}

    def value(self, expression: Expression, output: str) -> Tree:
        """Return the value of an expression, [N, ...], which is needed for an ``output``."""
        if expression not in self._values:
            if isinstance(expression, Steps):
                operands = [self._gathered(expression)]
            else:
                operands = [self.value(part, output) for part in expression.parts]
            self._values[expression] = _computed(expression, operands, output)
        return self._values[expression]

    def _gathered(self, steps: Steps) -> Tree:
        begin, stop = self._span + steps.offsets[0], self._span + steps.offsets[-1] + 1
        return self._take(steps.path, begin, stop)


def _computed(expression: Expression, operands: list[Tree], output: str) -> Tree:
    """Return the value of an expression, leaf by leaf, from those of its parts."""
    try:
        if all(isinstance(operand, np.ndarray) for operand in operands):
            return expression.compute(*operands)
        structures = [map_tree(lambda _: None, operand) for operand in operands]
        if any(structure != structures[0] for structure in structures):
            raise ValueError("trees of different structures")
        return map_tree(expression.compute, *operands)
    except (ValueError, IndexError, TypeError):  # what numpy raises where shapes, axes, indices or dtypes do not fit
        shapes = " and ".join(str(map_tree(lambda leaf: leaf.shape[1:], operand)) for operand in operands)
        raise WeftError(f"The output {output!r} asks for {expression}, which shapes {shapes} do not allow.") from None


def _subtree(layout: Tree, path: Path) -> Tree:
    tree = layout
    for depth, key in enumerate(path):
        around = ColumnReference(path[:depth])
        known = tree if isinstance(tree, dict) else dict(enumerate(tree)) if isinstance(tree, tuple) else {}
        if not known:
            raise WeftError(f"There is no {ColumnReference(path)}: {around} has no columns inside.")
        if key not in known:
            raise unknown(f"column in {around}" if depth else "column", str(key), map(str, known))
        tree = known[key]
    return tree
