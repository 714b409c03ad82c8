"""PPO and DQN on CartPole-v1 in weft and in other libraries: agent steps a second, learning included.

The same setting for all: PPO with 128 steps, 4 epochs and 4 minibatches, plain DQN with 1 environment, batches of 128
and an update a step, networks of 64-64. The clock starts after the first update, so that start-up and compilation do
not count, and stops when training returns. The libraries take turns, so that whatever else the machine does hits all
of them; the figure is the median over the rounds. Each setting has a result file of its own. Peers get virtual
environments of their own, in ``$WEFT_PEERS`` or ``.cache/peers``.

    python benchmarks/peers.py [--rounds 5] [--settings ppo_8 ...] [--peers tianshou ...]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import measuring

SCRIPTS = measuring.HERE / "peers"
SETTINGS = {"ppo_8": ("ppo", 8, 150_000), "ppo_64": ("ppo", 64, 400_000), "dqn": ("dqn", 1, 12_000)}
"""Algorithm, environments and steps of each setting; a run takes about ten seconds."""


class Peer(NamedTuple):
    """How to install a library, and what of the settings it can do."""

    stages: Sequence[Sequence[str]]
    """Arguments of each ``pip install``."""
    environment: dict[str, str] = {}  # noqa: RUF012
    settings: Sequence[str] = tuple(SETTINGS)


PEERS = {
    "stable-baselines3": Peer([measuring.TORCH, ["stable-baselines3>=2.4"]]),
    "sbx-rl": Peer([measuring.TORCH, ["sbx-rl>=0.20"]]),
    "tianshou": Peer([measuring.TORCH, ["tianshou>=2,<3"]]),
    "pufferlib": Peer(
        [measuring.TORCH, ["setuptools", "Cython", "pybind11"], ["--no-build-isolation", "pufferlib>=3,<4"]],
        # Without its own games, which are downloaded, and without nvcc, which it would use for a build on the CPU too.
        {"NO_OCEAN": "1", "PATH": os.defpath, "PYTHONPATH": str(SCRIPTS / "pufferlib_build")},
        settings=("ppo_8", "ppo_64"),
    ),
}


def measure(python: Path, library: str, setting: str) -> dict[str, Any]:
    """Run one library's script once and return what it prints."""
    script = SCRIPTS / f"{library.replace('-', '_')}_cartpole.py"
    command = [python, script, *map(str, SETTINGS[setting])]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{library} failed:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(pythons: dict[str, Path], setting: str, rounds: int) -> dict[str, Any]:
    """Run all libraries in turn, ``rounds`` times, and return their speeds."""
    speeds: dict[str, list[float]] = {library: [] for library in pythons}
    versions = {}
    for _ in range(rounds):
        for library, python in pythons.items():
            result = measure(python, library, setting)
            speeds[library].append(result["steps_per_second"])
            versions[library] = result["version"]
            print(f"{setting} {library} {result['steps_per_second']:,.0f}", file=sys.stderr)
    median = {library: statistics.median(values) for library, values in speeds.items()}
    best = max(value for library, value in median.items() if library != "weft")
    return {"versions": versions, "median": median, "all": speeds, "weft_to_best_peer": median["weft"] / best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    options = parser.parse_args()
    pythons = {"weft": Path(sys.executable)} | {
        name: measuring.python_of(name, PEERS[name].stages, PEERS[name].environment) for name in options.peers
    }
    for setting in options.settings:
        able = {name: path for name, path in pythons.items() if name == "weft" or setting in PEERS[name].settings}
        result = compare(able, setting, options.rounds)
        speeds = result["median"]
        rows = [(name, f"{speed:,.0f}", f"{speeds['weft'] / speed:.2f}") for name, speed in speeds.items()]
        measuring.table((setting, "steps/s", "weft to it"), rows)
        measuring.save(f"peers_{setting}", "CartPole-v1 by library, agent steps a second, learning included", result)


if __name__ == "__main__":
    main()
