"""Asynchronous against synchronous sampling when environments are slow, and unevenly so.

An environment sleeps before each step, for log-normal times with a mean of 5 ms and a coefficient of variation of 0 to
2; a long sleep is a slow episode of one environment, which is what lock-step suffers from. 4 and 16 actors with one
environment each, in processes of their own, feed one learner by unrolls of 10 steps, in ``sync`` and in ``impala`` (a
quarter of them make a batch); the figure is agent steps a second over the middle of the run. How much lock-step loses
follows from the times alone: a round of n unrolls takes as long as the longest of them. That ratio, drawn at random, is
told as ``ideal``.

Then 64 sleeping actors against one, each in a process of its own, with steps of 5 and of 25 ms.

    python benchmarks/slow_environments.py [--rounds 3] [--parts variance actors] [--actors 4 16]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import measuring
import numpy as np

import weft

MEAN = 0.005
VARIATIONS = (0.0, 0.5, 1.0, 2.0)
STEPS_EACH, UNROLL = 1_500, 10
SETTINGS = {"unroll": UNROLL, "network": {"hidden": [16]}}
MANY, MANY_SECONDS, MANY_MEANS = 64, 20.0, (0.005, 0.025)
MANY_SETTINGS = {**SETTINGS, "unroll": 100}
MANY_BATCH = 8
"""So that what limits them is not the learner, which would have 600 updates a second to make of so little."""


class Sleeper(gymnasium.Env):
    """CartPole's spaces, nothing to learn, and steps that take their time."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, variation: float = 0.0, mean: float = MEAN) -> None:
        self._mean, self._sigma = mean, np.sqrt(np.log1p(variation**2))
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        time.sleep(self._mean * np.exp(self.np_random.normal(-(self._sigma**2) / 2, self._sigma)))
        self._steps += 1
        return np.zeros(4, np.float32), 1.0, self._steps == 100, False, {}


def speed(
    topology: str,
    runtime: str,
    actors: int,
    steps: int,
    arguments: dict[str, float],
    settings: dict[str, Any] = SETTINGS,
    graph: dict[str, Any] | None = None,
) -> float:
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
            env={"arguments": arguments},
            settings=settings,
            graph=graph,
            loggers=(),
            progress=False,
            folder=Path(folder) / "run",
        )
        taken, seconds = run.metrics["steps"], run.metrics["seconds"]
    begin = int(np.searchsorted(taken, steps / 5))
    return float((taken[-1] - taken[begin]) / (seconds[-1] - seconds[begin]))


def ideal(actors: int, variation: float, rounds: int = 20_000) -> float:
    """Return the mean of the longest of ``actors`` unrolls' times to the mean of one, by drawing them."""
    sigma = np.sqrt(np.log1p(variation**2))
    steps = np.random.default_rng(0).lognormal(-(sigma**2) / 2, sigma, (rounds, actors, UNROLL))
    return float(steps.sum(2).max(1).mean() / UNROLL)


def uneven(actors: int, rounds: int) -> dict[str, dict[str, float]]:
    """Speeds by coefficient of variation, both topologies in turn."""
    results = {}
    for variation in VARIATIONS:
        speeds: dict[str, list[float]] = {"sync": [], "impala": []}
        for _ in range(rounds):
            for topology, values in speeds.items():
                graph = {"batch": max(actors // 4, 1)} if topology == "impala" else None
                steps = actors * STEPS_EACH
                values.append(speed(topology, "processes", actors, steps, {"variation": variation}, graph=graph))
                print(f"{actors} actors, {topology}, variation {variation}: {values[-1]:.0f}", file=sys.stderr)
        medians = {topology: statistics.median(values) for topology, values in speeds.items()}
        ratio = medians["impala"] / medians["sync"]
        results[str(variation)] = {**medians, "ratio": ratio, "ideal": ideal(actors, variation)}
    return results


def many() -> dict[str, dict[str, float]]:
    """One sleeping actor against many, by the mean time of a step."""
    results = {}
    for mean in MANY_MEANS:

        def run(actors: int, batch: int, mean: float = mean) -> float:
            steps = round(actors * MANY_SECONDS / mean)
            return speed("impala", "processes", actors, steps, {"mean": mean}, MANY_SETTINGS, {"batch": batch})

        one, all_ = run(1, 1), run(MANY, MANY_BATCH)
        results[f"{1000 * mean:.0f} ms"] = {"one": one, str(MANY): all_, "share_of_linear": all_ / (MANY * one)}
        print(f"{1000 * mean:.0f} ms: {one:.1f}, {all_:.0f}", file=sys.stderr)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=("variance", "actors"), default=["variance", "actors"])
    parser.add_argument("--actors", nargs="+", type=int, default=[4, 16])
    options = parser.parse_args()
    if "variance" in options.parts:
        by_actors = {actors: uneven(actors, options.rounds) for actors in options.actors}
        rows = [
            (
                f"{actors} actors, {name}",
                *(f"{row[topology]:.0f}" for topology in ("sync", "impala")),
                f"{row['ratio']:.2f}",
                f"{row['ideal']:.2f}",
            )
            for actors, by_variation in by_actors.items()
            for name, row in by_variation.items()
        ]
        measuring.table(("coefficient of variation", "sync, steps/s", "impala, steps/s", "ratio", "ideal"), rows)
        measuring.save("slow_environments_variance", "Sampling from uneven environments, steps a second", by_actors)
    if "actors" in options.parts:
        by_mean = many()
        counts = [
            (mean, f"{row['one']:.1f}", f"{row[str(MANY)]:.0f}", f"{row['share_of_linear']:.0%}")
            for mean, row in by_mean.items()
        ]
        measuring.table(("steps of", "one actor, steps/s", f"{MANY} actors, steps/s", "of linear"), counts)
        measuring.save("slow_environments_actors", "Many sleeping environments against one, steps a second", by_mean)


if __name__ == "__main__":
    main()
