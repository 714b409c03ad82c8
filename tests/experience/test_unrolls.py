"""Unrolls hold exactly the steps of the stream, and what learning needs to bootstrap from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import NUMBER, SCRIPTS, Episode, Place, Stream, action_at, n_step, place_of, reward_of, rows, unbatch

from weft.errors import WeftError
from weft.experience.kinds import Unrolls
from weft.experience.trajectories import continues, cut
from weft.experience.unrolls import UnrollRecorder
from weft.types import Trajectory

FORMS = pytest.mark.parametrize("same_step", [False, True], ids=["next_step", "same_step"])
PROPERTY = settings(deadline=None, max_examples=40, derandomize=True)


def unrolls(stream: Stream, length: int, count: int, return_discount: float | None = None) -> list[Trajectory]:
    """Consecutive unrolls of a stream, copied because the recorder uses its arrays again."""
    recorder = UnrollRecorder(Unrolls(length=length, return_discount=return_discount), NUMBER)
    copies, recorded = [], list(rows(stream, length * count))
    for begin in range(0, length * count, length):
        for row in recorded[begin : begin + length]:
            recorder.record(row.timestep, row.action, row.extras, row.following)
        trajectory = recorder.finish(recorded[begin + length - 1].following, recorded[begin].memory)
        copies.append(_copied(trajectory))
    return copies


def _copied(tree):
    if isinstance(tree, dict):
        return {name: _copied(part) for name, part in tree.items()}
    if isinstance(tree, Trajectory):
        return Trajectory(*(_copied(part) for part in tree))
    if isinstance(tree, tuple):
        return tuple(_copied(part) for part in tree)
    return None if tree is None else tree.copy()


def at(tree, t: int, index: int) -> Place:
    return place_of(unbatch(unbatch(tree, t), index))


@FORMS
@PROPERTY
@given(scripts=SCRIPTS, length=st.integers(1, 6), nested=st.booleans())
def test_every_real_step_once_and_with_its_true_successor(same_step, scripts, length, nested):
    stream = Stream(scripts, same_step, nested)
    learned: list[list[Place]] = [[] for _ in range(NUMBER)]
    for number, unroll in enumerate(unrolls(stream, length, 4)):
        assert unroll.memory[0] == number * length
        ends, goes_on = cut(unroll), np.asarray(continues(unroll))
        for t in range(length):
            for index in range(NUMBER):
                place = at(unroll.observation, t, index)
                assert unroll.first[t, index] == (place.step == 0)
                if not unroll.valid[t, index]:
                    assert stream.ends(place) and not goes_on[t, index]
                    continue
                expected = n_step(stream, place, 1, 1.0)
                assert unroll.action[t, index] == action_at(place)
                assert unroll.extras["log_prob"][t, index] == action_at(place) / 8
                assert unroll.reward[t, index] == expected.reward
                assert unroll.discount[t, index] == expected.discount
                successor = at(unroll.final, t, index) if ends[t, index] else at(unroll.observation, t + 1, index)
                assert successor == expected.successor
                if t + 1 < length:
                    assert goes_on[t, index] == (not stream.ends(expected.successor))
                learned[index].append(place)
    for index, places in enumerate(learned):
        played = [
            Place(index, episode, step)
            for episode in range(4 * length)
            for step in range(stream.episode(Place(index, episode, 0)).length)
        ]
        assert places == played[: len(places)]
        assert len(places) >= 2 * length or not same_step


@FORMS
@PROPERTY
@given(scripts=SCRIPTS, length=st.integers(1, 6))
def test_running_return_goes_on_over_unrolls_and_begins_anew_with_episodes(same_step, scripts, length):
    stream = Stream(scripts, same_step)
    for unroll in unrolls(stream, length, 4, return_discount=0.5):
        for t, index in np.argwhere(unroll.valid):
            place = at(unroll.observation, t, index)
            expected = 0.0
            for step in range(1, place.step + 2):
                expected = 0.5 * expected + reward_of(place._replace(step=step))
            np.testing.assert_allclose(unroll.extras["running_return"][t, index], expected, rtol=1e-6)


def test_running_return_is_recorded_only_where_it_is_asked_for():
    (unroll,) = unrolls(Stream([[Episode(3, True)]] * NUMBER, False), 4, 1)
    assert set(unroll.extras) == {"log_prob"}


@FORMS
def test_the_arrays_are_used_again(same_step):
    recorder = UnrollRecorder(Unrolls(length=2), NUMBER)
    finished = []
    for row in rows(Stream([[Episode(3, True)]] * NUMBER, same_step), 4):
        recorder.record(row.timestep, row.action, row.extras, row.following)
        if len(finished) < 2 and row.memory[0, 0] % 2:
            finished.append(recorder.finish(row.following, row.memory))
    assert finished[0].observation is finished[1].observation
    assert (finished[0].final is None) == (not same_step)


def test_minibatches_have_to_divide_the_batch():
    Unrolls(length=10, minibatches=4).check(2)
    with pytest.raises(WeftError, match="30 steps of a batch cannot be split into 4 minibatches"):
        Unrolls(length=10, minibatches=4).check(3)
    with pytest.raises(WeftError, match="2 environments cannot be split into 4 minibatches"):
        Unrolls(length=10, minibatches=4, whole=True).check(2)
