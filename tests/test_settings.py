"""Settings from nested values: what is given, what is converted, and what is refused in which words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import pytest

from weft.algorithms import ALGORITHMS, dqn, find, ppo, settings_class
from weft.errors import WeftError
from weft.networks.network import NetworkSettings
from weft.settings import as_tree, check, meanings, positive, resolve, within


@dataclass(frozen=True)
class Inner:
    """A part."""

    size: int = positive(3)
    """How
    large."""
    kind: Literal["round", "square"] | None = None
    """Which."""


@dataclass(frozen=True)
class Outer:
    """A whole."""

    rate: float = positive(0.5)
    """How fast."""
    share: float = within(0.25, 0, 1)
    """How much."""
    floor: int = within(0, -2)
    """From where."""
    limit: float | None = positive(2.0)
    """How far."""
    sizes: tuple[int, ...] = (1, 2)
    """Of what."""
    pair: tuple[int, str] = (1, "a")
    """Two of them."""
    on: bool = True
    """Whether."""
    options: dict[str, Any] = field(default_factory=dict)
    """Anything."""
    inner: Inner = field(default_factory=lambda: Inner(size=7, kind="round"))
    """The part."""


def test_defaults_and_what_is_given():
    assert resolve(Outer, {}, "outer") == Outer()
    given = resolve(Outer, {"rate": 2, "sizes": [4, 5, 6], "pair": [2, "b"], "inner": {"size": 9}}, "outer")
    assert given.rate == 2.0 and isinstance(given.rate, float)
    assert given.sizes == (4, 5, 6) and given.pair == (2, "b")
    assert given.inner.size == 9


def test_what_is_not_given_of_a_part_is_as_its_whole_declares_it():
    assert resolve(Outer, {"inner": {"size": 9}}, "outer").inner == Inner(size=9, kind="round")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rat": 1}, "There is no setting of outer named 'rat': did you mean rate?"),
        ({"inner": {"sizee": 1}}, "There is no setting of outer.inner named 'sizee': did you mean size?"),
        ({"rate": 0}, "outer.rate is 0.0, but must be greater than 0."),
        ({"rate": float("nan")}, "outer.rate is nan, but must be greater than 0."),
        ({"limit": -1.0}, "outer.limit is -1.0, but must be greater than 0."),
        ({"share": 1.5}, "outer.share is 1.5, but must be from 0 to 1."),
        ({"floor": -3}, "outer.floor is -3, but must be at least -2."),
        ({"rate": "fast"}, "outer.rate is 'fast', but must be of type float."),
        ({"rate": True}, "outer.rate is True, but must be of type float."),
        ({"floor": 1.5}, "outer.floor is 1.5, but must be of type int."),
        ({"floor": True}, "outer.floor is True, but must be of type int."),
        ({"on": 1}, "outer.on is 1, but must be of type bool."),
        ({"sizes": 3}, "outer.sizes is 3, but must be a list."),
        ({"sizes": [1, "x"]}, "outer.sizes is 'x', but must be of type int."),
        ({"pair": [1]}, "outer.pair is [1], but must be a list of 2."),
        ({"inner": {"size": 0}}, "outer.inner.size is 0, but must be greater than 0."),
        ({"inner": {"kind": "squre"}}, "outer.inner.kind is 'squre': did you mean 'square'?"),
        ({"inner": {"kind": 7}}, "outer.inner.kind is 7: it can be 'round', 'square'."),
        ({"inner": 3}, "outer.inner is 3, but must be of type Inner."),
    ],
)
def test_refusals(values, message):
    with pytest.raises(WeftError) as error:
        resolve(Outer, values, "outer")
    assert str(error.value) == message


def test_nothing_is_a_value_where_it_is_declared():
    given = resolve(Outer, {"limit": None, "inner": {"kind": None}}, "outer")
    assert given.limit is None and given.inner.kind is None
    with pytest.raises(WeftError, match=r"outer\.rate is None, but must be of type float"):
        resolve(Outer, {"rate": None}, "outer")


def test_a_setting_without_default_has_to_be_given():
    @dataclass(frozen=True)
    class Own:
        size: int

    assert resolve(Own, {"size": 2}, "own").size == 2
    with pytest.raises(WeftError, match=r"own\.size has no default, so it must be given"):
        resolve(Own, {}, "own")


def test_settings_that_were_built_by_hand_are_checked_too():
    assert check(Outer(rate=1), "outer").rate == 1.0
    with pytest.raises(WeftError, match="greater than 0"):
        check(Outer(inner=Inner(size=-1)), "outer")


def test_meanings_in_one_line():
    assert meanings(Inner) == {"size": "How large.", "kind": "Which."}


@dataclass(frozen=True)
class Further(Inner):
    kind: Literal["round", "square"] | None = "round"
    """Which of these."""
    more: int = 1
    """How many."""


def test_settings_that_build_on_others_keep_their_meanings_and_can_change_them():
    assert meanings(Further) == {"size": "How large.", "kind": "Which of these.", "more": "How many."}


@pytest.mark.parametrize("config", [Outer(limit=None), Outer(inner=Inner()), ppo.Config(max_gradient_norm=None)])
def test_a_tree_of_settings_gives_them_back(config):
    assert resolve(type(config), as_tree(config), "config") == config


def test_a_tree_is_plain_data():
    assert json.loads(json.dumps(as_tree(ppo.Config())))["network"]["hidden"] == [64, 64]


@pytest.mark.parametrize("kind", [*map(settings_class, map(find, ALGORITHMS)), NetworkSettings])
def test_every_setting_of_ours_says_what_it_means_and_has_a_possible_default(kind):
    assert list(meanings(kind)) == [setting.name for setting in fields(kind)]
    assert check(kind(), "ours") == kind()
    assert kind.__doc__


def test_recurrent_is_none_by_default_and_can_be_gru_or_lstm():
    assert resolve(ppo.Config, {"network": {"recurrent": "lstm"}}, "ppo").network.recurrent == "lstm"
    assert dqn.Config().network.recurrent is None
    with pytest.raises(WeftError, match=r"ppo\.network\.recurrent is 'lsmt': did you mean 'lstm'\?"):
        resolve(ppo.Config, {"network": {"recurrent": "lsmt"}}, "ppo")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_are_found_by_name_and_by_place(name):
    factory = find(name)
    assert find(ALGORITHMS[name]) is factory and find(factory) is factory
    assert factory.__name__ == name and settings_class(factory).__name__ == "Config"


def test_what_is_no_algorithm_is_refused():
    with pytest.raises(WeftError, match="There is no algorithm named 'poo': did you mean ppo"):
        find("poo")
    with pytest.raises(WeftError, match="len is not an algorithm"):
        settings_class(len)
