"""Whatever is wrong on the command line gets one sentence and exit code 2, and nothing on disk is lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from weft.cli import main
from weft.runs.checkpoint import Checkpoints
from whole_runs import FLAGS

TRAIN = ("train", "ppo", "CartPole-v1")


class Broken(gymnasium.Env):
    """Shows NaN after 50 steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(2, np.nan if self.steps == 50 else 0, np.float32), 0.0, False, False, {}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def say(arguments, monkeypatch, capfd):
    """Run a command line that has to fail; returns its sentence."""
    monkeypatch.setattr(sys, "argv", ["weft", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    error = capfd.readouterr().err
    assert stopped.value.code == 2, error
    assert error.startswith("weft: ") and error.count("\n") == 1, error
    return error


WRONG = {
    "command": (["trian"], "no command named 'trian': did you mean train?"),
    "far command": (["xyz"], "there is bench, evaluate, graph, list"),
    "no algorithm": (["train"], "weft train ppo CartPole-v1"),
    "no environment": (["train", "ppo"], "weft train ppo CartPole-v1"),
    "algorithm": (["train", "pp", "CartPole-v1"], "no algorithm named 'pp': did you mean ppo or appo?"),
    "algorithm of no module": (["train", "nowhere:mine", "CartPole-v1"], "no module named 'nowhere'"),
    "algorithm of a module": (["train", "math:pj", "CartPole-v1"], "no algorithm in math named 'pj': did you mean pi?"),
    "what is no algorithm": (["train", "json:loads", "CartPole-v1"], "loads is not an algorithm"),
    "environment": (
        ["train", "ppo", "CartPol-v1"],
        "no environment named 'CartPol-v1': did you mean CartPole-v1 or CartPole-v0",
    ),
    "environment of device": (["train", "ppo", "device:Cach"], "did you mean Catch?"),
    "environment of no module": (["train", "ppo", "nowhere:make"], "no module named 'nowhere'"),
    "topology": ([*TRAIN, "--topology", "locale"], "no topology named 'locale': did you mean local?"),
    "runtime": ([*TRAIN, "--runtime", "inlin"], "no runtime named 'inlin': did you mean inline?"),
    "logger": ([*TRAIN, "--loggers", "tensorbord"], "no logger named 'tensorbord': did you mean tensorboard?"),
    "flag": ([*TRAIN, "--ppo.clp", 0.1], "--ppo.clp, 0.1: did you mean --ppo.clip"),
    "flag of the run": ([*TRAIN, "--step", 5], "did you mean --steps"),
    "type": ([*TRAIN, "--steps", "many"], "--steps"),
    "type of a setting": ([*TRAIN, "--ppo.clip", "small"], "--ppo.clip"),
    "choice": ([*TRAIN, "--ppo.network.activation", "tanhh"], "'tanh', 'relu'"),
    "range": ([*TRAIN, "--ppo.discount", 1.5], "ppo.discount is 1.5, but must be from 0 to 1."),
    "range above": ([*TRAIN, "--ppo.learning-rate", 0], "ppo.learning_rate is 0.0, but must be greater than 0."),
    "steps": ([*TRAIN, "--steps", 0], "train.steps is 0, but must be greater than 0."),
    "envs": ([*TRAIN, "--envs", -1], "train.envs is -1"),
    "seed": ([*TRAIN, "--seed", -1], "train.seed is -1"),
    "seeds": ([*TRAIN, "--seeds", 0], "at least 1 seed"),
    "too many names": ([*TRAIN, "again"], "again"),
    "minibatches": ([*TRAIN, "--ppo.minibatches", 3, "--ppo.unroll", 16], "divides 128"),
    "spaces": (["train", "dqn", "Pendulum-v1"], "ppo"),
    "replay": (["train", "dqn", "CartPole-v1", "--dqn.capacity", 500], "warm-up of 1000"),
    "no configuration": (["train", "--config", "missing.toml"], "no configuration missing.toml"),
    "no value": ([*TRAIN, "--config"], "--config"),
    "kind of list": (["list", "algorithm"], "'algorithms'"),
    "shown algorithm": (["show", "dqm"], "did you mean dqn?"),
    "shown topology": (["show", "imapla"], "did you mean impala?"),
    "no topology": (["graph"], "weft graph impala"),
    "graph of what": (["graph", "asnyc"], "no topology named 'asnyc'"),
    "graph setting": (["graph", "impala", "--graph.learnes", 2], "did you mean --graph.learners"),
    "graph of an algorithm": (["graph", "impala", "dqn"], "use --topology local"),
    "graph as what": (["graph", "local", "--output", "graph.jpg"], "as .svg or .png"),
    "benchmark": (["bench", "pers"], "no benchmark named 'pers': did you mean peers?"),
    "no run to replay": (["replay-order", "missing"], "no run in missing"),
    "no run": (["evaluate", "missing"], "no run in missing"),
    "run not named": (["evaluate"], "run"),
    "no runs": (["plot"], "at least one run"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_one_sentence(case, monkeypatch, capfd, tmp_path):
    arguments, expected = WRONG[case]
    assert expected.lower() in say(arguments, monkeypatch, capfd).lower()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("line", ["evaluate {}", "resume {}", "record {}", "plot {}"])
def test_what_is_not_a_run_is_not_taken_for_one(line, monkeypatch, capfd, tmp_path):
    (tmp_path / "file").write_text("something")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder"):
        assert f"{name} is not the folder of a run" in say(line.format(name).split(), monkeypatch, capfd)
    assert (tmp_path / "file").read_text() == "something" and not list((tmp_path / "folder").iterdir())


def test_a_folder_with_something_in_it_is_left_alone(finished, monkeypatch, capfd, tmp_path):
    before = sorted((path, path.stat().st_mtime_ns) for path in finished.folder.rglob("*") if path.name != "lock")
    assert "already holds a run: resume it" in say([*TRAIN, *FLAGS, "--folder", "finished"], monkeypatch, capfd)
    assert before == sorted(
        (path, path.stat().st_mtime_ns) for path in finished.folder.rglob("*") if path.name != "lock"
    )
    (tmp_path / "file").write_text("something")
    assert "file is a file" in say([*TRAIN, *FLAGS, "--folder", "file"], monkeypatch, capfd)
    assert "a part of" in say([*TRAIN, *FLAGS, "--folder", "file/run"], monkeypatch, capfd).lower()
    assert "resume it" not in say([*TRAIN, *FLAGS, "--folder", "."], monkeypatch, capfd).partition("already holds")[0]


def test_runs_of_a_newer_weft_are_not_guessed_at(finished, monkeypatch, capfd):
    versions = finished.folder / "versions.json"
    versions.write_text(json.dumps({**json.loads(versions.read_text()), "format": 99}))
    for name in ("evaluate", "resume"):
        assert "newer weft" in say([name, "finished"], monkeypatch, capfd)


def test_numbers_that_make_no_sense_for_a_run(finished, monkeypatch, capfd):
    assert "at least 1" in say(["evaluate", "finished", "--episodes", 0], monkeypatch, capfd)
    assert "at least 1" in say(["record", "finished", "--episodes", 0], monkeypatch, capfd)
    assert "320 steps already" in say(["resume", "finished", "--steps", 0], monkeypatch, capfd)
    assert ".mp4 or .gif" in say(["record", "finished", "--output", "film.txt"], monkeypatch, capfd)
    assert sorted(path.name for path in Path().iterdir()) == ["finished"]


def test_a_configuration_that_is_wrong(finished, monkeypatch, capfd):
    right = (finished.folder / "config.toml").read_text()
    wrong = {
        "clip = = 1": "not valid TOML",
        right.replace("unroll = 16", "unrol = 16"): "no setting of ppo named 'unrol': did you mean unroll?",
        right.replace("unroll = 16", 'unroll = "16"'): "ppo.unroll is '16', but must be of type int",
        right.replace("envs = 2", "envs = 0"): "train.envs is 0",
        right.replace("[env.atari]", "[env.atary]"): "did you mean atari?",
        right.replace('algorithm = "ppo"', 'algorithm = "ppp"'): "did you mean ppo or appo?",
        right.replace('algorithm = "ppo"\n', ""): "what to train and where",
    }
    for text, expected in wrong.items():
        Path("config.toml").write_text(text)
        assert expected.lower() in say(["train", "--config", "config.toml"], monkeypatch, capfd).lower()
    shutil.rmtree(finished.folder)
    assert [path.name for path in Path().iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("envpool", ["train", "ppo", "envpool:CartPole-v1"]),
        ("ale_py", ["train", "ppo", "ALE/Pong-v5"]),
        ("wandb", [*TRAIN, *FLAGS, "--loggers", "wandb", "--folder", "run"]),
    ],
)
def test_a_missing_extra_is_named(module, arguments, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, module, None)
    extra = {"ale_py": "atari"}.get(module, module)
    assert f'pip install "weft[{extra}]"' in say(arguments, monkeypatch, capfd)
    assert not Path("run").exists()


def test_nan_ends_the_command_and_names_the_step_and_the_checkpoint(monkeypatch, capfd):
    arguments = ["train", "ppo", "test_bad_input:Broken", *FLAGS, "--checkpoint-every", 32, "--folder", "run"]
    sentence = say(arguments, monkeypatch, capfd)
    assert "after 50 steps" in sentence and "The checkpoint of step 96 is kept" in sentence


def test_no_traceback_from_a_process_of_its_own(command, finished):
    for arguments in (["train", "ppo", "CartPol-v1"], ["evaluate", "missing"]):
        process = command(*arguments)
        output, error = process.communicate(timeout=60)
        assert process.returncode == 2 and not output
        assert error.startswith("weft: ") and error.count("\n") == 1


def test_a_full_disk_is_said_and_what_was_saved_stays(monkeypatch, capfd, tmp_path):

    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        arguments = [*TRAIN, *FLAGS, "--folder", disk / "run", "--steps", 64_000, "--checkpoint-every", 320]
        assert "is full" in say(arguments, monkeypatch, capfd)
        taken = Checkpoints(disk / "run" / "checkpoints").steps()[-1]
        assert taken >= 320 and taken % 320 == 0
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        monkeypatch.setattr(sys, "argv", ["weft", "resume", str(disk / "run"), "--steps", str(taken + 320)])
        main()
        assert json.loads((disk / "run" / "summary.json").read_text())["finished"]
    finally:
        subprocess.run(["umount", disk], check=True)
