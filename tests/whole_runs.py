"""Settings so small that a whole run takes a second, and how two runs are compared."""

from pathlib import Path

import jax
import numpy as np

import weft
from weft.runs.checkpoint import Checkpoints

SMALL = {"hidden": [8]}
PPO = {"unroll": 16, "epochs": 2, "minibatches": 2, "network": SMALL}
ON_POLICY = {
    "a2c": {"unroll": 16, "network": SMALL},
    "appo": {"unroll": 16, "epochs": 2, "minibatches": 2, "network": SMALL},
    "impala": {"unroll": 16, "network": SMALL},
    "ppo": PPO,
}
DQN = {"batch": 8, "warmup": 32, "capacity": 200, "target_period": 10, "n_step": 2, "network": SMALL}
FLAGS = (
    *("--ppo.unroll", "16", "--ppo.epochs", "2", "--ppo.minibatches", "2", "--ppo.network.hidden", "8"),
    *("--envs", "2"),
)
"""What ``train`` below sets, for the command line."""


def train(algorithm, environment, folder, **options):
    """Train a run that takes a second. Any argument of ``weft.train`` can be given."""
    settings = {**({**ON_POLICY, "dqn": DQN}[algorithm]), **options.pop("settings", {})}
    defaults = {"envs": 2, "steps": 320, "loggers": [], "progress": False}
    return weft.train(algorithm, environment, folder=folder, settings=settings, **{**defaults, **options})


def kept(folder):
    """The newest checkpoint as named arrays and scalars, without how long it took.

    Pickled environments are left out, for equal ones need not be equal bytes; what they show next tells.
    """
    parts = Checkpoints(Path(folder) / "checkpoints").restore().parts
    parts.pop("run")
    named = [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(parts)]
    return [(name, leaf) for name, leaf in named if not isinstance(leaf, bytes)]


def assert_same_bits(folder, other):
    """Compare two runs: parameters, optimiser, statistics, replay, random generators, environments."""
    ones, others = kept(folder), kept(other)
    assert [name for name, _ in ones] == [name for name, _ in others]
    assert any("params" in name for name, _ in ones)
    for (name, one), (_, two) in zip(ones, others, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(two).tobytes(), name
