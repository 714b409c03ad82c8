"""Rings against a model: whatever is sent arrives once and in order, and slots in use are never written."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from weft.program import Leaf
from weft.runtime.memory import Arena, PrivateMemory
from weft.runtime.rings import BlockingRing, DroppingRing

LAYOUT = {"number": Leaf((3,), "int64"), "nothing": None}


def ring_over(kind, memory, capacity):
    return kind(memory, LAYOUT, capacity)


class Rings(RuleBasedStateMachine):
    """The two ends are different objects over the same memory, as in two processes, and may be made anew any time."""

    kind = BlockingRing

    @initialize(capacity=st.integers(1, 4))
    def begin(self, capacity):
        self.capacity = capacity
        self.memory = PrivateMemory(self.kind.bytes_needed(LAYOUT, capacity))
        self.writer, self.reader = (ring_over(self.kind, self.memory, capacity) for _ in range(2))
        self.number, self.waiting, self.held, self.dropped = 0, [], [], 0

    @precondition(lambda self: self.writer.free())
    @rule(finishes=st.booleans())
    def send(self, finishes):
        full = self.full
        slot = self.writer.slot()
        if self.kind is DroppingRing and full and self.waiting:
            self.waiting.pop(0)
            self.dropped += 1
        slot["number"][:] = self.number
        if finishes:
            self.writer.commit()
            self.waiting.append(self.number)
        self.number += 1

    @property
    def full(self):
        slots = self.capacity + (self.kind is DroppingRing)
        return len(self.waiting) + len(self.held) == slots

    @precondition(lambda self: self.waiting)
    @rule()
    def take(self):
        message = self.reader.take()
        assert message["nothing"] is None
        self.held.append((self.waiting.pop(0), message["number"]))

    @precondition(lambda self: self.held)
    @rule()
    def release(self):
        self.reader.release()
        self.held.pop(0)

    @rule()
    def another_writer(self):
        self.writer = ring_over(self.kind, self.memory, self.capacity)

    @rule()
    def another_reader(self):
        self.reader = ring_over(self.kind, self.memory, self.capacity)
        self.reader.recover()
        self.waiting = [number for number, _ in self.held] + self.waiting
        self.held = []

    @invariant()
    def as_expected(self):
        if not hasattr(self, "held"):
            return
        assert self.reader.depth() == len(self.waiting)
        assert self.writer.dropped == self.dropped
        for number, array in self.held:
            assert (array == number).all()
        if self.kind is BlockingRing:
            assert self.writer.free() == (not self.full)
        elif self.waiting or not self.full:
            assert self.writer.free()


class Dropping(Rings):
    kind = DroppingRing


TestBlocking = Rings.TestCase
TestDropping = Dropping.TestCase
TestBlocking.settings = TestDropping.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("kind", [BlockingRing, DroppingRing])
def test_shared_memory_is_the_same_memory(kind):
    arena = Arena()
    arena.allocate(10)
    memory = arena.allocate(kind.bytes_needed(LAYOUT, 2))
    make, arguments = memory.__reduce__()  # as in the process that inherited the descriptor
    writer, reader = ring_over(kind, memory, 2), ring_over(kind, make(*arguments), 2)
    writer.slot()["number"][:] = 7
    writer.commit()
    assert (reader.take()["number"] == 7).all()
    with memory.locked():
        pass
    arena.close()
