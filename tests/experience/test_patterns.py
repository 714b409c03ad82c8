"""Patterns serve for every item of a batch what ordinary numpy makes of that item's own stream."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pattern_cases import LAYOUT, LENGTH, Gathering, cases, stream_of, until

from weft.errors import WeftError
from weft.experience.patterns import Pattern, column, concatenate, stack
from weft.experience.store import Store
from weft.experience.table import TableSettings
from weft.program import Leaf
from weft.trees import map_tree

reward, discount, action = column("reward"), column("discount"), column("action")
camera = column("observation", "camera")


def read(outputs: Any, newest: list[int], seed: int = 0) -> Any:
    pattern = Pattern(outputs)
    return pattern.read(Gathering(stream_of(seed), newest, pattern.span))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    drawn=st.lists(cases(), min_size=1, max_size=4),
    newest=st.lists(st.integers(4, LENGTH - 1), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_every_item_is_served_what_numpy_makes_of_its_own_stream(drawn, newest, seed):
    pattern = Pattern({str(number): case.expression for number, case in enumerate(drawn)})
    stream = stream_of(seed)
    served = pattern.read(Gathering(stream, newest, pattern.span))
    layout = pattern.layout(LAYOUT)
    for number, case in enumerate(drawn):
        batch = served[str(number)]
        expected = np.stack([case.model(until(stream, end)) for end in newest])
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(batch / scale, expected / scale, rtol=1e-5, atol=1e-5, err_msg=repr(case.expression))
        assert batch.shape == expected.shape
        assert batch.dtype == expected.dtype
        assert layout[str(number)] == Leaf(batch.shape[1:], batch.dtype.name)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(case=cases())
def test_an_expression_reads_as_its_source_and_survives_pickling(case):
    pattern = Pattern({"value": case.expression})
    source = eval(repr(pattern), {"Pattern": Pattern, "column": column, "stack": stack, "concatenate": concatenate})
    for copy in (source, pickle.loads(pickle.dumps(pattern))):
        assert copy == pattern
        assert repr(copy) == repr(pattern)
        values = [each.read(Gathering(stream_of(1), [5, 9], pattern.span))["value"] for each in (copy, pattern)]
        np.testing.assert_array_equal(*values)


def test_reprs():
    r, d = "column('reward')", "column('discount')"
    written = {
        f"({r}[-3:] * {d}[-3:].partial_products(axis=0, exclusive=True)).sum(axis=0)": (
            reward[-3:] * discount[-3:].partial_products(exclusive=True)
        ).sum(axis=0),
        "column('observation', 'arm', 0)[-5::2][0:1, :, ..., None, -1]": column("observation", "arm", 0)[-5::2][
            0:1, :, ..., None, -1
        ],
        f"{r}[-1] - ({r}[-2] - {d}[-1])": reward[-1] - (reward[-2] - discount[-1]),
        f"{r}[-1] - {r}[-2] - {d}[-1]": reward[-1] - reward[-2] - discount[-1],
        f"(1 - {r}[-1]) * {d}[-1] + 0.5": (1 - reward[-1]) * discount[-1] + 0.5,
        f"({r}[-1] + {d}[-1])[()]": (reward[-1] + discount[-1])[()],
        f"stack([{r}[-2], {d}[-4:-1:2].mean()], axis=1)": stack([reward[-2], discount[-4:-1:2].mean()], axis=1),
        f"concatenate([{r}[-2:], {d}[-2:]]).reshape(shape=(2, 2)).transpose(axes=(1, 0))": concatenate(
            [reward[-2:], discount[-2:]]
        )
        .reshape((2, 2))
        .transpose((1, 0)),
    }
    assert [repr(expression) for expression in written.values()] == list(written)
    assert repr(Pattern({"a": reward[-1]})) == "Pattern({'a': column('reward')[-1]})"


def test_the_n_step_return():
    """Sutton & Barto, eq. 7.1: the rewards until the episode terminates, and what the value there is multiplied by."""
    rewards = np.array([1, 10, 100, 1000, 10000], np.float32)
    discounts = np.array([0.5, 0.5, 0, 0.5, 0.5], np.float32)
    pattern = Pattern(
        {
            "reward": (reward[-4:-1] * discount[-4:-1].partial_products(exclusive=True)).sum(axis=0),
            "discount": discount[-4:-1].product(axis=0),
            "successor": reward[-1],
        }
    )
    assert pattern.span == 4
    served = pattern.read(Gathering({"reward": rewards, "discount": discounts}, [3, 4], 4))
    assert served["reward"].tolist() == [1 + 0.5 * 10 + 0.25 * 100, 10 + 0.5 * 100]
    assert served["discount"].tolist() == [0, 0]
    assert served["successor"].tolist() == [1000, 10000]
    assert all(values.dtype == np.float32 for values in served.values())


def test_frames_are_stacked_and_strided():
    stream = {"frame": np.arange(LENGTH)[:, None] * 10 + np.arange(2)}
    frame = column("frame")
    pattern = Pattern({"before": frame[-4:-1], "after": frame[-3:], "every": frame[-5::2][:, 0]})
    assert pattern.span == 5
    served = pattern.read(Gathering(stream, [4, 9], 5))
    assert served["before"].tolist() == [[[10, 11], [20, 21], [30, 31]], [[60, 61], [70, 71], [80, 81]]]
    assert served["after"].tolist() == [[[20, 21], [30, 31], [40, 41]], [[70, 71], [80, 81], [90, 91]]]
    assert served["every"].tolist() == [[0, 20, 40], [50, 70, 90]]


@pytest.mark.parametrize("given", ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"])
def test_dtypes(given):
    """Selecting keeps dtypes; arithmetic is done in floats, of which float32 is the least for integers."""
    steps, pair = column("x")[-3:], stack([column("x")[-1], column("x")[-2]])
    arithmetic = [steps.sum(), steps.mean(), steps.product(axis=0), steps.partial_products(), steps * 2, 0.5 - steps]
    arithmetic += [steps + steps, steps * np.float64(0.5)]
    selecting = [steps, steps.min(), steps.max(axis=0), steps[0], steps.reshape(-1), pair, concatenate([pair, pair])]
    computed = given if "float" in given else "float32"
    for expressions, expected in ((arithmetic, computed), (selecting, given)):
        layout = Pattern(tuple(expressions)).layout({"x": Leaf((2,), given)})
        assert {leaf.dtype for leaf in layout} == {expected}
    with_float32 = Pattern((steps * column("y")[-3:], concatenate([column("y")[-3:], steps])))
    expected = "float64" if given == "float64" else "float32"
    assert {leaf.dtype for leaf in with_float32.layout({"x": Leaf((2,), given), "y": Leaf((2,), "float32")})} == {
        expected
    }


def test_differences_of_frames_do_not_wrap_around_and_masks_are_numbers():
    take = Gathering({"frame": np.array([3, 1], np.uint8), "valid": np.array([True, True])}, [1], 2)
    frame, mask = column("frame"), column("valid")
    served = Pattern(
        (frame[-1] - frame[-2], mask[-1] + mask[-2], 1 - mask[-1], frame[-2:].sum(), frame[-1] + 300)
    ).read(take)
    assert [values.tolist() for values in served] == [[-2], [2], [0], [4], [301]]


@pytest.mark.parametrize("newest", [[4], [4, 7], [5, 6, 7]])
def test_a_lower_rank_broadcasts_within_the_item_and_never_with_the_batch(newest):
    """[N, 3] with [N] would be taken for [3] by numpy if N is 3."""
    rewards = stream_of(0)["reward"]
    served = read({"value": reward[-3:] * reward[-1], "action": action[-3:] - action[-1]}, newest)
    actions = stream_of(0)["action"]
    for item, end in enumerate(newest):
        np.testing.assert_array_equal(served["value"][item], rewards[end - 2 : end + 1] * rewards[end])
        np.testing.assert_array_equal(served["action"][item], actions[end - 2 : end + 1] - actions[end])


def test_operations_on_a_subtree_are_those_on_each_of_its_leaves():
    newest, observation = [5, 8], column("observation")

    def outputs(of: Callable[..., Any]) -> Any:
        return (
            of()[-3:],
            of()[-3:].mean(axis=0),
            stack([of()[-1], of()[-2]]),
            (of()[-2:] - of()[-4:-2]) * 0.5,
            of()[-2:][0],
        )

    parts = [("camera",), ("arm", 0), ("arm", 1)]
    expected = [read(outputs(lambda path=path: column("observation", *path)), newest) for path in parts]
    for served, *leaves in zip(read(outputs(lambda: observation), newest), *expected, strict=True):
        assert list(served) == ["camera", "arm"]
        for values, leaf in zip((served["camera"], *served["arm"]), leaves, strict=True):
            np.testing.assert_array_equal(values, leaf)
            assert values.dtype == leaf.dtype
    layout = Pattern({"observation": observation[-2:], "steps": column()[-1]}).layout(LAYOUT)
    assert layout["observation"] == map_tree(lambda leaf: Leaf((2, *leaf.shape), leaf.dtype), LAYOUT["observation"])
    assert layout["steps"] == LAYOUT


class Pair(NamedTuple):
    old: Any
    new: Any


def test_outputs_are_served_in_the_tree_in_which_they_were_named():
    outputs = Pair(reward[-2], {"nested": (reward[-1], {"deep": action[-1]})})
    served = read(outputs, [3, 7])
    stream = stream_of(0)
    assert isinstance(served, Pair)
    assert served.old.tolist() == stream["reward"][[2, 6]].tolist()
    assert served.new["nested"][0].tolist() == stream["reward"][[3, 7]].tolist()
    assert served.new["nested"][1]["deep"].tolist() == stream["action"][[3, 7]].tolist()
    assert Pattern(outputs).layout(LAYOUT).new["nested"][1]["deep"] == Leaf((3,), "int32")


def test_steps_are_gathered_once_however_often_they_are_used_and_no_more_of_them_than_needed():
    pattern = Pattern(
        {
            "sum": reward[-3:].sum() + reward[-3:].mean(),
            "again": column("reward")[-3:] * reward[-3:],
            "strided": reward[-5:-1:3],
            "single": camera[-2],
        }
    )
    take = Gathering(stream_of(0), [7], pattern.span)
    pattern.read(take)
    assert sorted(take.calls) == [(("observation", "camera"), 3, 4), (("reward",), 0, 4), (("reward",), 2, 5)]
    pattern.read(take)
    assert len(take.calls) == 6


def test_an_expression_used_twice_is_computed_once(monkeypatch):
    computed = []
    mean = (reward[-3:] + 1).mean()
    compute = type(mean).compute
    monkeypatch.setattr(type(mean), "compute", lambda self, *arrays: computed.append(self) or compute(self, *arrays))
    read({"a": mean * 2, "b": (reward[-3:] + 1).mean() - mean}, [5])
    assert computed == [mean]


def test_expressions_are_equal_if_they_read_the_same():
    assert reward[-3:].sum() == column("reward")[slice(-3, None, 1)].sum(axis=None)
    assert len({reward[-1], column("reward")[np.int64(-1)], reward[-1:], reward[-1] * 2, reward[-1] * 0.5}) == 4
    assert reward[-1] != "column('reward')[-1]"
    assert column("a", 0)[-1] != column("a", "0")[-1]


@pytest.mark.parametrize("reach", [3, 5])
def test_items_of_a_store_are_read_from_their_newest_step(reach):
    layout = {"number": Leaf((), "int64"), "pair": (Leaf((2,), "float32"), Leaf((), "bool"))}
    store = Store(layout, [TableSettings("items", capacity=50)], streams=2, reach=5, chunk=4)
    pattern = Pattern(
        {"numbers": column("number")[-3:], "pair": column("pair")[-1], "mean": column("pair", 0)[-2:].mean()}
    )
    for step in range(11):
        number = step + 100 * np.arange(2)
        pair = (np.stack([number, number + 0.5], axis=1).astype(np.float32), number % 2 == 0)
        store.extend({"number": number, "pair": pair})
        if step >= reach - 1:
            store.insert("items", reach)
    served = store.sample("items", 40, pattern).items
    newest = served["numbers"][:, -1]
    assert set(newest % 100) <= set(range(reach - 1, 11))
    assert len(set(newest)) > 10
    np.testing.assert_array_equal(served["numbers"], newest[:, None] + [-2, -1, 0])
    np.testing.assert_array_equal(served["pair"][0], np.stack([newest, newest + 0.5], axis=1))
    np.testing.assert_array_equal(served["pair"][1], newest % 2 == 0)
    np.testing.assert_array_equal(served["mean"], newest - 0.25)


def test_items_that_a_pattern_cannot_be_served_from_are_refused():
    store = Store({"x": Leaf((), "int64")}, [TableSettings("items", capacity=9)], streams=1, reach=3)
    store.extend({"x": np.arange(4)[:, None]}, length=4)
    store.insert("items", 2)
    with pytest.raises(WeftError, match=r"of 3 steps is served .* these have 2 to 2 steps"):
        store.sample("items", 5, Pattern({"x": column("x")[-3:]}))
    store.insert("items", 3)
    with pytest.raises(WeftError, match=r"equally long .* these have 2 to 3 steps"):
        store.sample("items", 60, Pattern({"x": column("x")[-2:]}))
