import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.runs import files
from weft.runs.folder import RunFolder, read_config, write_config

CONFIG = {"algorithm": "ppo", "environment": "envpool:ALE/Pong-v5", "seed": 3, "ppo": {"clip": 0.1, "limit": None}}


def test_a_new_run_has_a_telling_name_and_comes_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with RunFolder.create(CONFIG) as run, RunFolder.create(CONFIG) as other:
        assert run.path.parent == Path("runs") and run.path != other.path
        assert run.path.name.startswith("ppo-envpool-ALE-Pong-v5-3-2")
    loaded = RunFolder.open(run.path)
    assert loaded.config == CONFIG
    assert loaded.versions["jax"] and loaded.versions["devices"]
    assert loaded.summary == {}
    loaded.write_summary({"steps": 5, "mean_return": float("nan")})
    assert loaded.summary == {"steps": 5, "mean_return": None}
    loaded.write_config({**CONFIG, "seed": 4})
    assert loaded.config["seed"] == 4


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text().filter(lambda text: text != "none"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(), values, max_size=4))
def test_configurations_come_back_exactly(tmp_path_factory, config):
    path = tmp_path_factory.getbasetemp() / "config.toml"
    write_config(path, config)
    assert read_config(path) == config


def test_bad_configurations_say_why(tmp_path):
    (tmp_path / "bad.toml").write_text("clip = = 1")
    with pytest.raises(WeftError, match="not valid TOML"):
        read_config(tmp_path / "bad.toml")
    with pytest.raises(WeftError, match="no configuration"):
        read_config(tmp_path / "missing.toml")


def test_git_state_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in ("init -q", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m x"):
        subprocess.run(["git", *command.split()], check=True)
    (tmp_path / "agent.py").write_text("width = 64\n")
    subprocess.run(["git", "add", "agent.py"], check=True)
    with RunFolder.create(CONFIG, tmp_path / "run") as run:
        git = run.versions["git"]
    assert len(git["commit"]) == 40 and git["dirty"]
    assert "+width = 64" in (run.path / "git.diff").read_text()


def test_outside_a_repository_there_is_no_git_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with RunFolder.create(CONFIG, "run") as run:
        assert run.versions["git"] is None


def test_folders_that_are_no_runs_are_refused(tmp_path):
    with pytest.raises(WeftError, match="does not exist"):
        RunFolder.open(tmp_path / "missing")
    with pytest.raises(WeftError, match="is not the folder of a run"):
        RunFolder.open(tmp_path)
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(WeftError, match=r"already holds 'thesis.txt'"):
        RunFolder.create(CONFIG, tmp_path)
    with pytest.raises(WeftError, match="is a file"):
        RunFolder.create(CONFIG, tmp_path / "thesis.txt")
    with pytest.raises(WeftError, match="is a file"):
        RunFolder.create(CONFIG, tmp_path / "thesis.txt" / "run")


def test_a_new_run_does_not_overwrite_another(tmp_path):
    RunFolder.create(CONFIG, tmp_path / "run").close()
    with pytest.raises(WeftError, match="already holds a run: resume it"):
        RunFolder.create(CONFIG, tmp_path / "run")


def test_runs_of_a_newer_version_are_refused(tmp_path):
    RunFolder.create(CONFIG, tmp_path).close()
    (tmp_path / "versions.json").write_text('{"format": 1000}')
    with pytest.raises(WeftError, match="newer weft"):
        RunFolder.open(tmp_path)


def test_two_writers_never_share_a_folder(tmp_path):
    with RunFolder.create(CONFIG, tmp_path):
        with pytest.raises(WeftError, match=f"process {os.getpid()}"):
            RunFolder.open(tmp_path).lock()
        with pytest.raises(WeftError, match="being written"):
            RunFolder.create(CONFIG, tmp_path)
    second = RunFolder.open(tmp_path)
    second.lock()
    second.close()


HOLDER = """
import os, sys, time
from weft.runs.folder import Lock
from pathlib import Path
lock = Lock(Path(sys.argv[1]))
if os.fork() == 0:
    print("held", flush=True)
    time.sleep(3)
    os._exit(0)
time.sleep(60)
"""


def test_a_killed_writer_releases_its_lock_though_its_children_live(tmp_path):
    RunFolder.create(CONFIG, tmp_path).close()
    run = RunFolder.open(tmp_path)
    with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path / "lock"], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(WeftError, match=f"process {holder.pid}"):
            run.lock()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        run.lock()
        run.close()


@pytest.mark.parametrize(
    ("number", "sentence"),
    [(errno.ENOSPC, "The disk that holds .* is full"), (errno.EACCES, "no permission"), (errno.EROFS, "read-only")],
)
def test_a_disk_that_refuses_keeps_the_old_summary(tmp_path, monkeypatch, number, sentence):
    run = RunFolder(tmp_path)
    run.write_summary({"steps": 1})

    def refuse(_):
        raise OSError(number, "refused")

    monkeypatch.setattr(files.os, "fsync", refuse)
    with pytest.raises(WeftError, match=sentence):
        run.write_summary({"steps": 2})
    assert run.summary == {"steps": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_other_errors_of_the_system_are_not_hidden(tmp_path):
    with pytest.raises(OSError, match="odd"), files.disk_errors(tmp_path):
        raise OSError(errno.EIO, "odd")
