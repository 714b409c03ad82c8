"""What every peer's script shares: its arguments, and a clock that starts once the first update is done."""

from __future__ import annotations

import argparse
import json
import time
from importlib.metadata import version


class Clock:
    """Times a training from the end of its first update, so that start-up and compilation do not count."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.steps = 0

    def updated(self, steps: int) -> None:
        """Tell that an update is done after so many steps of all environments; only the first call counts."""
        if self.began is None:
            self.began, self.steps = time.perf_counter(), steps

    def report(self, package: str, steps: int, **more: object) -> None:
        """Print the result, given the steps at the end of training."""
        assert self.began is not None, "there was no update"
        seconds = time.perf_counter() - self.began
        steps -= self.steps
        record = {"peer": package, "version": version(package), "steps": steps, "seconds": round(seconds, 3)}
        print(json.dumps({**record, "steps_per_second": round(steps / seconds, 1), **more}))


def arguments() -> argparse.Namespace:
    """Read ``ppo|dqn ENVS STEPS``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("algorithm", choices=["ppo", "dqn"])
    parser.add_argument("envs", type=int)
    parser.add_argument("steps", type=int)
    return parser.parse_args()
