"""Asynchronous against synchronous sampling when environments are slow, and unevenly so.

An environment sleeps before each step, for log-normal times with a mean of 5 ms and a coefficient of variation of 0 to
2; a long sleep is a slow episode of one environment, which is what lock-step suffers from. Four actors with one
environment each feed one learner, in ``sync`` and in ``impala`` (``--runtime threads``: sleeping takes no core); the
figure is agent steps a second over the middle of the run. Then 64 sleeping actors against one, in processes.

    python benchmarks/slow_environments.py [--rounds 3] [--parts variance actors]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import gymnasium
import measuring
import numpy as np

import weft

MEAN = 0.005
VARIATIONS = (0.0, 0.5, 1.0, 2.0)
ACTORS, STEPS_EACH, UNROLL = 4, 1_500, 20
SETTINGS = {"unroll": UNROLL, "network": {"hidden": [16]}}
MANY, MANY_STEPS_EACH = 64, 4_000


class Sleeper(gymnasium.Env):
    """CartPole's spaces, nothing to learn, and steps that take their time."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, variation: float = 0.0) -> None:
        self._sigma = np.sqrt(np.log1p(variation**2))
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        time.sleep(MEAN * np.exp(self.np_random.normal(-(self._sigma**2) / 2, self._sigma)))
        self._steps += 1
        return np.zeros(4, np.float32), 1.0, self._steps == 100, False, {}


def speed(topology: str, runtime: str, actors: int, variation: float, steps: int) -> float:
    """Return agent steps a second between a fifth of the run and its end."""
    with tempfile.TemporaryDirectory() as folder:
        run = weft.train(
            "impala",
            "slow_environments:Sleeper",
            topology=topology,
            runtime=runtime,
            actors=actors,
            envs=1,
            steps=steps,
            env={"arguments": {"variation": variation}},
            settings=SETTINGS,
            loggers=(),
            progress=False,
            folder=Path(folder) / "run",
        )
        taken, seconds = run.metrics["steps"], run.metrics["seconds"]
    begin = int(np.searchsorted(taken, steps / 5))
    return float((taken[-1] - taken[begin]) / (seconds[-1] - seconds[begin]))


def uneven(rounds: int) -> dict[str, dict[str, float]]:
    """Speeds by coefficient of variation, both topologies in turn."""
    results = {}
    for variation in VARIATIONS:
        speeds: dict[str, list[float]] = {"sync": [], "impala": []}
        for _ in range(rounds):
            for topology, values in speeds.items():
                values.append(speed(topology, "threads", ACTORS, variation, ACTORS * STEPS_EACH))
                print(f"{topology}, variation {variation}: {values[-1]:.0f}", file=sys.stderr)
        medians = {topology: statistics.median(values) for topology, values in speeds.items()}
        results[str(variation)] = {**medians, "ratio": medians["impala"] / medians["sync"]}
    return results


def many() -> dict[str, float]:
    """One sleeping actor against many, each in a process of its own."""
    one = speed("impala", "processes", 1, 0.0, MANY_STEPS_EACH // 4)
    all_ = speed("impala", "processes", MANY, 0.0, MANY * MANY_STEPS_EACH)
    return {"one": one, str(MANY): all_, "share_of_linear": all_ / (MANY * one)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=("variance", "actors"), default=["variance", "actors"])
    options = parser.parse_args()
    results: dict[str, object] = {}
    if "variance" in options.parts:
        results["variance"] = by_variation = uneven(options.rounds)
        rows = [
            (name, f"{row['sync']:.0f}", f"{row['impala']:.0f}", f"{row['ratio']:.2f}")
            for name, row in by_variation.items()
        ]
        measuring.table(("coefficient of variation", "sync, steps/s", "impala, steps/s", "ratio"), rows)
    if "actors" in options.parts:
        results["actors"] = counts = many()
        measuring.table(("actors", "steps/s"), [(name, f"{value:.2f}") for name, value in counts.items()])
    measuring.save("slow_environments", "Sampling from sleeping environments, agent steps a second", results)


if __name__ == "__main__":
    main()
