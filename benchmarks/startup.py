"""How long weft takes to begin: importing, the command's help, and training up to the first update, cold and warm.

Each is a fresh process. Cold means an empty compilation cache, warm the cache that the cold run left behind.

    python benchmarks/startup.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import measuring

WEFT = str(Path(sys.executable).with_name("weft"))
PPO = "import weft; weft.train('ppo', 'CartPole-v1', envs=8, steps=1_024, seed=0, progress=False)"
DQN = (
    "import weft; weft.train('dqn', 'CartPole-v1', envs=1, steps=129, seed=0, progress=False, settings={'warmup': 128})"
)
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import weft": [sys.executable, "-c", "import weft"],
    "weft --help": [WEFT, "--help"],
}
UPDATES = {"ppo": [sys.executable, "-c", PPO], "dqn": [sys.executable, "-c", DQN]}
"""Whole runs of a single update: they also write the run's folder and its checkpoint, so they are upper bounds."""


def seconds(command: Sequence[str], folder: Path, cache: Path) -> float:
    """Return how long a process takes from its start to its end, with its compilation cache in ``cache``."""
    began = time.perf_counter()
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for what, command in COMMANDS.items():
                times.setdefault(what, []).append(seconds(command, folder, folder / "none"))
            for algorithm, command in UPDATES.items():
                for state in ("cold", "warm"):
                    what = f"first update of {algorithm}, {state}"
                    times.setdefault(what, []).append(seconds(command, folder, folder / algorithm))
    medians = {what: statistics.median(values) for what, values in times.items()}
    measuring.table(
        ("what", "median s", "fastest s"),
        [(what, f"{medians[what]:.2f}", f"{min(values):.2f}") for what, values in times.items()],
    )
    measuring.save("startup", "Seconds from the start of a process", {"median": medians, "all": times})


if __name__ == "__main__":
    main()
