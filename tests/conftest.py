"""What whole runs share: compiled programs, a finished run, the command in another process."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from whole_runs import train

ROOT = Path(__file__).parents[1]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As for whatever a shell without job control starts in the background; commands started by tests inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory):
    """Keep what is compiled in one folder for the session, all its processes included."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield


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
