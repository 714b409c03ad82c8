"""IMPALA on CartPole-v1: how soon is the mean return of 100 episodes 450, and how many steps a second does it make?

weft's ``impala`` on ``threads`` and ``processes`` and RLlib's with its tuned settings, each with one actor (runner) of
8 environments beside one learner. Three times are told: agent steps until then, seconds of training (weft: since its
program was begun, with the start of its processes and compilation; RLlib: since the algorithm was built, without the
start of Ray), and seconds since the command was begun. The libraries take turns, a seed for each round.

    python benchmarks/impala_cartpole.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import measuring

SCRIPTS = measuring.HERE / "peers"
MEASURES = ("steps", "seconds", "seconds_with_start", "steps_per_second")
RLLIB = (measuring.TORCH, ("ray[rllib]>=2.50",))


def measure(python: Path, script: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run one script once and return what it prints."""
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_DEDUP_LOGS": "0"}
    with tempfile.TemporaryDirectory() as folder:
        command, began = [python, SCRIPTS / script, *arguments], time.time()
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    if done.returncode:
        raise SystemExit(f"{script} failed:\n{done.stderr}")
    result = json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{")))
    return {**result, "seconds_with_start": result["reached_at"] - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    mine, theirs = Path(sys.executable), measuring.python_of("rllib", RLLIB)
    sides = {
        "weft, threads": (mine, "weft_impala_cartpole.py", ["threads"]),
        "weft, processes": (mine, "weft_impala_cartpole.py", ["processes"]),
        "RLlib": (theirs, "rllib_impala_cartpole.py", []),
    }
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for seed in range(rounds):
        for name, (python, script, arguments) in sides.items():
            results[name].append(measure(python, script, [*arguments, str(seed)]))
            print(name, results[name][-1], file=sys.stderr)
    median = {
        name: {measure: statistics.median(run[measure] for run in runs) for measure in MEASURES}
        for name, runs in results.items()
    }
    rows = [
        (
            name,
            f"{row['steps']:,}",
            f"{row['seconds']:.1f}",
            f"{row['seconds_with_start']:.1f}",
            f"{row['steps_per_second']:,.0f}",
        )
        for name, row in median.items()
    ]
    measuring.table(("450 on CartPole-v1", "steps", "seconds", "with start", "steps/s"), rows)
    ratio = {
        name: {measure: row[measure] / median["RLlib"][measure] for measure in MEASURES} for name, row in median.items()
    }
    measuring.save(
        "impala_cartpole", "IMPALA on CartPole-v1 to 450", {"median": median, "to_rllib": ratio, "all": results}
    )


if __name__ == "__main__":
    main()
