"""What V-trace is worth when actors are behind: learning with parameters that are 0, 4, 16 and 64 updates old.

``impala`` with and without its correction (``--impala.correction none``), one actor with 8 environments, on the runtime
``inline``, so that the lag is exactly what ``--graph.delay`` says. Mean return of 50 whole episodes after training.

Scores do not hang on speed, so that ``--workers`` may run several trainings side by side.

    python benchmarks/lag.py [--seeds 5] [--environments CartPole-v1 Catch] [--workers 2]
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import measuring
import numpy as np

import weft

STEPS = {"CartPole-v1": 100_000, "Catch": 50_000}
DELAYS = (0, 4, 16, 64)
CORRECTIONS = ("vtrace", "none")


def score(environment: str, correction: str, delay: int, seed: int) -> tuple[float, float]:
    """Return (mean return after training, mean return over training)."""
    with tempfile.TemporaryDirectory() as folder:
        run = weft.train(
            "impala",
            environment,
            topology="impala",
            runtime="inline",
            steps=STEPS[environment],
            seed=seed,
            settings={"correction": correction},
            graph={"delay": delay},
            loggers=(),
            progress=False,
            folder=Path(folder) / "run",
        )
        return run.evaluate(episodes=50).mean_return, float(np.nanmean(run.metrics["mean_return"]))


Results = dict[str, dict[str, dict[str, dict[str, list[float]]]]]
"""Environment, score, delay, correction -> a value for each seed."""
AFTER, OVER = "after training", "over training"


def draw(results: Results, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(results), 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(results), squeeze=False)
    for column, (environment, by_score) in enumerate(results.items()):
        for row, (name, by_delay) in enumerate(by_score.items()):
            draw_one(grid[row][column], by_delay)
            grid[row][column].set_title(f"{environment}: mean return {name}", fontsize=10)
        grid[1][column].set_xlabel("updates between acting and learning")
    figure.savefig(path, dpi=120)


def draw_one(axes: Any, by_delay: dict[str, dict[str, list[float]]]) -> None:
    places = np.arange(len(DELAYS))
    for correction, colour in zip(CORRECTIONS, ("#1f6f8b", "#b4541a"), strict=True):
        returns = np.array([by_delay[str(delay)][correction] for delay in DELAYS])
        axes.plot(places, returns.mean(axis=1), color=colour, label=correction, linewidth=2)
        for seed in returns.T:
            axes.plot(places, seed, ".", color=colour, alpha=0.5)
    axes.set_xticks(places, [str(delay) for delay in DELAYS])
    axes.legend(frameon=False)


def measured(environments: list[str], seeds: int, workers: int) -> Results:
    """Train everything, several at a time."""
    cases = list(itertools.product(environments, DELAYS, CORRECTIONS, range(seeds)))
    results: Results = {
        environment: {
            name: {str(delay): {correction: [] for correction in CORRECTIONS} for delay in DELAYS}
            for name in (AFTER, OVER)
        }
        for environment in environments
    }
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        orders = [(environment, correction, delay, seed) for environment, delay, correction, seed in cases]
        for case, scores in zip(cases, pool.map(score, *zip(*orders, strict=True)), strict=True):
            environment, delay, correction, _ = case
            for name, value in zip((AFTER, OVER), scores, strict=True):
                results[environment][name][str(delay)][correction].append(value)
            print(*case, *(f"{value:.2f}" for value in scores), file=sys.stderr)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--environments", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    results = measured(options.environments, options.seeds, options.workers)
    for environment, by_score in results.items():
        for name, by_delay in by_score.items():
            rows = [
                (delay, *(f"{statistics.mean(row[name]):.2f} ({min(row[name]):.2f})" for name in CORRECTIONS))
                for delay, row in by_delay.items()
            ]
            header = (f"{environment} {name}: lag", *(f"{each}, mean (worst seed)" for each in CORRECTIONS))
            measuring.table(header, rows)
    draw(results, measuring.RESULTS / "lag.png")
    measuring.save("lag", "Mean return after and over training, by lag and correction, of each seed", results)


if __name__ == "__main__":
    main()
