"""Prioritised against uniform replay on the Blind Cliffwalk: updates until the values are right.

Schaul et al. 2016, arXiv:1511.05952, section 3.1: n states in a row, in each of which one of two actions leads on and
the other ends the episode; only the last step is rewarded. The replay holds what every sequence of actions leads to,
2 ** (n + 1) - 2 transitions, of which hardly any is worth learning from. Tabular Q-learning, one transition an update,
step size 1/4, until the mean square error is below 0.001; the median over the seeds.

    python benchmarks/cliff_walk.py [--states 6 8 10 12 14] [--seeds 10]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import measuring
import numpy as np

from weft.experience.priorities import Prioritised, RankBased
from weft.experience.selectors import Selecting, Uniform
from weft.experience.table import Table, TableSettings

SAMPLERS: dict[str, Selecting] = {
    "uniform": Uniform(),
    "proportional": Prioritised(0.7),
    "rank-based": RankBased(0.7),
}
STEP, ENOUGH, MOST = 0.25, 1e-3, 20_000_000
AHEAD = 4_096
"""Items drawn at once where what is learned does not change the chances."""


def transitions(states: int) -> np.ndarray:
    """Return (state, action) [2 ** (states + 1) - 2, 2] of every sequence of actions; action 1 leads on."""
    sequences = (np.arange(2**states)[:, None] >> np.arange(states)) & 1
    happens = np.cumprod(np.concatenate([np.ones((2**states, 1), int), sequences[:, :-1]], 1), 1).astype(bool)
    return np.stack([np.broadcast_to(np.arange(states), sequences.shape)[happens], sequences[happens]], 1)


def updates(states: int, name: str, seed: int) -> int:
    """Return how many updates it takes."""
    memory, discount = transitions(states), 1 - 1 / states
    number = len(memory)
    assert number == 2 ** (states + 1) - 2
    table = Table(TableSettings("walk", number, SAMPLERS[name]), np.random.SeedSequence(seed))
    order, ones = np.random.default_rng(seed).permutation(number), np.ones(number, np.int64)
    table.insert(order, ones, np.ones(number))
    truth = np.stack([np.zeros(states), discount ** np.arange(states)[::-1]], 1)
    values = np.random.default_rng(seed).normal(0.0, 0.1, (states, 2))
    adaptive, made = name != "uniform", 0
    while made < MOST:
        drawn = table.sample(1 if adaptive else AHEAD)
        for key, place in zip(drawn.keys, drawn.begins, strict=True):
            state, action = memory[place]
            target = 0.0
            if action:
                target = 1.0 if state == states - 1 else discount * values[state + 1].max()
            error = target - values[state, action]
            values[state, action] += STEP * error
            made += 1
            if adaptive:
                table.update(np.array([key]), np.array([abs(error)]))
            if np.square(values - truth).mean() < ENOUGH:
                return made
    return made


def draw(results: dict[str, dict[str, float]], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, colour in zip(SAMPLERS, ("#8a8a8a", "#1f6f8b", "#b4541a"), strict=True):
        axes.semilogy(
            [int(n) for n in results], [row[name] for row in results.values()], "o-", color=colour, label=name
        )
    axes.set_xlabel("states")
    axes.set_ylabel("updates until the values are right")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", nargs="+", type=int, default=[6, 8, 10, 12, 14])
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    for states in options.states:
        results[str(states)] = {}
        for name in SAMPLERS:
            counts = [updates(states, name, seed) for seed in range(options.seeds)]
            results[str(states)][name] = statistics.median(counts)
            print(states, name, counts, file=sys.stderr)
    rows = [(states, *(f"{row[name]:,.0f}" for name in SAMPLERS)) for states, row in results.items()]
    measuring.table(("states", *SAMPLERS), rows)
    draw(results, measuring.RESULTS / "cliff_walk.png")
    measuring.save("cliff_walk", "Blind Cliffwalk, median updates to a mean square error of 0.001", results)


if __name__ == "__main__":
    main()
