"""What every runtime does with a program: lay out its channels, start its nodes, watch them, stop them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from weft.program import NodeSpec, Program, Queue
from weft.runtime.board import Host, Seat, Stopped
from weft.runtime.flow import FlowMeter, watch_out
from weft.runtime.lives import Lives, drive
from weft.runtime.memory import Memory
from weft.runtime.order import AsTheyCome, Order, Recorded, Repeated
from weft.runtime.wiring import Edge, Wiring, opened


class OrderSink(Protocol):
    """Where the recorded order of events goes."""

    def write(self, edge: str, choices: Sequence[int]) -> None:
        """Append the choices of one reading end."""

    def give_up(self, why: str) -> None:
        """Say that the run cannot be repeated from here on."""


@dataclass(frozen=True)
class Options:
    """How a program is watched."""

    note: Callable[[str], None] = lambda text: None
    """Tells the user something."""
    patience: float = 60.0
    """Seconds without progress after which a node is named."""
    record: OrderSink | None = None
    """Where the order of events goes; None: it is not kept."""
    repeat: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Edge -> the choices to repeat; for ``inline`` only."""


class Execution(ABC):
    """One execution of a program: made, run once, and looked at meanwhile."""

    def __init__(self, program: Program, options: Options = Options()) -> None:
        program.check()
        self.program = program
        self.options = options
        self._recorded: dict[str, Recorded] = {}
        self.wiring = Wiring(program, self.allocate, self._order)
        self.board = self.wiring.board
        self.flow = FlowMeter(self.wiring)
        self._failure: BaseException | None = None
        self._failing = threading.Lock()

    @abstractmethod
    def run(self) -> None:
        """Run the program to its end; raises what ended it, if it was an error."""

    @abstractmethod
    def allocate(self, size: int) -> Memory:
        """Return memory that all nodes see."""

    def _order(self, edge: Edge) -> Order:
        name = name_of(edge)
        if self.options.repeat:
            return Repeated(self.options.repeat.get(name, ()))
        if self.options.record is None:
            return AsTheyCome()
        self._recorded[name] = Recorded(self.allocate(Recorded.BYTES))
        return self._recorded[name]

    def _fetch_order(self) -> None:
        """Write down what was recorded since the last call."""
        sink = self.options.record
        if sink is None:
            return
        for name, recorded in self._recorded.items():
            try:
                choices = recorded.fetch()
            except OverflowError:
                sink.give_up(f"the order of events at {name} came faster than it could be written down")
                continue
            if choices:
                sink.write(name, choices)
        for channel in self.program.channels.values():
            if isinstance(channel, Queue) and self.wiring.dropped(channel):
                sink.give_up(f"messages in {channel.name} were dropped")

    def _fail(self, error: BaseException) -> None:
        """End the program with an error; the first one counts, and none that comes after the end."""
        with self._failing:
            if not self.board.stopping:
                self._failure = error
        self._stop()

    def _stop(self) -> None:
        """Tell all nodes that the program is over."""
        self.board.stop()

    def _tell(self, text: str) -> None:
        """Pass on that a node crashed, after which the order of events is no longer all there is to know."""
        self.options.note(text)
        if self.options.record is not None:
            self.options.record.give_up(text)

    def _lives(self, node: NodeSpec) -> Lives:
        return Lives(node, lambda: self.flow.messages(node), self._tell)

    def _seat(self, node: NodeSpec) -> Seat:
        return self.board.seat(self.wiring.place(node))

    def _run_main(self, host: Host) -> None:
        """Run the main node in this thread; raises what ended the program."""
        (main,) = (node for node in self.wiring.nodes if node.main)
        made: Any = None
        try:
            made = main.factory(*opened(self.wiring.arguments(main), host))
            drive(made.run())
        except Stopped:
            if self._failure is None:
                raise
        finally:
            self._stop()
            if made is not None:
                made.close()


class Watching:
    """A thread that looks after a running program: writes down the order of events and names what is stuck."""

    PERIOD = 0.05

    def __init__(self, execution: Execution, more: Callable[[], None] = lambda: None) -> None:
        """``more`` is called in every round."""
        self._execution = execution
        self._more = more
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft watching", daemon=True)

    def __enter__(self) -> Watching:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        execution = self._execution
        look = watch_out(execution.wiring, execution.options.patience, execution.options.note)
        while not self._over.wait(self.PERIOD):
            execution._fetch_order()
            look()
            self._more()
        execution._fetch_order()


def name_of(edge: Edge) -> str:
    """Return the name of an edge, e.g. ``learner < unrolls``."""
    return f"{edge.node.name} {'<' if edge.end in ('out', 'server') else '>'} {edge.channel.name}"
