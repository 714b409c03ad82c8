"""The replay serves exactly what a plain reference derives from the raw episodes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import (
    NUMBER,
    SCRIPTS,
    SEEDS,
    Episode,
    Place,
    Row,
    Stream,
    action_at,
    assert_equal,
    n_step,
    place_of,
    reward_of,
    rows,
    unbatch,
)

from weft.errors import WeftError
from weft.experience.kinds import Replay
from weft.experience.replay import ReplayBuffer

DISCOUNT = 0.5
FORMS = pytest.mark.parametrize("same_step", [False, True], ids=["next_step", "same_step"])
PROPERTY = settings(deadline=None, max_examples=60, derandomize=True)


def buffer_of(capacity: int = 40, seed: int = 0, **experience: Any) -> ReplayBuffer:
    experience = {"batch": 64, "warmup": 1, "discount": DISCOUNT, **experience}
    return ReplayBuffer(Replay(capacity=capacity, **experience), NUMBER, np.random.SeedSequence(seed))


def fill(buffer: ReplayBuffer, stream: Stream, count: int) -> list[Row]:
    recorded = list(rows(stream, count))
    for row in recorded:
        buffer.add(*row)
    return recorded


def drawable(recorded: list[Row], buffer: ReplayBuffer, span: int) -> set[Place]:
    """Where real actions were taken, in the rows that are held and have ``span`` rows after them."""
    held = recorded[-buffer.rows :]
    return {
        place_of(unbatch(row.timestep.observation, index))
        for row in held[: len(held) - span]
        for index in range(NUMBER)
        if not row.timestep.last[index]
    }


@FORMS
@PROPERTY
@given(
    scripts=SCRIPTS,
    n=st.integers(1, 5),
    count=st.integers(8, 40),
    rows_kept=st.integers(8, 20),
    nested=st.booleans(),
    seed=SEEDS,
)
def test_transitions(same_step, scripts, n, count, rows_kept, nested, seed):
    stream = Stream(scripts, same_step, nested)
    buffer = buffer_of(rows_kept * NUMBER, seed, n_step=n, batch=150)
    recorded = fill(buffer, stream, count)
    batch, seen = buffer.sample(), set()
    for index in range(150):
        place = place_of(unbatch(batch.observation, index))
        expected = n_step(stream, place, n, DISCOUNT)
        assert batch.action[index] == action_at(place)
        assert place_of(unbatch(batch.successor, index)) == expected.successor
        assert batch.discount[index] == expected.discount
        np.testing.assert_allclose(batch.reward[index], expected.reward, rtol=1e-6)
        seen.add(place)
    assert seen <= drawable(recorded, buffer, n)


@FORMS
@PROPERTY
@given(
    scripts=SCRIPTS,
    length=st.integers(1, 5),
    count=st.integers(8, 40),
    rows_kept=st.integers(8, 20),
    nested=st.booleans(),
    seed=SEEDS,
)
def test_sequences(same_step, scripts, length, count, rows_kept, nested, seed):
    stream = Stream(scripts, same_step, nested)
    buffer = buffer_of(rows_kept * NUMBER, seed, sequence=length, batch=20)
    recorded = fill(buffer, stream, count)
    batch = buffer.sample()
    for column in range(20):
        beginning = int(batch.memory[column, 0])
        assert max(0, count - buffer.rows) <= beginning < count - length
        environment = place_of(unbatch(unbatch(batch.observation, 0), column)).environment
        for t in range(length):
            row = recorded[beginning + t]
            place = place_of(unbatch(unbatch(batch.observation, t), column))
            assert place == place_of(unbatch(row.timestep.observation, environment))
            assert batch.first[t, column] == (place.step == 0)
            assert batch.valid[t, column] == (same_step or not stream.ends(place))
            if not batch.valid[t, column]:
                continue
            expected = n_step(stream, place, 1, 1.0)
            assert batch.action[t, column] == action_at(place)
            assert batch.extras["log_prob"][t, column] == action_at(place) / 8
            assert batch.reward[t, column] == expected.reward
            assert batch.discount[t, column] == expected.discount
            cut = batch.first[t + 1, column]
            following = unbatch(batch.final, t) if cut else unbatch(batch.observation, t + 1)
            assert place_of(unbatch(following, column)) == expected.successor
        assert (batch.final is None) == (not same_step)


@FORMS
@pytest.mark.parametrize("n", [1, 3])
def test_truncation_bootstraps_from_the_true_last_observation_and_termination_from_nothing(same_step, n):
    stream = Stream([[Episode(2, terminated=False)], [Episode(2, terminated=True)]], same_step)
    buffer = buffer_of(n_step=n)
    fill(buffer, stream, 12)
    batch = buffer.sample()
    for index, observation in enumerate(batch.observation):
        place = place_of(observation)
        last = place._replace(step=2)
        if n == 1 and place.step == 0:
            continue
        assert place_of(batch.successor[index]) == last
        assert batch.discount[index] == (0 if place.environment else DISCOUNT ** (2 - place.step))
        expected = reward_of(last) if place.step else reward_of(place._replace(step=1)) + DISCOUNT * reward_of(last)
        assert batch.reward[index] == expected


@FORMS
def test_everything_drawable_is_drawn_equally_often(same_step):
    stream = Stream([[Episode(1, True), Episode(3, False)], [Episode(2, True)]], same_step)
    buffer = buffer_of(20, batch=4000)
    recorded = fill(buffer, stream, 27)
    places = [place_of(observation) for observation in buffer.sample().observation]
    expected = drawable(recorded, buffer, 1)
    counts = np.array([places.count(place) for place in expected])
    assert set(places) == expected
    mean = 4000 / len(expected)
    assert (abs(counts - mean) < 5 * np.sqrt(mean)).all()


@FORMS
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("count", [9, 25])
@pytest.mark.parametrize("experience", [{"n_step": 2}, {"sequence": 3}], ids=["transitions", "sequences"])
def test_restored_it_serves_exactly_the_same_next_samples(same_step, nested, count, experience):
    scripts = [[Episode(3, True), Episode(1, False)], [Episode(2, False)]]
    recorded = list(rows(Stream(scripts, same_step, nested), count + 10))
    original, restored = buffer_of(24, **experience), buffer_of(24, seed=99, **experience)
    for row in recorded[:count]:
        original.add(*row)
    original.sample()
    restored.restore(pickle.loads(pickle.dumps(original.save())))
    assert restored.head == original.head and len(restored) == len(original)
    for row in recorded[count:]:
        for buffer in (original, restored):
            buffer.add(*row)
        assert_equal(original.sample(), restored.sample())


def test_an_empty_replay_is_saved_too():
    original, restored = buffer_of(), buffer_of(seed=1)
    restored.restore(pickle.loads(pickle.dumps(original.save())))
    assert len(restored) == 0 and not restored.ready
    for buffer in (original, restored):
        fill(buffer, Stream([[Episode(3, True)]] * NUMBER, False), 10)
    assert_equal(original.sample(), restored.sample())


def test_ready_once_warm_and_once_there_is_something_to_serve():
    warm, short = buffer_of(warmup=12), buffer_of(warmup=1, n_step=2)
    ready = []
    for row in rows(Stream([[Episode(4, True)]] * NUMBER, False), 7):
        warm.add(*row)
        short.add(*row)
        ready.append((warm.ready, short.ready))
    assert ready == [(count >= 6, count >= 5) for count in range(1, 8)]


@FORMS
@pytest.mark.parametrize("count", [6, 25])
@pytest.mark.parametrize("nested", [False, True])
def test_where_episodes_begin_anew_after_restoring_the_old_ones_were_cut_there(same_step, count, nested):
    """The last step recorded led nowhere that anybody saw: n-step returns bootstrap from where it was taken."""
    scripts = [[Episode(4, True)], [Episode(3, False), Episode(2, True)]]
    before, restored = buffer_of(40, n_step=2), buffer_of(40, n_step=2, batch=400)
    left = fill(before, Stream(scripts, same_step, nested), count)[-1].timestep
    restored.restore(pickle.loads(pickle.dumps(before.save())), episodes_restarted=True)
    anew = Stream(scripts, same_step, nested)
    anew.places = [place._replace(episode=100, step=0) for place in anew.places]
    fill(restored, anew, 10)
    batch, leading = restored.sample(), 0
    for index in range(400):
        place = place_of(unbatch(batch.observation, index))
        abandoned = place_of(unbatch(left.observation, place.environment))
        assert place != abandoned
        expected = n_step(anew, place, 2, DISCOUNT)
        if place.episode == abandoned.episode and place.step == abandoned.step - 1:
            expected = n_step(anew, place, 1, DISCOUNT)
            leading += 1
        assert place_of(unbatch(batch.successor, index)) == expected.successor
        assert batch.discount[index] == expected.discount
        assert batch.reward[index] == expected.reward
    assert leading


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("experience", [{"n_step": 1}, {"n_step": 4}, {"sequence": 3}])
def test_the_smallest_replay_allowed_always_has_something_to_serve(length, experience):
    """Even where all episodes end at once, so that a whole row is filler."""
    span = experience.get("sequence") or experience["n_step"]
    capacity = next(
        capacity for capacity in range(1, 100) if _allowed(Replay(capacity=capacity, batch=4, warmup=1, **experience))
    )
    assert capacity == NUMBER * (span + 3)
    buffer = buffer_of(capacity, batch=4, **experience)
    for row in rows(Stream([[Episode(length, False)]] * NUMBER, False), 12):
        buffer.add(*row)
        if buffer.ready:
            buffer.sample()


def _allowed(experience: Replay) -> bool:
    try:
        experience.check(NUMBER)
    except WeftError:
        return False
    return True


def test_a_replay_that_cannot_hold_its_warmup_is_refused():
    Replay(capacity=50, batch=4, warmup=50).check(NUMBER)
    for capacity in (49, 51):
        with pytest.raises(WeftError, match=r"warm-up of 50 .* at least 52"):
            Replay(capacity=capacity, batch=4, warmup=50).check(NUMBER * 2)
