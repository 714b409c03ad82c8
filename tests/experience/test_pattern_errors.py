"""Patterns that cannot be served are refused, in a sentence that says where the mistake is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pattern_cases import LAYOUT

from weft.errors import WeftError
from weft.experience.expressions import Expression
from weft.experience.patterns import Pattern, column, concatenate, stack

reward, discount, valid, action = (column(name) for name in ("reward", "discount", "valid", "action"))
camera, arm = column("observation", "camera"), column("observation", "arm")


@pytest.mark.parametrize("time", [0, 3, slice(0, 2), slice(None), slice(None, -1), slice(-3, 0), slice(-2, -2)])
@pytest.mark.parametrize("step", [None, 2])
def test_steps_that_no_item_has_are_refused(time, step):
    time = slice(time.start, time.stop, step) if isinstance(time, slice) else time
    with pytest.raises(WeftError, match=r"^column\('reward'\)\[.*\] is not steps of an item: .* counted back"):
        reward[time]


@pytest.mark.parametrize("time", [slice(-1, -3), slice(-1, -4, -1), slice(-3, None, 0), None, ...])
def test_steps_go_forward(time):
    with pytest.raises(WeftError, match=r"counted back from the newest, as in \[-1\]"):
        reward[time]


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "key in time": (lambda: column("observation")["camera"], r"inside another is column\('observation', 'camera'\)"),
    "float time": (lambda: reward[-1.0], r"are integers, not -1\.0"),
    "array time": (lambda: reward[[-1, -2]], r"are integers, not \[-1, -2\]"),
    "two times": (lambda: camera[-1, 0], r"are integers, not \(-1, 0\)"),
    "bool index": (lambda: reward[-3:][True], "are integers, not True"),
    "mask index": (lambda: reward[-3:][np.ones(3, bool)], "are integers"),
    "slice of floats": (lambda: reward[-3:][0.5:], r"are integers, not 0\.5"),
    "axis": (lambda: reward[-3:].sum(axis="time"), "are integers, not 'time'"),
    "shape": (lambda: reward[-3:].reshape((3, 1.5)), r"are integers, not 1\.5"),
    "column name": (lambda: column("a", 1.5), r"not by 1\.5"),
    "bool name": (lambda: column("a", True), "not by True"),
    "operand": (lambda: reward[-1] * "x", r"added, subtracted and multiplied, not 'x' of type str"),
    "array operand": (lambda: np.ones(3) * reward[-3:], "not array.* of type ndarray"),
    "operand without steps": (
        lambda: reward[-1] + discount,
        r"not column\('discount'\), which .* without steps",
    ),
    "joining nothing": (lambda: stack([]), r"is a list of steps of columns, not \[\]"),
    "joining one": (lambda: concatenate(reward[-3:]), "is a list of steps of columns, not column"),
    "joining numbers": (lambda: stack([reward[-1], 1]), "without 1 of type int"),
    "no outputs": (lambda: Pattern({}), "needs outputs with names"),
    "one output": (lambda: Pattern(reward[-1]), "needs outputs with names"),
    "output without steps": (lambda: Pattern({"a": (reward,)}), r"The output 'a\.0' is column\('reward'\), which"),
    "output of another type": (lambda: Pattern({"a": {"b": 3}}), r"The output 'a\.b' is 3 of type int"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_meant_is_refused_at_once(name):
    wrong, message = WRONG[name]
    with pytest.raises(WeftError, match=message):
        wrong()


UNFIT: dict[str, tuple[Expression, str]] = {
    "index": (camera[-2:][0, 3], r"shapes \(2, 3, 2\) do not"),
    "negative index": (camera[-2:][-3], r"shapes \(2, 3, 2\)"),
    "too many indices": (reward[-2:][0, 0], r"shapes \(2,\)"),
    "the batch is no axis": (reward[-1][0], r"shapes \(\)"),
    "empty slice": (camera[-2:][:, 3:], r"shapes \(2, 3, 2\)"),
    "slice step": (camera[-2:][::0], r"shapes \(2, 3, 2\)"),
    "two ellipses": (camera[-2:][..., 0, ...], r"shapes \(2, 3, 2\)"),
    "axis": (reward[-2:].sum(axis=1), r"shapes \(2,\)"),
    "axis of the batch": (reward[-2:].max(axis=-2), r"shapes \(2,\)"),
    "repeated axis": (camera[-2:].mean(axis=(0, -3)), r"shapes \(2, 3, 2\)"),
    "product of a scalar along an axis": (reward[-1].partial_products(), r"shapes \(\)"),
    "transpose": (camera[-1].transpose((0,)), r"shapes \(3, 2\)"),
    "transpose twice": (camera[-1].transpose((0, 0)), r"shapes \(3, 2\)"),
    "reshape": (camera[-1].reshape((4,)), r"shapes \(3, 2\)"),
    "reshape unknown": (camera[-1].reshape((-1, -1)), r"shapes \(3, 2\)"),
    "sum of shapes": (reward[-3:] + reward[-2:], r"shapes \(3,\) and \(2,\)"),
    "stack": (stack([reward[-3:], reward[-2:]]), r"shapes \(3,\) and \(2,\)"),
    "stack axis": (stack([reward[-3:], reward[-3:]], axis=2), r"shapes \(3,\) and \(3,\)"),
    "stack axis of the batch": (stack([reward[-3:], reward[-3:]], axis=-3), r"shapes \(3,\) and \(3,\)"),
    "concatenate": (concatenate([camera[-1], camera[-1].transpose((1, 0))]), r"shapes \(3, 2\) and \(2, 3\)"),
    "concatenate ranks": (concatenate([action[-1], camera[-1]]), r"shapes \(3,\) and \(3, 2\)"),
    "concatenate scalars": (concatenate([reward[-1], reward[-2]]), r"shapes \(\) and \(\)"),
    "trees": (column("observation")[-1] + arm[-1], r"shapes \{'camera': \(3, 2\), .*\} and \(\(2,\), \(\)\)"),
    "tree and array": (arm[-1] * reward[-1], r"shapes \(\(2,\), \(\)\) and \(\)"),
    "array and tree": (reward[-1] * arm[-1], r"shapes \(\) and \(\(2,\), \(\)\)"),
    "leaf of a tree": (arm[-1].sum(axis=0), r"shapes \(\(2,\), \(\)\)"),
}


@pytest.mark.parametrize("name", UNFIT)
@pytest.mark.parametrize("form", ["alone", "within"])
def test_shapes_that_do_not_fit_are_found_with_the_output_and_the_expression(name, form):
    expression, message = UNFIT[name]
    pattern = Pattern({"good": reward[-1], "bad": {"one": expression if form == "alone" else expression * 2}})
    with pytest.raises(WeftError, match=message) as caught:
        pattern.check(LAYOUT)
    assert str(caught.value).startswith(f"The output 'bad.one' asks for {expression}, which shapes ")
    assert str(caught.value).count("\n") == 0


UNKNOWN: dict[str, tuple[Expression, str]] = {
    "name": (column("rewards")[-1], r"There is no column named 'rewards': did you mean reward\?"),
    "nested": (
        column("observation", "camra")[-1],
        r"in column\('observation'\) named 'camra': did you mean camera",
    ),
    "place": (
        column("observation", "arm", 2)[-1],
        r"in column\('observation', 'arm'\) named '2': there is 0, 1",
    ),
    "type": (column("observation", "arm", "0")[-1], r"column\('observation', 'arm'\) named '0'"),
    "too deep": (column("reward", 0)[-1], r"no column\('reward', 0\): column\('reward'\) has no columns inside"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_columns_are_found_with_the_nearest_ones(name):
    expression, message = UNKNOWN[name]
    with pytest.raises(WeftError, match=message):
        Pattern({"a": expression}).check(LAYOUT)


def test_a_pattern_that_fits_passes_the_check():
    Pattern({"a": column("observation")[-4:], "b": arm[-1], "c": camera[-1][2, 1], "d": valid[-2:].product()}).check(
        LAYOUT
    )


def test_expressions_are_no_sequences():
    with pytest.raises(TypeError, match="not iterable"):
        list(reward[-3:])


def test_an_error_of_the_store_is_not_taken_for_one_of_the_pattern():
    def take(path: Any, begin: int, stop: int) -> np.ndarray:
        raise IndexError("lost")

    with pytest.raises(IndexError, match="lost"):
        Pattern({"a": reward[-1]}).read(take)
