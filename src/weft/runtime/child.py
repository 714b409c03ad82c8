"""The command of a node's process: ``python -m weft.runtime.child BIRTH REPORTS``, two inherited descriptors.

It imports no JAX by itself: a node that runs no policy never pays for it.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
from multiprocessing.connection import Connection

from weft.allocation import keep_memory
from weft.runtime.lives import Lives, NodeFailed, cause_of, live, trace_of
from weft.runtime.processes import Birth
from weft.runtime.wiring import opened

PR_SET_PDEATHSIG = 1


def main(birth_descriptor: int, reports_descriptor: int) -> int:
    """Run one node to its end."""
    keep_memory()
    with os.fdopen(birth_descriptor, "rb") as file:
        birth: Birth = pickle.load(file)
    die_with(birth.parent)
    reports = Connection(reports_descriptor, readable=False)
    node, (host, board) = birth.node, birth.host()
    flows = [board.flow(edge) for edge in range(birth.edges)]
    lives = Lives(node, lambda: sum(flow.totals[1] for flow in flows), lambda text: reports.send(("note", text)))
    try:
        live(node, lambda: opened(node.arguments, host), board.seat(birth.place), lives, board)
    except BaseException as error:
        reports.send(("failed", _portable(error)))
        return 1
    return 0


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent dies, however that comes about."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def _portable(error: BaseException) -> BaseException:
    """Return the error, or what it says if it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return NodeFailed(f"{trace_of(error)}{cause_of(error)}")


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
