"""What happens when parts die, hang or cannot go on: restarted within bounds, or the program ends with the cause."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from nodes import (
    ITEM,
    Hearing,
    Sink,
    Source,
    Telling,
    about_this_process,
    many_to_one,
    someone_lived_again,
    xla_threads,
)

from weft.errors import TrainingDiverged, WeftError
from weft.program import Program
from weft.runtime import RUNTIMES, find
from weft.runtime import lives as lives_module
from weft.runtime.execution import Options
from weft.runtime.lives import Lives, NodeFailed

EVERYWHERE = pytest.mark.parametrize("runtime", RUNTIMES)
HERE = Path(__file__).parent


def run(program, runtime, **options):
    notes = []
    execution = find(runtime)(program, Options(note=notes.append, **options))
    try:
        execution.run()
    finally:
        assert execution.board.stopping or runtime == "inline"
    return notes


def only_from_one_life_at_a_time(seen):
    values = [value for source, value, _ in seen if source == 1]
    first = [value for value in values if value < 1000]
    assert values[: len(first)] == list(range(len(first))) == [0, 1, 2]
    assert values[len(first) :] == list(range(1000, 1000 + len(values) - 3))


@EVERYWHERE
def test_a_crashed_node_lives_again_and_its_unfinished_message_is_never_seen(runtime):
    seen = []
    notes = run(many_to_one(someone_lived_again, seen, wrong="raise"), runtime)
    assert len(notes) == 1 and "source 1 crashed" in notes[0] and "on fire" in notes[0]
    only_from_one_life_at_a_time(seen)


def test_a_killed_process_lives_again():
    seen = []
    notes = run(many_to_one(someone_lived_again, seen, wrong="kill"), "processes")
    assert notes == ["source 1 crashed and is made anew, its unfinished work is lost: its process ended by SIGKILL"]
    only_from_one_life_at_a_time(seen)


@pytest.mark.parametrize("wrong", ["raise always", "kill always"])
def test_one_that_crashes_again_and_again_ends_the_program_with_the_cause(monkeypatch, wrong):
    monkeypatch.setattr(lives_module, "FIRST_PAUSE", 0.01)
    seen = []
    program = Program("crashing")
    items = program.queue("items", ITEM)
    program.add("source 1", Source, 1, items.into, None, wrong, 0, restarts=True)
    program.main("sink", Sink, items.out, None, 10, seen)
    with pytest.raises(NodeFailed, match=r"(?s)source 1 crashed 6 times in a row: .*(on fire|SIGKILL)"):
        run(program, "processes")
    assert not seen


@EVERYWHERE
def test_one_that_the_program_cannot_do_without_ends_it_at_once_with_its_traceback(runtime):
    began = time.monotonic()
    with pytest.raises(NodeFailed, match=r"(?s)Traceback.*misbehave.*source 1 crashed, and.*on fire"):
        run(many_to_one(10**9, [], wrong="raise", restarts=False), runtime)
    assert time.monotonic() - began < 5


class Diverging:
    def __init__(self, items, error, life=0):
        self.error = error

    async def run(self):
        raise self.error

    def close(self):
        pass


@EVERYWHERE
@pytest.mark.parametrize("error", [WeftError("choose another one"), TrainingDiverged("NaN at step 3")])
def test_what_is_meant_for_the_user_ends_the_program_and_reaches_them_as_it_is(runtime, error):
    program = Program("diverging")
    letters = program.queue("letters")
    program.add("actor", Diverging, letters.into, error, restarts=True)
    program.main("hearing", Hearing, letters.out, [])
    with pytest.raises(type(error), match=str(error)):
        run(program, runtime)


@EVERYWHERE
def test_an_error_of_the_main_node_stops_all_others(runtime):
    program = many_to_one(10, None)  # it cannot count what it sees
    with pytest.raises(TypeError):
        run(program, runtime)
    assert not children(os.getpid())


def test_a_long_row_of_crashes_with_work_in_between_is_no_reason_to_give_up():
    messages, told = [0], []
    node = many_to_one(1, []).nodes["source 0"]
    lives = Lives(node, lambda: messages[0], told.append)
    for _ in range(50):
        messages[0] += 1
        assert lives.next("ValueError: no", "") == lives_module.FIRST_PAUSE
    pauses = [lives.next("ValueError: no", "") for _ in range(4)]
    assert pauses == [0.2, 0.4, 0.8, 1.6] and len(told) == 54
    with pytest.raises(NodeFailed, match="6 times in a row"):
        lives.next("ValueError: no", "")


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_who_makes_no_progress_is_named_with_what_it_waits_for(runtime):
    seen = []
    program = Program("hanging")
    items = program.queue("items", ITEM)
    program.add("source 1", Source, 1, items.into, None, "hang")
    program.main("sink", Sink, items.out, None, 6, seen)
    notes = run(program, runtime, patience=1.0)
    assert any(note.startswith("source 1 has been busy for 1 s without a message") for note in notes)
    assert len(notes) == len(set(notes))


def test_the_watchdog_tells_queues_from_mailboxes():
    class Waiting:
        def __init__(self, letters, box):
            self.letters, self.box = letters, box

        async def run(self):
            await self.box.get(5)

        def close(self):
            pass

    class Posting:
        def __init__(self, letters, box):
            self.letters, self.box = letters, box

        async def run(self):
            assert await self.letters.get(patience=1.5) is None

        def close(self):
            pass

    program = Program("waiting")
    letters, box = program.queue("letters"), program.mailbox("parameters", ())
    program.add("waiting", Waiting, letters.into, box.out)
    program.main("posting", Posting, letters.out, box.into)
    notes = run(program, "threads", patience=0.5)
    assert any("waiting has been waiting for" in note and "a newer version of parameters" in note for note in notes)
    assert any("posting has been waiting for" in note and "letters, which is empty" in note for note in notes)


def test_inline_names_who_waits_for_whom_when_nothing_can_go_on():
    program = Program("stuck")
    letters = program.queue("letters")
    program.add("telling", Idle, letters.into)
    program.main("hearing", Hearing, letters.out, [])
    with pytest.raises(NodeFailed, match="stuck is stuck: hearing has been waiting for 0 s for letters, which"):
        run(program, "inline")


class Idle:
    def __init__(self, letters):
        pass

    async def run(self):
        pass

    def close(self):
        pass


def test_what_does_not_pickle_runs_in_a_thread_and_is_told_of():
    import threading

    lock, heard = threading.Lock(), []
    program = Program("locked")
    letters = program.queue("letters")
    program.add("telling", Telling, letters.into, lambda: lock.locked())
    program.main("hearing", Hearing, letters.out, heard)
    (note,) = run(program, "threads")
    assert note.startswith("telling cannot be pickled") and heard == [False]


# Processes.


def about(make, cores=1):
    program, heard = Program("about"), []
    letters = program.queue("letters")
    program.add("telling", Telling, letters.into, make, cores=cores)
    program.main("hearing", Hearing, letters.out, heard)
    run(program, "processes")
    return heard[0]


def test_a_process_imports_no_more_than_its_node_and_is_limited_to_its_cores():
    told = about(about_this_process)
    assert told["modules"] == [] and told["pid"] != os.getpid() and told["cores"] == "1"


def test_xla_keeps_to_the_threads_of_the_role():
    assert about(xla_threads, cores=1) < about(xla_threads, cores=6)


def children(parent=None):
    """Processes of nodes, of one parent or of all; without those that only wait to be reaped."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"weft.runtime.child" in line and fields[0] != "Z" and (parent is None or int(fields[1]) == parent):
            found.append(int(folder.name))
    return found


PARENT = """
import os, sys, threading
sys.path.insert(0, {here!r})
from nodes import many_to_one
from weft.runtime import find

class Loud(list):
    def append(self, item):
        super().append(item)
        if len(self) == 100:
            print("running", flush=True)

try:
    find("processes")(many_to_one(10**9, Loud())).run()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_behind_when_the_parent_ends(how):
    before = set(os.listdir("/dev/shm"))
    parent = subprocess.Popen([sys.executable, "-c", PARENT.format(here=str(HERE))], stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "running\n"
    mine = children(parent.pid)
    assert len(mine) == 3
    parent.send_signal(how)
    output, _ = parent.communicate(timeout=20)
    assert output == ("interrupted\n" if how == signal.SIGINT else "")
    deadline = time.monotonic() + 5
    while (left := [child for child in mine if child in children()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left
    assert set(os.listdir("/dev/shm")) <= before


def test_a_child_is_looked_after_by_one_thread_at_a_time(monkeypatch):
    """Two threads that heard the same report closed its pipe twice."""
    from weft.runtime.processes import Child

    looking, overlaps, look = threading.Lock(), [], Child.look

    def slowly(child, execution):
        if not looking.acquire(blocking=False):
            overlaps.append(child.node.name)
            return
        try:
            time.sleep(0.05)
            look(child, execution)
        finally:
            looking.release()

    monkeypatch.setattr(Child, "look", slowly)
    run(many_to_one(20, []), "processes")
    assert not overlaps


@EVERYWHERE
def test_a_run_keeps_no_descriptor_and_no_thread(runtime):
    run(many_to_one(20, []), runtime)
    gc.collect()
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        run(many_to_one(20, [], wrong="raise"), runtime)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert threading.active_count() <= threads
