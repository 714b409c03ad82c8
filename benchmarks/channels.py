"""How fast messages travel between two nodes: 4.5 MB trajectories one way, 1 KB messages there and back.

A trajectory is 20 steps of 32 grey pictures of 84 x 84. One node marks each 4 KB of it with its number and copies it
step by step into the slot; the other reads it where it lies: either the mark in every 4 KB (``marks``, which are
checked) or all of it (``sum``, as 64-bit numbers). ``memcpy`` is ``np.copyto`` between two such arrays in one process
that were written before, alone and beside a process that sleeps. ``pipe`` and ``queue`` are those of
multiprocessing, which pickle the array that is copied and marked in the same way; they are read by ``marks``. A round
trip is 1 KB by one queue and back by another, or a ``call``: the median of its rounds' medians, as each round begins
processes of its own.

    python benchmarks/channels.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import measuring
import numpy as np

from weft import runtime
from weft.program import Leaf, Program

STEPS, WIDTH, SIDE = 20, 32, 84
BYTES = STEPS * WIDTH * SIDE * SIDE
TRAJECTORY = {"observation": Leaf((STEPS, WIDTH, SIDE, SIDE), "uint8")}
MESSAGE = {"data": Leaf((1024,), "uint8")}
WARM, TIMED = 100, 1_000
"""Trajectories before the clock starts, and while it runs."""
TRIPS_WARM, TRIPS = 1_000, 10_000
MARKED = 4096


def mark(trajectory: np.ndarray, number: int) -> None:
    trajectory.reshape(-1)[::MARKED] = number % 256


def read(trajectory: np.ndarray, number: int, how: str) -> None:
    if how == "sum":
        trajectory.reshape(-1).view(np.uint64).sum()
    else:
        assert (trajectory.reshape(-1)[::MARKED] == number % 256).all()


class Source:
    """Sends trajectories."""

    def __init__(self, trajectories: Any) -> None:
        self._trajectories = trajectories

    async def run(self) -> None:
        mine = np.zeros((STEPS, WIDTH, SIDE, SIDE), np.uint8)
        for number in range(WARM + TIMED):
            mark(mine, number)
            slot = (await self._trajectories.reserve())["observation"]
            for step in range(STEPS):
                slot[step] = mine[step]
            self._trajectories.commit()

    def close(self) -> None: ...


class Sink:
    """Reads them, and keeps how many bytes came in a second."""

    def __init__(self, trajectories: Any, how: str, speeds: list[float]) -> None:
        self._trajectories, self._how, self._speeds = trajectories, how, speeds

    async def run(self) -> None:
        began = 0.0
        for number in range(WARM + TIMED):
            if number == WARM:
                began = time.perf_counter()
            trajectory = await self._trajectories.get()
            read(trajectory["observation"], number, self._how)
            self._trajectories.release()
        self._speeds.append(TIMED * BYTES / (time.perf_counter() - began))

    def close(self) -> None: ...


class Asker:
    """Sends messages and waits for each to come back, by two queues or by a call."""

    def __init__(self, there: Any, back: Any, medians: list[float]) -> None:
        self._there, self._back, self._medians = there, back, medians

    async def run(self) -> None:
        message, seconds = {"data": np.ones(1024, np.uint8)}, []
        for _ in range(TRIPS_WARM + TRIPS):
            began = time.perf_counter()
            if self._back is None:
                await self._there.send(message)
                await self._there.receive()
            else:
                await self._there.put(message)
                await self._back.get()
                self._back.release()
            seconds.append(time.perf_counter() - began)
        self._medians.append(statistics.median(seconds[TRIPS_WARM:]))

    def close(self) -> None: ...


class Echo:
    """Sends messages back."""

    def __init__(self, there: Any, back: Any) -> None:
        self._there, self._back = there, back

    async def run(self) -> None:
        while True:
            if self._back is None:
                (request,) = await self._there.collect(1, 0.0)
                await self._there.reply(request, request.value)
            else:
                await self._back.put(await self._there.get())
                self._there.release()

    def close(self) -> None: ...


def weft_speed(runtime_name: str, how: str) -> float:
    """Return bytes a second through a queue."""
    program, speeds = Program("trajectories"), list[float]()
    trajectories = program.queue("trajectories", TRAJECTORY, capacity=2)
    program.add("source", Source, trajectories.into)
    program.main("sink", Sink, trajectories.out, how, speeds)
    runtime.find(runtime_name)(program).run()
    return speeds[0]


def weft_trip(runtime_name: str, by: str) -> float:
    """Return the median seconds of a round trip."""
    program, medians = Program("messages"), list[float]()
    if by == "call":
        call = program.call("messages", MESSAGE, MESSAGE)
        program.add("echo", Echo, call.server, None)
        program.main("asker", Asker, call.client, None, medians)
    else:
        there, back = program.queue("there", MESSAGE), program.queue("back", MESSAGE)
        program.add("echo", Echo, there.out, back.into)
        program.main("asker", Asker, there.into, back.out, medians)
    runtime.find(runtime_name)(program).run()
    return medians[0]


def memcpy(beside_another: bool = False) -> float:
    """Return bytes a second of plain copies."""
    source, target = (np.ones((STEPS, WIDTH, SIDE, SIDE), np.uint8) for _ in range(2))
    idler = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) if beside_another else None
    try:
        for number in range(WARM + TIMED):
            if number == WARM:
                began = time.perf_counter()
            np.copyto(target, source)
        return TIMED * BYTES / (time.perf_counter() - began)
    finally:
        if idler is not None:
            idler.kill()
            idler.wait()


def _send(put: Callable[[Any], None]) -> None:
    mine = np.zeros((STEPS, WIDTH, SIDE, SIDE), np.uint8)
    for number in range(WARM + TIMED // 5):
        mark(mine, number)
        put(mine)


def _echo(get: Callable[[], Any], put: Callable[[Any], None]) -> None:
    for _ in range(TRIPS_WARM + TRIPS):
        put(get())


def other_speed(kind: str) -> float:
    """Return bytes a second through what multiprocessing has; a queue of it holds two trajectories at most."""
    spawn = multiprocessing.get_context("spawn")
    if kind == "pipe":
        out, into = spawn.Pipe(duplex=False)
        get = out.recv
        arguments: Any = (into,)
        target: Any = _send_by_pipe
    else:
        queue = spawn.Queue(maxsize=2)
        get = queue.get
        arguments, target = (queue,), _send_by_queue
    process = spawn.Process(target=target, args=arguments, daemon=True)
    process.start()
    for number in range(WARM + TIMED // 5):
        if number == WARM:
            began = time.perf_counter()
        read(get(), number, "marks")
    speed = TIMED // 5 * BYTES / (time.perf_counter() - began)
    process.join()
    return speed


def _send_by_pipe(into: Any) -> None:
    _send(into.send)


def _send_by_queue(queue: Any) -> None:
    # The queue pickles in a thread of its own, so that what was put must not change any more.
    _send(lambda trajectory: queue.put(trajectory.copy()))


def other_trip(kind: str) -> float:
    """Return the median seconds of a round trip through what multiprocessing has."""
    spawn = multiprocessing.get_context("spawn")
    if kind == "pipe":
        mine, theirs = spawn.Pipe()
        put, get = mine.send, mine.recv
        process = spawn.Process(target=_echo_by_pipe, args=(theirs,), daemon=True)
    else:
        there, back = spawn.Queue(), spawn.Queue()
        put, get = there.put, back.get
        process = spawn.Process(target=_echo_by_queue, args=(there, back), daemon=True)
    process.start()
    message, seconds = {"data": np.ones(1024, np.uint8)}, []
    for _ in range(TRIPS_WARM + TRIPS):
        began = time.perf_counter()
        put(message)
        get()
        seconds.append(time.perf_counter() - began)
    process.join()
    return statistics.median(seconds[TRIPS_WARM:])


def _echo_by_pipe(end: Any) -> None:
    _echo(end.recv, end.send)


def _echo_by_queue(there: Any, back: Any) -> None:
    _echo(there.get, back.put)


SPEEDS: dict[str, Callable[[], float]] = {
    "memcpy": memcpy,
    "memcpy beside a sleeping process": partial(memcpy, True),
    "processes, marks": partial(weft_speed, "processes", "marks"),
    "processes, sum": partial(weft_speed, "processes", "sum"),
    "threads, marks": partial(weft_speed, "threads", "marks"),
    "threads, sum": partial(weft_speed, "threads", "sum"),
    "multiprocessing pipe": partial(other_speed, "pipe"),
    "multiprocessing queue": partial(other_speed, "queue"),
}
TRIP_SIDES: dict[str, Callable[[], float]] = {
    "processes, queues": partial(weft_trip, "processes", "queues"),
    "processes, call": partial(weft_trip, "processes", "call"),
    "threads, queues": partial(weft_trip, "threads", "queues"),
    "threads, call": partial(weft_trip, "threads", "call"),
    "multiprocessing pipe": partial(other_trip, "pipe"),
    "multiprocessing queue": partial(other_trip, "queue"),
}


def in_turns(sides: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure all sides in turn, so that whatever else the machine does hits all of them."""
    measured: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            measured[name].append(side())
            print(f"{name}: {measured[name][-1]:.4g}", file=sys.stderr)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    speeds, trips = in_turns(SPEEDS, rounds), in_turns(TRIP_SIDES, rounds)
    speed = {name: statistics.median(values) for name, values in speeds.items()}
    trip = {name: 1e6 * statistics.median(values) for name, values in trips.items()}
    share = {name: value / speed["memcpy"] for name, value in speed.items()}
    measuring.table(
        ("4.5 MB one way", "GB/s", "of memcpy"),
        [(name, f"{value / 1e9:.2f}", f"{share[name]:.0%}") for name, value in speed.items()],
    )
    print()
    measuring.table(("1 KB there and back", "median us"), [(name, f"{value:.1f}") for name, value in trip.items()])
    measuring.save(
        "channels",
        f"Channels between two nodes: trajectories of {BYTES:,} bytes one way (bytes/s), 1 KB there and back (us)",
        {
            "bytes_per_second": {"median": speed, "of_memcpy": share, "all": speeds},
            "round_trip_us": {"median": trip, "all": {name: [1e6 * v for v in vs] for name, vs in trips.items()}},
        },
    )


if __name__ == "__main__":
    main()
