"""What whole runs share: compiled programs, settings so small that a run takes a second, and how to compare them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import weft
from weft.runs.checkpoint import Checkpoints

ROOT = Path(__file__).parents[1]
SMALL = {"hidden": [8]}
PPO = {"unroll": 16, "epochs": 2, "minibatches": 2, "network": SMALL}
DQN = {"batch": 8, "warmup": 32, "capacity": 200, "target_period": 10, "n_step": 2, "network": SMALL}
FLAGS = (
    *("--ppo.unroll", "16", "--ppo.epochs", "2", "--ppo.minibatches", "2", "--ppo.network.hidden", "8"),
    *("--envs", "2"),
)
"""What ``train`` below sets, for the command line."""


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory):
    """Keep what is compiled in one folder for the session, all its processes included."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield


def train(algorithm, environment, folder, **options):
    """Train a run that takes a second. Any argument of ``weft.train`` can be given."""
    settings = {**({"ppo": PPO, "dqn": DQN}[algorithm]), **options.pop("settings", {})}
    defaults = {"envs": 2, "steps": 320, "loggers": [], "progress": False}
    return weft.train(algorithm, environment, folder=folder, settings=settings, **{**defaults, **options})


@pytest.fixture
def tiny(tmp_path):
    """Train a run that takes a second; returns it. Any argument of ``weft.train`` can be given."""

    def tiny(algorithm="ppo", environment="CartPole-v1", folder="run", **options):
        return train(algorithm, environment, tmp_path / folder, **options)

    return tiny


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory):
    return train(
        "ppo", "CartPole-v1", tmp_path_factory.mktemp("finished") / "run", checkpoint_every=64, loggers=["tensorboard"]
    )


@pytest.fixture
def finished(finished_once, tmp_path):
    """A run of PPO on CartPole-v1 over 320 steps, with a checkpoint every 64; a copy, to do with as one likes."""
    shutil.copytree(finished_once.folder, tmp_path / "finished")
    return weft.load(tmp_path / "finished")


@pytest.fixture
def command(tmp_path):
    """Start the ``weft`` command in another process, in an empty folder."""
    started = []

    def start(*arguments):
        line = [sys.executable, "-c", "from weft.cli import main; main()", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(line, cwd=tmp_path, env=environment, text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


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
