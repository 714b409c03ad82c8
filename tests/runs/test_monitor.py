import os
import signal
import threading

import pytest

from weft.runs import monitor as monitors
from weft.runs.checkpoint import Checkpoints
from weft.runs.monitor import RunMonitor
from weft.runtime.lives import drive


class Program:
    """Takes ``each`` steps at a time and reports what the monitor asks for."""

    def __init__(self, monitor, total, each, clock=None, began=0):
        self.monitor, self.total, self.each, self.clock, self.steps = monitor, total, each, clock, began
        self.learning = False

    def report(self):
        return {"episodes": self.steps // 10, "mean_return": float(self.steps), "share_learning": 0.5}

    async def save(self):
        return {"learner": {"steps": self.steps}}

    def run(self):
        drive(self._run())

    async def _run(self):
        while self.steps < self.total and await self.monitor.tick(self):
            self.steps += self.each
            self.learning = True
            if self.clock:
                self.clock.now += self.clock.each
        await self.monitor.finish(self)


def ticked(monitor, program):
    answers = []

    async def tick():
        answers.append(await monitor.tick(program))

    drive(tick())
    return answers[0]


class Clock:
    def __init__(self, each):
        self.now, self.each = 0.0, each

    def __call__(self):
        return self.now


class Rows:
    def __init__(self):
        self.rows = []

    def write(self, steps, metrics):
        self.rows.append((steps, metrics))

    def close(self):
        pass


def watched(folder, steps, checkpoint_every=10**9, callbacks=(), earlier=None):
    rows, summaries = Rows(), []
    checkpoints = Checkpoints(folder, keep=100)
    monitor = RunMonitor(steps, checkpoints, checkpoint_every, [rows], None, callbacks, summaries.append, earlier)
    return monitor, rows.rows, checkpoints, summaries


def steps_of(rows):
    return [steps for steps, _ in rows]


def test_rows_come_at_the_same_steps_whatever_the_time_that_passes(tmp_path, monkeypatch):
    found = []
    for name, seconds in (("quick", 1e-6), ("slow", 0.5)):
        monkeypatch.setattr(monitors, "perf_counter", clock := Clock(seconds))
        monitor, rows, _, _ = watched(tmp_path / name, 1_000)
        Program(monitor, 1_000, 7, clock).run()
        found.append(steps_of(rows))
    assert found[0] == found[1]
    assert len(found[0]) <= monitors.ROWS + 1 and found[0][-1] == 1_001
    assert found[0] == list(range(7, 1_002, 7))
    monitor, rows, _, _ = watched(tmp_path / "fine", 1_000)
    clock.each = 0.01
    Program(monitor, 1_000, 1, clock).run()
    assert steps_of(rows) == list(range(5, 1_001, 5))


def test_long_silence_is_broken_and_long_work_is_saved_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(monitors, "perf_counter", clock := Clock(4.0))
    monitor, rows, checkpoints, _ = watched(tmp_path, 1_000_000)
    program = Program(monitor, 200, 1, clock)
    program.run()
    assert steps_of(rows)[:2] == [3, 6]
    assert checkpoints.steps()[:2] == [76, 152]
    assert rows[0][1]["seconds"] == 12 and rows[0][1]["steps_per_second"] == 0.2


def test_checkpoints_come_at_their_steps_each_with_a_row_and_a_summary(tmp_path):
    monitor, rows, checkpoints, summaries = watched(tmp_path, 1_000, checkpoint_every=300)
    Program(monitor, 1_000, 8).run()
    assert checkpoints.steps() == [304, 600, 904, 1_000]
    assert set(checkpoints.steps()) <= set(steps_of(rows)) and len(set(steps_of(rows))) == len(rows)
    assert [summary["steps"] for summary in summaries] == checkpoints.steps()
    assert [summary["finished"] for summary in summaries] == [False, False, False, True]
    assert checkpoints.restore().mean_return == 1_000.0


def test_a_callback_ends_the_run_saved(tmp_path):
    seen = []
    callbacks = [seen.append, lambda row: row["steps"] < 50]
    monitor, rows, checkpoints, _ = watched(tmp_path, 1_000, callbacks=callbacks)
    Program(monitor, 1_000, 5).run()
    assert steps_of(rows)[-1] == 50 and checkpoints.steps() == [50]
    assert [row["steps"] for row in seen] == steps_of(rows) and seen[0]["mean_return"] == 5.0
    assert monitor.summary()["finished"] is False and monitor.interrupted is None


def test_a_resumed_run_goes_on_counting(tmp_path, monkeypatch):
    monkeypatch.setattr(monitors, "perf_counter", clock := Clock(0.25))
    monitor, rows, checkpoints, _ = watched(tmp_path, 400, 100, callbacks=[lambda row: row["steps"] < 150])
    Program(monitor, 400, 10, clock).run()
    first, before = steps_of(rows), monitor.summary()
    earlier = checkpoints.restore().parts["run"]
    monitor, rows, checkpoints, _ = watched(tmp_path, 400, 100, earlier=earlier)
    assert monitor.summary() == before
    Program(monitor, 400, 10, clock, began=150).run()
    assert first + steps_of(rows) == list(range(10, 401, 10))
    summary = monitor.summary()
    assert summary == {
        "steps": 400,
        "seconds": 10.0,
        "steps_per_second": 40.0,
        "mean_return": 400.0,
        "episodes": 40,
        "finished": True,
    }
    again, rows, _, summaries = watched(tmp_path, 400, 100, earlier=checkpoints.restore().parts["run"])
    Program(again, 400, 10, clock, began=400).run()
    assert again.summary() == summary and not rows and not summaries


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_at_its_next_tick_and_a_second_one_at_once(tmp_path, number):
    monitor, _, checkpoints, _ = watched(tmp_path, 1_000)
    before = signal.getsignal(number)
    with monitor.signals():
        program = Program(monitor, 1_000, 5)
        assert ticked(monitor, program)
        os.kill(os.getpid(), number)
        program.run()
        assert program.steps == 0 and monitor.interrupted == number
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
    assert not monitor.summary()["finished"] and checkpoints.steps() == []


def test_outside_the_main_thread_signals_are_left_alone(tmp_path):
    monitor, _, _, _ = watched(tmp_path, 10)
    failures = []

    def work():
        try:
            with monitor.signals():
                Program(monitor, 10, 1).run()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures and monitor.summary()["finished"]
