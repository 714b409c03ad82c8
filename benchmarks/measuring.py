"""What the benchmarks share: the machine, result files, virtual environments of peers, tables."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import venv
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PEERS = Path(os.environ.get("WEFT_PEERS", HERE.parent / ".cache" / "peers")).absolute()
"""Where each peer has its own virtual environment."""
TORCH = ("torch==2.13.0", "numpy")
"""Installed before a library that needs it, so that pip's own settings decide which build it is."""


def machine() -> dict[str, Any]:
    """Return what a figure depends on besides the code."""
    cpu = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return {
        "processor": cpu[0],
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "system": platform.system(),
        "python": platform.python_version(),
    }


def save(name: str, about: str, results: Any) -> None:
    """Write ``results/NAME.json`` beside the command that made it."""
    command = shlex.join(["python", *(os.path.relpath(part) if part == sys.argv[0] else part for part in sys.argv)])
    record = {
        "about": about,
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": MACHINE,
        "results": results,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\n{os.path.relpath(path)}")


def python_of(peer: str, stages: Sequence[Sequence[str]], environment: Mapping[str, str] | None = None) -> Path:
    """Return the Python of a peer's own virtual environment, made by ``pip install`` in stages if it is not there."""
    folder = PEERS / peer
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        print(f"Installing {peer} into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        for stage in stages:
            command = [python, "-m", "pip", "install", "-q", *stage]
            subprocess.run(command, check=True, stdout=sys.stderr, env=os.environ | (environment or {}))
        done.touch()
    return python


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print columns, the first to the left and the others to the right."""
    lines = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for first, *others in lines:
        print(first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)))


MACHINE = machine()
