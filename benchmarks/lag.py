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

import measuring
import numpy as np

import weft

STEPS = {"CartPole-v1": 100_000, "Catch": 50_000}
DELAYS = (0, 4, 16, 64)
CORRECTIONS = ("vtrace", "none")


def score(environment: str, correction: str, delay: int, seed: int) -> float:
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
        return run.evaluate(episodes=50).mean_return


def draw(results: dict, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(results), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (environment, rows) in zip(
        figure.subplots(1, len(results), squeeze=False)[0], results.items(), strict=True
    ):
        for correction, colour in zip(CORRECTIONS, ("#1f6f8b", "#b4541a"), strict=True):
            returns = np.array([rows[str(delay)][correction] for delay in DELAYS])
            places = np.arange(len(DELAYS))
            axes.plot(places, returns.mean(axis=1), color=colour, label=correction, linewidth=2)
            for seed in returns.T:
                axes.plot(places, seed, ".", color=colour, alpha=0.5)
        axes.set_xticks(places, [str(delay) for delay in DELAYS])
        axes.set_xlabel("updates between acting and learning")
        axes.set_title(environment)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def scores(environments: list[str], seeds: int, workers: int) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return the score of each seed, by environment, delay and correction."""
    cases = list(itertools.product(environments, CORRECTIONS, DELAYS, range(seeds)))
    results: dict[str, dict[str, dict[str, list[float]]]] = {
        environment: {str(delay): {correction: [] for correction in CORRECTIONS} for delay in DELAYS}
        for environment in environments
    }
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for case, value in zip(cases, pool.map(score, *zip(*cases, strict=True)), strict=True):
            environment, correction, delay, _ = case
            results[environment][str(delay)][correction].append(value)
            print(*case, f"{value:.2f}", file=sys.stderr)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--environments", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    results = scores(options.environments, options.seeds, options.workers)
    for environment, by_delay in results.items():
        rows = [
            (delay, *(f"{statistics.mean(row[name]):.2f} ({min(row[name]):.2f})" for name in CORRECTIONS))
            for delay, row in by_delay.items()
        ]
        measuring.table((f"{environment}: lag", *(f"{name}, mean (worst seed)" for name in CORRECTIONS)), rows)
    draw(results, measuring.RESULTS / "lag.png")
    measuring.save("lag", "Mean return of 50 episodes after training, by lag and correction, of each seed", results)


if __name__ == "__main__":
    main()
