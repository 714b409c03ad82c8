"""``processes``: a process for each node, for environments in Python; messages go through shared memory.

Processes are spawned, not forked, by a command of their own, so that they import what their node needs and nothing of
the caller's main module. They die with their parent, and what they share has no name that could be left behind.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any

import cloudpickle

from weft.program import NodeSpec
from weft.runtime.board import BlockingHost, Board
from weft.runtime.execution import Execution, Watching
from weft.runtime.lives import Lives
from weft.runtime.memory import Arena, SharedMemory

GRACE = 3.0
"""Seconds that processes have to come to their end before they are killed."""
SPIN = 40e-6
"""Seconds that a node looks again before it sleeps: about what being woken costs."""


@dataclass(frozen=True)
class Birth:
    """All that a child needs; it pickles."""

    node: NodeSpec
    """with wires in place of ports"""
    place: int
    nodes: int
    edges: int
    board: SharedMemory
    bells: list[PipeBell]
    parent: int

    def host(self) -> tuple[BlockingHost, Board]:
        """Return how the node waits, and the board."""
        board = Board(self.board, self.nodes, self.edges)
        return BlockingHost(board, self.place, self.edges, list(self.bells), SPIN), board


class PipeBell:
    """Wakes a process by a byte in a pipe."""

    def __init__(self, ends: tuple[int, int] | None = None) -> None:
        self.ends = ends or os.pipe()
        for end in self.ends:
            os.set_blocking(end, False)
        self._poll = select.poll()
        self._poll.register(self.ends[0], select.POLLIN)

    def __reduce__(self) -> tuple[type[PipeBell], tuple[tuple[int, int]]]:
        return PipeBell, (self.ends,)

    def ring(self) -> None:
        """Wake it; a pipe that is full has rung enough."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.ends[1], b"!")

    def sleep(self, seconds: float) -> None:
        """Sleep until the bell rings."""
        if self._poll.poll(seconds * 1000):
            os.read(self.ends[0], 4096)

    def close(self) -> None:
        """Give up the pipe."""
        for end in self.ends:
            os.close(end)


class Child:
    """A node's process, as its parent sees it."""

    def __init__(self, node: NodeSpec, lives: Lives) -> None:
        self.node = node
        self.process: subprocess.Popen[bytes] | None = None
        self.due: float | None = 0.0
        """When to start it; None while it runs, and once it has come to its end."""
        self._lives = lives
        self._reports: Connection | None = None

    def start(self, payload: bytes, descriptors: list[int], environment: dict[str, str]) -> None:
        """Spawn the process."""
        self._reports, reports = Pipe(duplex=False)
        with reports:
            birth = os.memfd_create("weft birth")
            try:
                os.write(birth, payload)
                os.lseek(birth, 0, os.SEEK_SET)
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "weft.runtime.child", str(birth), str(reports.fileno())],
                    env=environment,
                    pass_fds=[*descriptors, birth, reports.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # so that Ctrl-C in the terminal is the parent's alone
                )
            finally:
                os.close(birth)
        self.due = None

    def look(self, execution: Processes) -> None:
        """Hear what the child reports; plan its next life if it died."""
        while self._reports is not None and self._reports.poll():
            try:
                kind, what = self._reports.recv()
            except (EOFError, OSError):
                self._reports.close()
                self._reports = None
                self._ended(execution)
                return
            if kind == "note":
                execution._tell(what)
            else:
                execution._fail(what)

    def _ended(self, execution: Processes) -> None:
        assert self.process is not None
        code = self.process.wait()
        if code == 0 or execution.board.stopping:
            return
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        seconds = self._lives.next(f"its process ended by {how}", "")
        seat = execution._seat(self.node)
        seat.life += 1
        self.due = time.monotonic() + seconds

    def finish(self, deadline: float) -> bool:
        """Wait for the end of the process, then kill it; returns whether it ended by itself."""
        if self.process is None:
            return True
        try:
            self.process.wait(max(deadline - time.monotonic(), 0.0))
            return True
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False


class Processes(Execution):
    """The main node in the calling process, each other one in a process of its own."""

    def allocate(self, size: int) -> SharedMemory:
        """Return memory that all nodes see."""
        if not hasattr(self, "_arena"):
            self._arena = Arena()
        return self._arena.allocate(size)

    def run(self) -> None:
        """Run the program to its end."""
        nodes = self.wiring.nodes
        self._bells = [PipeBell() for _ in nodes]
        main = next(place for place, node in enumerate(nodes) if node.main)
        self._children = [Child(node, self._lives(node)) for node in nodes if not node.main]
        host = BlockingHost(self.board, main, len(self.wiring.edges), list(self._bells), SPIN)
        try:
            self._look_after()
            with Watching(self, self._look_after):
                self._run_main(host)
        finally:
            self._stop()
            self._finish()
            self._arena.close()
            for bell in self._bells:
                bell.close()
        if self._failure is not None:
            raise self._failure

    def _look_after(self) -> None:
        """Start children that are due, and hear what they report."""
        try:
            for child in self._children:
                child.look(self)
                if child.due is not None and child.due <= time.monotonic() and not self.board.stopping:
                    self._start(child)
        except Exception as error:
            self._fail(error)

    def _start(self, child: Child) -> None:
        node = child.node
        arguments = self.wiring.arguments(node)
        wired = NodeSpec(node.name, node.role, node.factory, arguments, restarts=node.restarts, cores=node.cores)
        birth = Birth(
            wired,
            self.wiring.place(node),
            len(self.wiring.nodes),
            len(self.wiring.edges),
            self.wiring.board_memory,  # type: ignore[arg-type]
            self._bells,
            os.getpid(),
        )
        descriptors = [self._arena.descriptor, *(end for bell in self._bells for end in bell.ends)]
        child.start(cloudpickle.dumps(birth), descriptors, environment_of(node))

    def _stop(self) -> None:
        super()._stop()
        for bell in self._bells:
            bell.ring()

    def _finish(self) -> None:
        deadline = time.monotonic() + GRACE
        for child in self._children:
            ended = child.finish(deadline)
            child.look(self)
            if not ended:
                self.options.note(f"{child.node.name} did not end within {GRACE:.0f} s and was killed.")


def environment_of(node: NodeSpec) -> dict[str, str]:
    """Return the environment of a child: it imports what its parent can, and keeps to its share of the cores."""
    environment: dict[str, Any] = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    if node.cores is not None:
        cores = str(node.cores)
        # NPROC is the number of threads that XLA starts on the CPU; the others are those of what it calls and of numpy.
        names = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment |= {**dict.fromkeys(names, cores), "JAX_PLATFORMS": "cpu"}
    return environment
