"""The order of events: recorded where it is not fixed, and repeated on one thread with the same result."""

import pytest
from nodes import NUMBER, Answerer, Asker, Counter, many_to_one

from weft.errors import WeftError
from weft.program import Program
from weft.runs.order import OrderFile, read_order
from weft.runtime import find
from weft.runtime.execution import Options
from weft.runtime.memory import PrivateMemory
from weft.runtime.order import Recorded


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize("capacity", [1, 3])
def test_a_recorded_run_is_repeated_inline(runtime, capacity, tmp_path):
    seen, again, otherwise = [], [], []
    record = OrderFile(tmp_path)
    find(runtime)(many_to_one(500, seen, capacity=capacity), Options(record=record)).run()
    order = read_order(tmp_path)
    find("inline")(many_to_one(500, again, capacity=capacity), Options(repeat=order)).run()
    find("inline")(many_to_one(500, otherwise, capacity=capacity)).run()
    assert again == seen != otherwise


def test_calls_are_repeated_too(tmp_path):
    def calls(seen):
        program = Program("calls")
        call, answers = program.call("double", NUMBER, NUMBER), program.queue("answers", NUMBER)
        for index in range(3):
            program.add(f"asker {index}", Asker, index, call.client, answers.into, restarts=True)
        program.add("answerer", Order, call.server)
        program.main("counter", Counter, answers.out, 100, seen)
        return program

    seen, again = [], []
    find("threads")(calls(seen), Options(record=OrderFile(tmp_path))).run()
    find("inline")(calls(again), Options(repeat=read_order(tmp_path))).run()
    assert seen == again and len(set(seen)) == 100


class Order(Answerer):
    """Answers with how many requests came before."""

    def __init__(self, call):
        super().__init__(call, 1, 0.0)

    async def run(self):
        count = 0
        while True:
            for request in await self.call.collect(1, 0.0):
                value = int(request.value["value"])
                await self.call.reply(request, {"value": 2 * value + count})
                count += 1


@pytest.mark.parametrize("wrong", ["a crash", "a resumed run", "something dropped"])
def test_what_cannot_be_repeated_says_so(wrong, tmp_path):
    record = OrderFile(tmp_path, resumed=wrong == "a resumed run")
    program = many_to_one(
        300,
        [],
        wrong="raise" if wrong == "a crash" else None,
        full="drop oldest" if wrong == "something dropped" else "block",
    )
    find("threads")(program, Options(record=record)).run()
    expected = {"a crash": "source 1 crashed", "a resumed run": "was resumed", "something dropped": "dropped"}[wrong]
    with pytest.raises(WeftError, match=f"cannot be repeated: .*{expected}"):
        read_order(tmp_path)


def test_an_order_that_comes_too_fast_is_noticed():
    recorded = Recorded(PrivateMemory(Recorded.BYTES))
    for choice in range(10):
        recorded.chose(choice)
    assert recorded.fetch() == list(range(10)) and recorded.fetch() == []
    for choice in range(Recorded.ENTRIES + 1):
        recorded.chose(choice)
    with pytest.raises(OverflowError):
        recorded.fetch()
