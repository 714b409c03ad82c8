import io
import math
import os
import time

import pytest
from rich.console import Console

from weft.runs import progress
from weft.runs.progress import Progress

SHARES = {"environment": 0.41, "policy": 0.22, "learning": 0.30}


class Clock:
    """Stands for the time module; moves when told."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def console(terminal):
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=90, color_system="truecolor", legacy_windows=False
    )


def run(shown, clock):
    with Progress(1000, "ppo on [CartPole]", shown) as display:
        for steps in range(0, 1000, 10):
            clock.now += 0.1
            display.update(steps, {"mean_return": 20.0 - abs(steps - 500) / 100}, SHARES)
        display.update(1000, {"mean_return": math.nan}, SHARES)
        display.note("careful [with] this")
        display.finish(["The run is in runs/x."])
    return shown.file.getvalue()


def test_plain_lines_have_no_control_characters_and_are_few(clock):
    lines = run(console(terminal=False), clock).splitlines()
    assert lines[0] == "ppo on [CartPole]"
    assert lines[-3].startswith("1,000 of 1,000 steps, return 15.1, best 20.0, 100 steps/s, took 0:10")
    assert lines[-3].endswith("environment 41 %, policy 22 %, learning 30 %, other 7 %")
    assert lines[-1] == "The run is in runs/x."
    assert "careful [with] this" in lines
    assert len(lines) == 7
    assert all(line.isprintable() for line in lines)


def test_a_terminal_shows_everything_and_gets_its_cursor_back(clock):
    text = run(console(terminal=True), clock)
    for part in (
        "ppo on [CartPole]",
        "0:05 left",
        "100 %",
        "best 20.0",
        "100 steps/s",
        "learning 30 %",
        "• careful [with]",
    ):
        assert part in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_the_terminal_comes_back_after_an_error():
    shown = console(terminal=True)
    with pytest.raises(KeyboardInterrupt), Progress(10, "x", shown):
        raise KeyboardInterrupt
    assert shown.file.getvalue().endswith("\x1b[?25h")


def test_nothing_is_claimed_before_it_is_known(clock):
    shown = console(terminal=False)
    with Progress(1000, "x", shown) as display:
        clock.now += 10
        display.update(0, {}, {})
    assert shown.file.getvalue().splitlines() == ["x", "0 of 1,000 steps, starting"]


def test_updates_cost_next_to_nothing():
    with open(os.devnull, "w") as file:
        shown = Console(file=file, force_terminal=True, width=90)
        with Progress(1000, "x", shown) as display:
            began = time.process_time()
            for steps in range(20_000):
                display.update(steps, {"mean_return": 1.0}, SHARES)
            assert (time.process_time() - began) / 20_000 < 50e-6
