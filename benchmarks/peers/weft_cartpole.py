"""weft on CartPole-v1, by its public API: prints one line of JSON."""

import json
import tempfile
from importlib.metadata import version
from pathlib import Path

from clock import arguments

import weft

SETTINGS = {
    "ppo": {"unroll": 128, "epochs": 4, "minibatches": 4, "learning_rate": 2.5e-4},
    # Neither double Q-learning nor n-step returns, and ReLU: that is what DQN is in the other libraries by default.
    "dqn": {
        "batch": 128,
        "warmup": 1_000,
        "steps_per_update": 1.0,
        "double": False,
        "n_step": 1,
        "network": {"activation": "relu"},
    },
}


def main() -> None:
    setting = arguments()
    with tempfile.TemporaryDirectory() as folder:
        run = weft.train(
            setting.algorithm,
            "CartPole-v1",
            envs=setting.envs,
            steps=setting.steps,
            seed=0,
            folder=Path(folder) / "run",
            settings=SETTINGS[setting.algorithm],
            progress=False,
        )
        names = ("steps", "seconds", "steps_per_second", "mean_return")
        print(json.dumps({"peer": "weft", "version": version("weft")} | {name: run.summary[name] for name in names}))


if __name__ == "__main__":
    main()
