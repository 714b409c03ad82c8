"""Training on EnvPool's Pong as a share of pure simulation: what is left of the environments' speed when one learns.

Pictures of 84 x 84, frame skip 4, stacks of 4, both cores, 128 environments everywhere. Simulation alone is EnvPool
with random actions, in both of its modes. Training is ``impala`` with a small network (below), from the first update to
the end: in topology ``impala`` with two actors in processes of their own, so that one simulates while the other acts,
or with one actor on ``threads``; and in ``local``, in turns. All take turns, the figure is the median over the rounds;
the ratio is to the faster of the two simulations.

    python benchmarks/pong.py [--rounds 3] [--seconds 15]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import measuring
import numpy as np
from flax import nnx

import weft
from weft.networks.torsos import ConvolutionalTorso

ENVIRONMENTS, STEPS = 128, 80_000
ARGUMENTS = {"stack_num": 4, "frame_skip": 4, "img_height": 84, "img_width": 84, "use_fire_reset": False}
TRAININGS: dict[str, dict[str, Any]] = {
    "impala, 2 actors on processes": {
        "topology": "impala",
        "runtime": "processes",
        "environment": "envpool:Pong-v5",
        "actors": 2,
        "env": {"arguments": {"num_threads": 1}},
    },
    "impala on threads, asynchronous EnvPool": {
        "topology": "impala",
        "runtime": "threads",
        "environment": "envpool-async:Pong-v5",
    },
    "local, asynchronous EnvPool": {"topology": "local", "environment": "envpool-async:Pong-v5"},
}


class Small(nnx.Module):
    """Two convolutions that see each pixel about once, and 64 features: 0.3 million multiplications a picture."""

    def __init__(self, space: gymnasium.spaces.Box, *, rngs: nnx.Rngs) -> None:
        height, width, channels = space.shape
        self.torso = ConvolutionalTorso(
            (height, width, channels), [(8, 8, 8), (16, 4, 2)], 64, rngs=rngs, orthogonal=True
        )

    def __call__(self, picture):
        return self.torso(picture)


def simulation(asynchronous: bool, seconds: float) -> float:
    """Return steps a second of EnvPool alone."""
    import envpool

    batch = {"batch_size": ENVIRONMENTS // 2} if asynchronous else {}
    pool = envpool.make("Pong-v5", env_type="gymnasium", num_envs=ENVIRONMENTS, **ARGUMENTS, **batch)
    random, taken = np.random.default_rng(0), 0
    number = pool.action_space.n
    if asynchronous:
        pool.async_reset()
        ids = pool.recv()[4]["env_id"]
    else:
        pool.reset()
        ids = np.arange(ENVIRONMENTS)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        actions = random.integers(0, number, len(ids), dtype=np.int32)
        if asynchronous:
            pool.send(actions, ids)
            ids = pool.recv()[4]["env_id"]
        else:
            pool.step(actions)
        taken += len(ids)
    return taken / (time.perf_counter() - began)


def training(environment: str, actors: int = 1, **options: Any) -> float:
    """Return agent steps a second from the first update on."""
    with tempfile.TemporaryDirectory() as folder:
        run = weft.train(
            "impala",
            environment,
            actors=actors,
            envs=ENVIRONMENTS // actors,
            steps=STEPS,
            torso=Small,
            progress=False,
            folder=Path(folder) / "run",
            **options,
        )
        return run.summary["steps_per_second"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    alone = ("EnvPool alone, synchronous", "EnvPool alone, asynchronous")
    sides: dict[str, Callable[[], float]] = {
        name: partial(simulation, asynchronous, options.seconds)
        for name, asynchronous in zip(alone, (False, True), strict=True)
    }
    sides |= {name: partial(training, **how) for name, how in TRAININGS.items()}
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, side in sides.items():
            speeds[name].append(side())
            print(f"{name}: {speeds[name][-1]:,.0f}", file=sys.stderr)
    median = {name: statistics.median(values) for name, values in speeds.items()}
    fastest = max(median[name] for name in alone)
    rows = [(name, f"{speed:,.0f}", f"{speed / fastest:.0%}") for name, speed in median.items()]
    measuring.table(("Pong", "steps/s", "of simulation"), rows)
    share = {name: median[name] / fastest for name in TRAININGS}
    measuring.save("pong", "EnvPool Pong, agent steps a second", {"median": median, "share": share, "all": speeds})


if __name__ == "__main__":
    main()
