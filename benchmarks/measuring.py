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


def python_of(peer: str, packages: Sequence[str]) -> Path:
    """Return the Python of a peer's own virtual environment, which is made if it is not there."""
    python = PEERS / peer / "bin" / "python"
    if not python.exists():
        print(f"Installing {peer} into {PEERS / peer}", file=sys.stderr)
        venv.create(PEERS / peer, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, stdout=sys.stderr)
    return python


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print columns, the first to the left and the others to the right."""
    lines = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for first, *others in lines:
        print(first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)))


def last_json_line(output: str) -> Mapping[str, Any]:
    """Return what a benchmark script printed last."""
    return json.loads(output.strip().splitlines()[-1])


MACHINE = machine()
