"""weft's IMPALA on CartPole-v1 until the mean return of 100 episodes is 450: prints one line of JSON."""

import argparse
import json
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import weft

TARGET, MOST = 450.0, 2_000_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runtime", choices=["threads", "processes"])
    parser.add_argument("seed", type=int)
    options = parser.parse_args()
    reached: dict[str, float] = {}

    def until_reached(row):
        if row.get("mean_return", 0.0) < TARGET:
            return True
        reached.update(steps=row["steps"], seconds=row["seconds"], reached_at=time.time())
        return False

    with tempfile.TemporaryDirectory() as folder:
        run = weft.train(
            "impala",
            "CartPole-v1",
            topology="impala",
            runtime=options.runtime,
            actors=1,
            envs=8,
            steps=MOST,
            seed=options.seed,
            settings={"anneal": False},  # the run ends where the target is reached, which no schedule may know
            callbacks=[until_reached],
            folder=Path(folder) / "run",
            progress=False,
        )
        speed = run.summary["steps_per_second"]
    print(json.dumps({"version": version("weft"), "steps_per_second": speed, **reached}))


if __name__ == "__main__":
    main()
