"""The store against a plain model of it, through everything that may happen to it; and what it refuses."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from weft.errors import WeftError
from weft.experience.columns import Compression
from weft.experience.limiters import minimum_size, queue
from weft.experience.priorities import Prioritised, RankBased
from weft.experience.selectors import Fifo, Lifo, MaxHeap, MinHeap, Uniform
from weft.experience.store import Items, NothingInTime, Store
from weft.experience.table import TableSettings
from weft.program import Leaf

LAYOUT = {"id": Leaf((), "int64"), "more": (Leaf((3,), "uint8"), Leaf((2, 2), "float32"))}
STREAMS, REACH, CAPACITY, QUEUE = 3, 7, 6, 4
SAMPLERS = {
    "uniform": Uniform(),
    "prioritised": Prioritised(0.7),
    "ranks": RankBased(0.5),
    "fifo": Fifo(),
    "lifo": Lifo(),
    "highest": MaxHeap(),
    "lowest": MinHeap(),
}


class Whole:
    """Serves the ids of all steps of each item, and checks the other columns against them."""

    def read_items(self, items: Items) -> list[list[int]]:
        served = []
        for begin, span in zip(items.begins, items.spans, strict=True):
            one = Items(items._chunks, np.array([begin]), np.array([span]))
            ids = one.take(("id",), 0, int(span))[0]
            bytes_, reals = (one.take(("more", place), 0, int(span))[0] for place in range(2))
            np.testing.assert_array_equal(bytes_, steps_of(ids)["more"][0])
            np.testing.assert_array_equal(reals, steps_of(ids)["more"][1])
            served.append(ids.tolist())
        return served


def steps_of(ids: Any) -> dict[str, Any]:
    """Steps [*shape of ids, ...] that can be told from each other in every column."""
    ids = np.asarray(ids, np.int64)
    bytes_ = ids[..., None] * np.array([1, 3, 7]) % 256
    reals = ids[..., None, None] + np.array([[0.0, 0.25], [0.5, 0.75]])
    return {"id": ids, "more": (bytes_.astype(np.uint8), reals.astype(np.float32))}


def store_of(sampler: str = "uniform", remover: str = "fifo", chunk: int = 4, compressed: bool = False) -> Store:
    return Store(
        LAYOUT,
        [
            TableSettings("replay", CAPACITY, SAMPLERS[sampler], SAMPLERS[remover], minimum_size(2)),
            TableSettings("queue", 10, Fifo(), Fifo(), queue(QUEUE), max_times_sampled=1),
        ],
        streams=STREAMS,
        reach=REACH,
        chunk=chunk,
        chunks=2,
        compression=Compression("zstd", least=1) if compressed else None,
        seed=3,
    )


class Machine(RuleBasedStateMachine):
    """A store and what plain Python makes of the same orders."""

    @initialize(
        sampler=st.sampled_from(sorted(SAMPLERS)),
        remover=st.sampled_from(sorted(SAMPLERS)),
        chunk=st.sampled_from([1, 2, 5, 16]),
        compressed=st.booleans(),
    )
    def begin(self, sampler: str, remover: str, chunk: int, compressed: bool) -> None:
        self.options = {"sampler": sampler, "remover": remover, "chunk": chunk, "compressed": compressed}
        self.store = store_of(**self.options)
        self.streams: list[list[int]] = [[] for _ in range(STREAMS)]
        self.items: dict[int, list[int]] = {}
        """Of the replay, by their keys, oldest first."""
        self.priorities: dict[int, float] = {}
        self.queue: list[list[int]] = []
        self.number = 0

    def numbers(self, *shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        self.number += count
        return np.arange(self.number - count, self.number).reshape(shape)

    @rule(ids=st.sets(st.integers(0, STREAMS - 1), min_size=1), length=st.integers(1, 20))
    def extend(self, ids: set[int], length: int) -> None:
        streams = np.array(sorted(ids))
        numbers = self.numbers(length, len(streams))
        self.store.extend(steps_of(numbers), streams, length)
        for column, stream in enumerate(streams):
            self.streams[stream] += numbers[:, column].tolist()

    @rule()
    def append_to_all(self) -> None:
        numbers = self.numbers(STREAMS)
        self.store.extend(steps_of(numbers))
        for stream, number in zip(self.streams, numbers.tolist(), strict=True):
            stream.append(number)

    @rule(
        stream=st.integers(0, STREAMS - 1),
        span=st.integers(1, REACH),
        before=st.integers(0, 2),
        priority=st.floats(0, 9),
    )
    def insert(self, stream: int, span: int, before: int, priority: float) -> None:
        order = {"span": span, "ids": np.array([stream]), "before": before, "priorities": np.array([priority])}
        if span + before > min(REACH, len(self.streams[stream])):
            with pytest.raises(WeftError, match=r"reach back|goes beyond"):
                self.store.insert("replay", **order)
            return
        table, held = self.store.table("replay"), set(self.items)
        self.store.insert("replay", **order)
        now = set(table.keys().tolist())
        (key,) = now - held
        gone = held - now
        assert len(gone) == (len(held) == CAPACITY)
        for each in gone:
            assert each == self.victim()
            del self.items[each], self.priorities[each]
        stop = len(self.streams[stream]) - before
        self.items[key] = self.streams[stream][stop - span : stop]
        self.priorities[key] = priority

    def victim(self) -> int:
        """Which item has to go, where that is not left to chance."""
        remover = self.options["remover"]
        order = self.in_order(remover)
        return order[0] if order else next(iter(set(self.items) - set(self.store.table("replay").keys().tolist())))

    def in_order(self, selector: str) -> list[int]:
        keys = list(self.items)
        orders = {
            "fifo": keys,
            "lifo": keys[::-1],
            "highest": sorted(keys, key=lambda key: -self.priorities[key]),
            "lowest": sorted(keys, key=lambda key: self.priorities[key]),
        }
        return orders.get(selector, [])

    @rule(number=st.integers(1, 8))
    def sample(self, number: int) -> None:
        if len(self.items) < 2:
            with pytest.raises(NothingInTime, match="replay was not ready to sample"):
                self.store.sample("replay", number, Whole())
            return
        served, drawn, size = self.store.sample("replay", number, Whole())
        assert size == len(self.items)
        order = self.in_order(self.options["sampler"])
        for ids, key, probability in zip(served, drawn.keys.tolist(), drawn.probability, strict=True):
            assert ids == self.items[key]
            assert probability == pytest.approx(self.probability(key))
            if order:
                assert key == order[0]

    def probability(self, key: int) -> float:
        if self.options["sampler"] == "uniform":
            return 1 / len(self.items)
        if self.options["sampler"] == "prioritised":
            powers = {each: priority**0.7 for each, priority in self.priorities.items()}
            total = sum(powers.values())
            return powers[key] / total if total else 1 / len(self.items)
        if self.options["sampler"] == "ranks":
            return pytest.approx(0.5, abs=0.5)
        return 1.0

    @precondition(lambda self: self.items)
    @rule(data=st.data(), priority=st.floats(0, 9))
    def update(self, data: st.DataObject, priority: float) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.items)), min_size=1, max_size=3, unique=True))
        gone = max(self.items) + 10 * CAPACITY
        changed = self.store.update("replay", np.array([*keys, gone]), np.full(len(keys) + 1, priority))
        assert changed == len(keys)
        for key in keys:
            self.priorities[key] = priority

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.items)))
        self.store.remove("replay", np.array([key, key]))
        del self.items[key], self.priorities[key]

    @rule(stream=st.integers(0, STREAMS - 1))
    def put_in_queue(self, stream: int) -> None:
        if not self.streams[stream]:
            return
        if len(self.queue) == QUEUE:
            with pytest.raises(NothingInTime, match="queue was not ready to insert"):
                self.store.insert("queue", 1, np.array([stream]))
            return
        self.store.insert("queue", 1, np.array([stream]))
        self.queue.append(self.streams[stream][-1:])

    @precondition(lambda self: self.queue)
    @rule(data=st.data())
    def take_from_queue(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, len(self.queue)))
        served = self.store.sample("queue", number, Whole()).items
        assert served == self.queue[:number]
        self.queue = self.queue[number:]

    @rule(stream=st.integers(0, STREAMS - 1))
    def reset(self, stream: int) -> None:
        self.store.reset(np.array([stream]))
        self.streams[stream] = []

    @rule()
    def save_and_restore(self) -> None:
        other = store_of(**self.options)
        other.restore(pickle.loads(pickle.dumps(self.store.save())))
        if len(self.items) >= 2:
            mine, its = (store.sample("replay", 5, Whole()) for store in (self.store, other))
            assert mine.items == its.items
            np.testing.assert_array_equal(mine.drawn.keys, its.drawn.keys)
        self.store = other

    @invariant()
    def holds_what_it_should(self) -> None:
        if not hasattr(self, "store"):
            return
        assert set(self.store.table("replay").keys().tolist()) == set(self.items)
        assert self.store.table("queue").size == len(self.queue)
        if not self.items and not self.queue and not any(self.streams):
            assert self.store.chunks.used == 0


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    deadline=None, max_examples=60, stateful_step_count=40, derandomize=True, suppress_health_check=list(HealthCheck)
)


def filled(length: int = 20, **options: Any) -> Store:
    store = store_of(**options)
    store.extend(steps_of(np.arange(length * STREAMS).reshape(length, STREAMS)), length=length)
    return store


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"id": np.zeros(STREAMS, np.int64)}, "columns id, more.0, more.1, not id"),
        ({**steps_of(np.zeros(STREAMS)), "id": np.zeros((STREAMS, 2), np.int64)}, r"id of a step has the shape \(2,\)"),
        ({**steps_of(np.zeros(STREAMS)), "id": np.zeros(STREAMS)}, "id of a step is float64, which does not fit int64"),
    ],
)
def test_steps_that_do_not_fit_are_refused_and_leave_everything_as_it_was(steps, message):
    store = filled()
    before = pickle.dumps(store.save())
    with pytest.raises(WeftError, match=message):
        store.extend(steps)
    assert pickle.dumps(store.save()) == before


@pytest.mark.parametrize("priority", [np.nan, np.inf, -1.0])
def test_priorities_that_are_none_are_refused_and_leave_everything_as_it_was(priority):
    store = filled()
    store.insert("replay", 3)
    before = pickle.dumps(store.save())
    with pytest.raises(WeftError, match=f"priority has to be a finite number of at least 0, not {priority}"):
        store.insert("replay", 3, priorities=np.array([1.0, priority, 1.0]))
    with pytest.raises(WeftError, match="priority has to be"):
        store.update("replay", store.table("replay").keys(), np.array([priority, 1.0, 1.0]))
    assert pickle.dumps(store.save()) == before


def test_an_unknown_table_is_named_with_those_there_are():
    with pytest.raises(WeftError, match="no table named 'replays': did you mean replay"):
        filled().insert("replays", 1)


def test_whoever_samples_waits_for_who_inserts():
    store = filled()

    def insert() -> None:
        time.sleep(0.05)
        store.insert("replay", 2)

    thread = threading.Thread(target=insert)
    thread.start()
    began = time.perf_counter()
    assert len(store.sample("replay", 4, Whole(), timeout=10.0).items) == 4
    assert time.perf_counter() - began >= 0.04
    thread.join()


def test_whoever_waits_in_vain_is_told_for_what():
    began = time.perf_counter()
    with pytest.raises(NothingInTime, match=r"ready to sample within 0.05 s: it holds 0 items, after 0 inserts"):
        filled().sample("replay", 1, Whole(), timeout=0.05)
    assert time.perf_counter() - began >= 0.05


def test_overlapping_items_cost_their_steps_once():
    store = Store(LAYOUT, [TableSettings("replay", 1000)], reach=5, chunk=4)
    for number in range(1000):
        store.extend(steps_of([number]))
        if number >= 4:
            store.insert("replay", 5)
    assert store.table("replay").size == 996
    assert store.chunks.used * 4 <= 1000 + 3 * 4


def test_memory_is_used_again():
    store = Store(LAYOUT, [TableSettings("replay", 50)], reach=5, chunk=4, chunks=8)
    for number in range(5000):
        store.extend(steps_of([number]))
        if number >= 4:
            store.insert("replay", 5)
    assert store.chunks.number <= 40


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compression_serves_the_same_and_tells_what_it_saves(codec):
    layout = {"image": Leaf((84, 84), "uint8"), "reward": Leaf((), "float32")}
    store = Store(layout, [TableSettings("replay", 100)], reach=2, chunk=8, compression=Compression(codec))
    image = np.arange(84 * 84).reshape(84, 84) // 300
    for number in range(60):
        store.extend({"image": (image + number)[None].astype(np.uint8), "reward": np.array([number], np.float32)})
        if number:
            store.insert("replay", 2)

    class Pairs:
        def read_items(self, items: Items) -> Any:
            return items.take(("image",), 0, 2), items.take(("reward",), 0, 2)

    images, rewards = store.sample("replay", 50, Pairs()).items
    np.testing.assert_array_equal(images, (image + rewards[..., None, None]).astype(np.uint8))
    report = store.chunks.compression()
    assert report["ratio"] > 5 and report["compressing_seconds"] > 0 and report["expanding_seconds"] > 0
    assert store.chunks.nbytes < 60 * 84 * 84 / 4
