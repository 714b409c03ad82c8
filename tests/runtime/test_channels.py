"""Queues, mailboxes, calls and letters: the same program on every runtime."""

import numpy as np
import pytest
from nodes import (
    ITEM,
    NUMBER,
    Answerer,
    Asker,
    Counter,
    Hearing,
    Telling,
    all_three_were_heard,
    big_letter,
    many_to_one,
)

from weft.program import Leaf, Program
from weft.runtime import RUNTIMES, find
from weft.runtime.board import Board
from weft.runtime.endpoints import Box
from weft.runtime.execution import Options
from weft.runtime.memory import PrivateMemory

EVERYWHERE = pytest.mark.parametrize("runtime", RUNTIMES)


def run(program, runtime, **options):
    notes = []
    execution = find(runtime)(program, Options(note=notes.append, **options))
    execution.run()
    return execution, notes


@EVERYWHERE
def test_every_message_arrives_once_and_in_the_order_of_its_writer(runtime):
    seen = []
    _, notes = run(many_to_one(all_three_were_heard, seen), runtime)
    assert not notes
    for writer in range(3):
        values = [value for source, value, _ in seen if source == writer]
        assert values == list(range(len(values)))


@EVERYWHERE
def test_a_mailbox_shows_what_was_newest_and_never_goes_back(runtime):
    seen = []
    run(many_to_one(300, seen), runtime)
    for writer in range(3):
        versions = [version for source, _, version in seen if source == writer]
        assert versions == sorted(versions)
    for place, (_, _, version) in enumerate(seen):
        assert 0 <= version <= place
    assert max(version for *_, version in seen) > 100


def test_inline_is_the_same_every_time():
    seen, again = [], []
    for what in (seen, again):
        run(many_to_one(100, what), "inline")
    assert seen == again


def test_a_full_queue_holds_its_writers_back():
    seen = []
    run(many_to_one(200, seen, sources=1), "inline")
    lags = [place - version for place, (_, _, version) in enumerate(seen)]
    assert max(lags) <= 3  # two slots and the one being written


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_a_queue_that_drops_never_holds_its_writers_back(runtime):
    seen = []
    execution, _ = run(many_to_one(300, seen, full="drop oldest"), runtime)
    dropped = execution.wiring.dropped(execution.program.channels["items"])
    for writer in range(3):
        values = [value for source, value, _ in seen if source == writer]
        assert values == sorted(set(values))
    skipped = max(value for _, value, _ in seen) > 300 or dropped > 0
    assert skipped and dropped > 0


@EVERYWHERE
def test_each_client_gets_the_replies_to_its_own_requests(runtime):
    program, seen = Program("calls"), []
    call, answers = program.call("double", NUMBER, NUMBER), program.queue("answers", NUMBER)
    for index in range(3):
        program.add(f"asker {index}", Asker, index, call.client, answers.into, restarts=True)
    program.add("answerer", Answerer, call.server, 3, 0.0)
    program.main("counter", Counter, answers.out, 200, seen)
    run(program, runtime)
    assert seen == [0] * 200


def test_a_server_collects_what_has_come():
    program, seen, sizes = Program("calls"), [], []
    call, answers = program.call("double", NUMBER, NUMBER), program.queue("answers", NUMBER)
    for index in range(3):
        program.add(f"asker {index}", Asker, index, call.client, answers.into, restarts=True)
    program.add("answerer", Answerer, call.server, 2, 0.01, sizes)
    program.main("counter", Counter, answers.out, 50, seen)
    run(program, "inline")
    assert max(sizes) == 2 and sum(sizes) >= 50


@EVERYWHERE
def test_a_client_that_died_waiting_does_not_get_the_reply_in_its_next_life(runtime):
    program, seen = Program("calls"), []
    call, answers = program.call("double", NUMBER, NUMBER), program.queue("answers", NUMBER)
    program.add("asker 0", Asker, 0, call.client, answers.into, "gone", restarts=True)
    program.add("answerer", Answerer, call.server, 1, 0.0)
    program.main("counter", Counter, answers.out, 50, seen)
    _, notes = run(program, runtime)
    assert len(notes) == 1 and "gone before the reply" in notes[0]
    assert seen == [0] * 50


@EVERYWHERE
@pytest.mark.parametrize("crash", [False, True])
def test_objects_of_any_size_travel_and_torn_ones_are_thrown_away(runtime, crash):
    program, heard = Program("letters"), []
    letters = program.queue("letters")
    program.add("telling", Telling, letters.into, big_letter, crash, restarts=True)
    program.main("hearing", Hearing, letters.out, heard)
    run(program, runtime)
    assert len(heard[0]["bytes"]) == 700_001 and (heard[0]["array"] == np.arange(100_000)).all()


def test_a_mailbox_is_read_whole_while_it_is_written():
    memory = PrivateMemory(Box.bytes_needed((Leaf((1000,), "int64"),)))
    writer, reader = (Box(memory, (Leaf((1000,), "int64"),)) for _ in range(2))
    assert reader.version == -1
    for version in range(20):
        writer.write((np.full(1000, version),), version)
        read, (value,) = reader.read()
        writer.write((np.full(1000, -1),), version)  # what was read is a copy
        assert read == reader.version == version and (value == version).all()


def test_a_reader_overtaken_while_it_copies_begins_again(monkeypatch):
    layout = (Leaf((4,), "int64"),)
    memory = PrivateMemory(Box.bytes_needed(layout))
    writer, reader = Box(memory, layout), Box(memory, layout)
    writer.write((np.zeros(4, np.int64),), 0)
    from weft.runtime import slots

    copy, overtakes = slots.copy_of, iter([3, 0])

    def overtaken(slot):
        for version in range(next(overtakes)):
            writer.write((np.full(4, version + 1),), version + 1)
        return copy(slot)

    monkeypatch.setattr(slots, "copy_of", overtaken)
    version, (value,) = reader.read()
    assert version == 3 and (value == 3).all()


@EVERYWHERE
def test_what_flows_is_counted(runtime):
    seen = []
    execution, _ = run(many_to_one(200, seen), runtime)
    row = execution.flow.row()
    assert {"wait_source_items", "wait_sink_items", "rate_source", "rate_sink", "depth_items", "dropped_items"} <= set(
        row
    )
    assert row["rate_sink"] > 0 and row["dropped_items"] == 0 and 0 <= row["wait_source_items"] <= 1


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda program: program.queue("unused", ITEM), "nobody holds the end 'into' of unused"),
        (lambda program: program.main("second", Hearing, None, None), "2 main nodes"),
        (lambda program: program.add("reader", Hearing, program.channels["items"].out, None), "is held by"),
        (lambda program: program.queue("items", ITEM), "two channels named items"),
        (lambda program: program.add("sink", Hearing), "two nodes named sink"),
    ],
)
def test_a_graph_with_a_loose_end_is_refused_before_anything_starts(break_it, message):
    program = many_to_one(1, [])
    with pytest.raises(AssertionError, match=message):
        break_it(program)
        find("inline")(program)


def test_the_board_keeps_its_lines_apart():
    memory = PrivateMemory(8 * Board.cells_needed(2, 2))
    board, other = Board(memory, 2, 2), Board(memory, 2, 2)
    board.seat(0).wait(1, 5)
    board.seat(1).life = 3
    board.flow(0).passed(4)
    board.flow(1).waited(2_000_000_000)
    assert other.seat(0).waits_at[0] == 1 and other.seat(1).waits_at is None and other.seat(1).life == 3
    assert other.flow(0).totals == (0.0, 1, 4) and other.flow(1).totals == (2.0, 0, 0)
    assert not other.stopping
    board.stop()
    assert other.stopping
