"""Follow a training with callbacks: each gets every row of metrics, and returning False ends the training."""

from collections.abc import Mapping
from typing import Any

import weft

TARGET = 195.0


def good_enough(row: Mapping[str, Any]) -> bool:
    """Go on until the mean return reaches the target; there is no mean before the first episode has ended."""
    return row.get("mean_return", 0.0) < TARGET


def main() -> None:
    speeds: list[float] = []
    run = weft.train(
        "ppo",
        "CartPole-v1",
        steps=200_000,
        callbacks=[good_enough, lambda row: speeds.append(row["steps_per_second"])],
    )
    print(
        f"stopped after {run.summary['steps']:,} steps with {run.summary['mean_return']:.0f}, at {max(speeds):,.0f}/s"
    )


if __name__ == "__main__":
    main()
