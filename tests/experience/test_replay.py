"""The replay serves exactly what a plain reference derives from the raw episodes."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import jax
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
from weft.experience.batches import Transitions
from weft.experience.kinds import Replay
from weft.experience.replay import MEMORY, ReplayBuffer
from weft.experience.unrolls import UnrollRecorder
from weft.types import Trajectory

DISCOUNT = 0.5
FORMS = pytest.mark.parametrize("same_step", [False, True], ids=["next_step", "same_step"])
PROPERTY = settings(deadline=None, max_examples=60, derandomize=True)


def buffer_of(capacity: int = 40, seed: int = 0, at_once: int = 1, **experience: Any) -> ReplayBuffer:
    experience = {"batch": 64, "warmup": 1, "discount": DISCOUNT, **experience}
    seeds = np.random.SeedSequence(seed)
    return ReplayBuffer(Replay(capacity=capacity, **experience), NUMBER, seeds, at_once=at_once)


def fill(buffer: ReplayBuffer, stream: Stream, count: int) -> list[Row]:
    recorded = list(rows(stream, count))
    for row in recorded:
        buffer.add(*row)
    return recorded


def draw(buffer: ReplayBuffer) -> Any:
    return buffer.sample()[0].data


class Step(NamedTuple):
    """What a stream has at one place."""

    place: Place
    row: int | None
    """of what was recorded; None for the filler that stands for a reset within the step"""
    real: bool


def streams_of(
    recorded: list[Row], span: int, period: int = 1, real: bool = True
) -> tuple[list[list[Step]], list[tuple[int, int]]]:
    """The steps of each stream, and the items (stream, begin) in the order in which they are complete."""
    streams: list[list[Step]] = [[] for _ in range(NUMBER)]
    items: list[tuple[int, int]] = []

    def write(index: int, step: Step) -> None:
        streams[index].append(step)
        begin = len(streams[index]) - span
        if begin >= 0 and begin % period == 0 and (streams[index][begin].real or not real):
            items.append((index, begin))

    for number, row in enumerate(recorded):
        for index in range(NUMBER):
            observation = unbatch(row.timestep.observation, index)
            write(index, Step(place_of(observation), number, not row.timestep.last[index]))
        for index in range(NUMBER):
            if row.following.final is not None and row.following.first[index]:
                write(index, Step(place_of(unbatch(row.following.final, index)), None, False))
    return streams, items


def drawable(recorded: list[Row], capacity: int, span: int) -> set[Place]:
    """Where real actions were taken, in the newest items."""
    streams, items = streams_of(recorded, span + 1)
    return {streams[index][begin].place for index, begin in items[-capacity:]}


@FORMS
@PROPERTY
@given(
    scripts=SCRIPTS,
    n=st.integers(1, 5),
    count=st.integers(8, 60),
    capacity=st.integers(1, 40),
    nested=st.booleans(),
    seed=SEEDS,
)
def test_transitions(same_step, scripts, n, count, capacity, nested, seed):
    stream = Stream(scripts, same_step, nested)
    buffer = buffer_of(capacity, seed, n_step=n, batch=150)
    recorded = fill(buffer, stream, count)
    expected_places = drawable(recorded, capacity, n)
    assert len(buffer) == min(capacity, len(streams_of(recorded, n + 1)[1]))
    if not expected_places:
        assert not buffer.ready
        return
    batch, seen = draw(buffer), set()
    for index in range(150):
        place = place_of(unbatch(batch.observation, index))
        check_transition(stream, batch, index, place, n)
        seen.add(place)
    assert seen <= expected_places


def check_transition(stream: Stream, batch: Transitions, index: int, place: Place, n: int) -> None:
    expected = n_step(stream, place, n, DISCOUNT)
    assert batch.action[index] == action_at(place)
    assert place_of(unbatch(batch.successor, index)) == expected.successor
    assert batch.discount[index] == expected.discount
    np.testing.assert_allclose(batch.reward[index], expected.reward, rtol=1e-6)


@FORMS
@PROPERTY
@given(
    scripts=SCRIPTS,
    length=st.integers(1, 5),
    overlap=st.integers(0, 4),
    count=st.integers(12, 60),
    items_kept=st.integers(1, 20),
    nested=st.booleans(),
    seed=SEEDS,
)
def test_sequences(same_step, scripts, length, overlap, count, items_kept, nested, seed):
    stream, period = Stream(scripts, same_step, nested), length - min(overlap, length - 1)
    buffer = buffer_of(items_kept * period, seed, sequence=length, overlap=length - period, batch=20)
    recorded = fill(buffer, stream, count)
    streams, items = streams_of(recorded, length + 1, period, real=False)
    assert len(buffer) == min(items_kept, len(items))
    held = items[-items_kept:]
    batch = draw(buffer)
    beginnings = {(index, streams[index][begin].place, streams[index][begin].real): begin for index, begin in held}
    for column in range(20):
        first = place_of(unbatch(unbatch(batch.observation, 0), column))
        begin = beginnings[first.environment, first, bool(batch.valid[0, column])]
        check_sequence(streams[first.environment][begin : begin + length + 1], recorded, batch, column)
    assert batch.final is None


def check_sequence(steps: list[Step], recorded: list[Row], batch: Trajectory, column: int) -> None:
    if steps[0].row is not None:
        assert batch.memory[column, 0] == steps[0].row
    for t, step in enumerate(steps):
        assert place_of(unbatch(unbatch(batch.observation, t), column)) == step.place
        assert batch.first[t, column] == (step.place.step == 0)
        if t == len(steps) - 1:
            return
        assert batch.valid[t, column] == step.real
        if step.real:
            assert step.row is not None
            row, environment = recorded[step.row], step.place.environment
            assert batch.action[t, column] == action_at(step.place)
            assert batch.extras["log_prob"][t, column] == action_at(step.place) / 8
            assert batch.reward[t, column] == row.following.reward[environment]
            assert batch.discount[t, column] == row.following.discount[environment]


@PROPERTY
@given(
    scripts=SCRIPTS,
    at_once=st.integers(2, 70),
    count=st.integers(1, 3),
    experience=st.sampled_from([{"n_step": 1}, {"n_step": 3}, {"sequence": 4, "overlap": 2}]),
    nested=st.booleans(),
)
def test_steps_that_are_held_back_are_stored_as_if_they_had_not_been(scripts, at_once, count, experience, nested):
    plain, together = buffer_of(**experience), buffer_of(at_once=at_once, **experience)
    recorded = fill(plain, Stream(scripts, False, nested), at_once * count)
    for number, row in enumerate(recorded):
        assert together.recorded == number * NUMBER
        together.add(*row)
    assert len(together) == len(plain)
    assert contents(together) == contents(plain)


def contents(buffer: ReplayBuffer) -> list[bytes]:
    """Every item held, in an order of its own."""
    table = buffer.store.table("replay")
    drawn = table._drawn(table.keys() % table.settings.capacity, np.zeros(table.size))
    if not table.size:
        return []
    items = buffer.read(drawn.begins)
    axis = 1 if isinstance(items, Trajectory) else 0
    leaves = [
        np.moveaxis(leaf, axis, 0) for leaf in jax.tree.leaves(items._replace(**({"memory": ()} if axis else {})))
    ]
    return sorted(b"".join(leaf[index].tobytes() for leaf in leaves) for index in range(table.size))


@FORMS
@PROPERTY
@given(scripts=SCRIPTS, n=st.integers(1, 4), length=st.integers(1, 6), nested=st.booleans())
def test_unrolls_are_stored_as_their_steps_are(same_step, scripts, n, length, nested):
    """And an actor's buffer says of how many items, in which order, priorities are to be told."""
    one_by_one, whole, actor = (buffer_of(200, n_step=n) for _ in range(3))
    stream = Stream(scripts, same_step, nested)
    recorder, taken = UnrollRecorder(_unrolls(length), NUMBER), 0.0
    recorded = list(rows(stream, 5 * length))
    for begin in range(0, 5 * length, length):
        piece = recorded[begin : begin + length]
        for row in piece:
            one_by_one.add(*row)
            recorder.record(row.timestep, row.action, {**row.extras, MEMORY: row.memory}, row.following)
        unroll, full = recorder.finish(piece[-1].following, ()), np.full(NUMBER, length)
        begins = actor.add_unroll(unroll, full)
        priorities = taken + np.arange(len(begins))
        np.testing.assert_array_equal(whole.add_unroll(unroll, full, priorities), begins)
        taken += len(begins)
        if len(begins):
            read = actor.read(begins)
            streams, items = streams_of(recorded[: begin + length], n + 1)
            places = [streams[index][first].place for index, first in items[-len(begins) :]]
            assert [place_of(unbatch(read.observation, index)) for index in range(len(begins))] == places
    assert len(whole) == len(one_by_one) == taken
    if taken:
        assert_equal(draw(whole), draw(one_by_one))


def _unrolls(length: int) -> Any:
    from weft.experience.kinds import Unrolls

    return Unrolls(length)


def test_what_was_learned_from_most_is_drawn_most_and_weighs_least():
    buffer = buffer_of(100, batch=4000, priority_exponent=0.5)
    fill(buffer, Stream([[Episode(4, True)]] * NUMBER, False), 30)
    keys = np.unique(buffer.sample()[1])
    priorities = np.arange(len(keys)) ** 2.0
    buffer.update(keys, priorities)
    batch, drawn = buffer.sample(importance=0.5)
    counts = np.array([(drawn == key).sum() for key in keys])
    expected = 4000 * priorities**0.5 / (priorities**0.5).sum()
    assert (abs(counts - expected) <= 5 * np.sqrt(expected)).all()
    weights = np.array([batch.weight[drawn == key][0] for key in keys[1:]])
    np.testing.assert_allclose(weights, (priorities[1:] ** 0.5) ** -0.5, rtol=1e-5)


def test_without_priorities_there_are_no_weights():
    buffer = buffer_of()
    fill(buffer, Stream([[Episode(4, True)]] * NUMBER, False), 30)
    assert buffer.sample(importance=0.7)[0].weight is None


def test_frames_cost_their_memory_once():
    """An n-step transition has two of them, its neighbours the same."""
    frame = np.zeros((NUMBER, 84, 84, 1), np.uint8)
    buffer = ReplayBuffer(Replay(capacity=2000, batch=1, warmup=1, n_step=3), NUMBER, np.random.SeedSequence(0))
    row = next(rows(Stream([[Episode(9, True)]] * NUMBER, False), 1))
    step = row.timestep._replace(observation=frame)
    for _ in range(2200):
        buffer.add(step, row.action, {}, (), row.following)
    assert len(buffer) == 2000
    assert buffer.store.chunks.nbytes / len(buffer) < 1.1 * 84 * 84


@FORMS
@pytest.mark.parametrize("n", [1, 3])
def test_truncation_bootstraps_from_the_true_last_observation_and_termination_from_nothing(same_step, n):
    stream = Stream([[Episode(2, terminated=False)], [Episode(2, terminated=True)]], same_step)
    buffer = buffer_of(n_step=n)
    fill(buffer, stream, 12)
    batch = draw(buffer)
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
    places = [place_of(observation) for observation in draw(buffer).observation]
    expected = drawable(recorded, 20, 1)
    counts = np.array([places.count(place) for place in expected])
    assert set(places) == expected
    mean = 4000 / len(expected)
    assert (abs(counts - mean) < 5 * np.sqrt(mean)).all()


@FORMS
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("count", [9, 25])
@pytest.mark.parametrize(
    "experience",
    [{"n_step": 2}, {"sequence": 3}, {"n_step": 2, "at_once": 4}, {"sequence": 3, "overlap": 2, "at_once": 6}],
    ids=["transitions", "sequences", "transitions held back", "sequences held back"],
)
def test_restored_it_serves_exactly_the_same_next_samples(same_step, nested, count, experience):
    scripts = [[Episode(3, True), Episode(1, False)], [Episode(2, False)]]
    recorded = list(rows(Stream(scripts, same_step, nested), count + 10))
    original, restored = buffer_of(24, **experience), buffer_of(24, seed=99, **experience)
    for row in recorded[:count]:
        original.add(*row)
    draw(original)
    restored.restore(pickle.loads(pickle.dumps(original.save())))
    assert restored.recorded == original.recorded and len(restored) == len(original)
    for row in recorded[count:]:
        for buffer in (original, restored):
            buffer.add(*row)
        assert_equal(tuple(original.sample()), tuple(restored.sample()))


def test_an_empty_replay_is_saved_too():
    original, restored = buffer_of(), buffer_of()
    restored.restore(pickle.loads(pickle.dumps(original.save())))
    assert len(restored) == 0 and not restored.ready
    for buffer in (original, restored):
        fill(buffer, Stream([[Episode(3, True)]] * NUMBER, False), 10)
    assert_equal(tuple(original.sample()), tuple(restored.sample()))


def test_ready_once_warm_and_once_there_is_something_to_serve():
    warm, short = buffer_of(warmup=12), buffer_of(warmup=1, n_step=2)
    ready = []
    for row in rows(Stream([[Episode(4, True)]] * NUMBER, False), 7):
        warm.add(*row)
        short.add(*row)
        ready.append((warm.ready, short.ready))
    assert ready == [(count >= 6, count >= 3) for count in range(1, 8)]


@FORMS
@pytest.mark.parametrize("count", [6, 25])
@pytest.mark.parametrize("nested", [False, True])
def test_where_episodes_begin_anew_after_restoring_nothing_goes_on_from_before(same_step, count, nested):
    scripts = [[Episode(4, True)], [Episode(3, False), Episode(2, True)]]
    before, restored = buffer_of(80, n_step=2), buffer_of(80, n_step=2, batch=800)
    old = fill(before, Stream(scripts, same_step, nested), count)
    restored.restore(pickle.loads(pickle.dumps(before.save())), episodes_restarted=True)
    anew = Stream(scripts, same_step, nested)
    anew.places = [place._replace(episode=100, step=0) for place in anew.places]
    new = fill(restored, anew, 10)
    batch, seen = draw(restored), set()
    for index in range(800):
        place = place_of(unbatch(batch.observation, index))
        check_transition(anew, batch, index, place, 2)
        seen.add(place)
    assert seen == drawable(old, 80, 2) | drawable(new, 80, 2)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("experience", [{"n_step": 1}, {"n_step": 4}, {"sequence": 3}])
def test_the_smallest_replay_has_something_to_serve_once_there_was_something(length, experience):
    """Even where all episodes end at once, so that a whole row is filler."""
    buffer = buffer_of(1, batch=4, **experience)
    ready = []
    for row in rows(Stream([[Episode(length, False)]] * NUMBER, False), 12):
        buffer.add(*row)
        ready.append(buffer.ready)
        if buffer.ready:
            draw(buffer)
    assert ready[-1] and ready == sorted(ready)


def test_a_replay_that_cannot_hold_what_it_has_to_is_refused():
    Replay(capacity=50, batch=4, warmup=50).check(NUMBER)
    with pytest.raises(WeftError, match=r"replay of 49 steps .* warm-up of 50 steps"):
        Replay(capacity=49, batch=4, warmup=50).check(NUMBER)
    for overlap in (-1, 5):
        with pytest.raises(WeftError, match=f"Sequences of 5 steps cannot share {overlap} with"):
            Replay(capacity=50, batch=4, warmup=1, sequence=5, overlap=overlap).check(NUMBER)
