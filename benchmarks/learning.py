"""What the learning tests reach, not only whether it is enough: mean return of 50 whole episodes for each seed.

The tasks, their settings and their seeds are those of ``tests/learning/test_scores.py``, whose packages it needs
(``make test`` installs them).

    python benchmarks/learning.py [--tasks ppo-cartpole ...]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import measuring

sys.path.insert(0, str(measuring.HERE.parent / "tests" / "learning"))
from test_scores import SEEDS, TASKS, score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    results = {}
    for name in parser.parse_args().tasks:
        task, began, returns = TASKS[name], time.perf_counter(), []
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                returns.append(score(task, seed, Path(folder) / "run"))
            print(f"{name} seed {seed}: {returns[-1]:.1f}", file=sys.stderr)
        results[name] = {
            "steps": task.steps,
            "threshold": task.score,
            "mean_return": statistics.mean(returns),
            "by_seed": dict(zip(SEEDS, returns, strict=True)),
            "seconds_of_all_seeds": round(time.perf_counter() - began, 1),
        }
    rows = [
        (name, row["steps"], row["threshold"], f"{row['mean_return']:.1f}", f"{min(row['by_seed'].values()):.1f}")
        for name, row in results.items()
    ]
    measuring.table(("task", "steps", "threshold", "mean return", "worst seed"), rows)
    measuring.save("learning", "Mean return of 50 whole episodes after training, by seed", results)


if __name__ == "__main__":
    main()
