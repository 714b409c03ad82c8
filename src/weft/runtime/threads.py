"""``threads``: a thread for each node, for compiled environments and those that do not hold the interpreter's lock."""

from __future__ import annotations

import threading

import cloudpickle

from weft.program import NodeSpec, Port, replaced
from weft.runtime.board import BlockingHost
from weft.runtime.execution import Execution, Watching
from weft.runtime.lives import cause_of, live
from weft.runtime.memory import PrivateMemory
from weft.runtime.wiring import opened

GRACE = 5.0
"""Seconds that nodes have to come to their end."""


class Threads(Execution):
    """The main node in the calling thread, each other one in a thread of its own."""

    def allocate(self, size: int) -> PrivateMemory:
        """Return memory that all nodes see."""
        return PrivateMemory(size)

    def run(self) -> None:
        """Run the program to its end."""
        nodes = self.wiring.nodes
        self._bells = [EventBell() for _ in nodes]
        hosts = {
            node.name: BlockingHost(self.board, place, len(self.wiring.edges), list(self._bells))
            for place, node in enumerate(nodes)
        }
        others = [node for node in nodes if not node.main]
        threads = [
            threading.Thread(target=self._live, args=(node, hosts[node.name]), name=node.name, daemon=True)
            for node in others
        ]
        for node in others:
            self._check_that_it_pickles(node)
        with Watching(self):
            for thread in threads:
                thread.start()
            try:
                self._run_main(next(hosts[node.name] for node in nodes if node.main))
            finally:
                self._stop()
                self._join(threads)
        if self._failure is not None:
            raise self._failure

    def _live(self, node: NodeSpec, host: BlockingHost) -> None:
        arguments = self.wiring.arguments(node)
        try:
            live(node, lambda: opened(arguments, host), self._seat(node), self._lives(node), self.board)
        except BaseException as error:
            self._fail(error)

    def _stop(self) -> None:
        super()._stop()
        for bell in self._bells:
            bell.ring()

    def _join(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.join(GRACE)
            if thread.is_alive():
                self.options.note(f"{thread.name} did not end within {GRACE:.0f} s, and is left behind.")

    def _check_that_it_pickles(self, node: NodeSpec) -> None:
        try:
            cloudpickle.dumps((node.factory, replaced(node.arguments, Port, lambda port: None)))
        except Exception as error:
            self.options.note(
                f"{node.name} cannot be pickled ({cause_of(error)}): it can run in a thread, "
                "but not in a process of its own."
            )


class EventBell:
    """Wakes a thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        """Wake it."""
        self._event.set()

    def sleep(self, seconds: float) -> None:
        """Sleep until the bell rings."""
        self._event.wait(seconds)
        self._event.clear()
