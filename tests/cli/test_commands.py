"""What the commands do when all is well, in this process; and that the quick ones are quick, in one of their own."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

import weft
from weft.cli import COMMANDS, main
from whole_runs import FLAGS, assert_same_bits


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a command line in an empty folder; returns what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["weft", *map(str, arguments)])
        main()
        return capfd.readouterr().out

    return run


def test_flags_override_the_file_which_overrides_the_defaults(run, finished, tmp_path):
    config = finished.folder / "config.toml"
    output = run("train", "--config", config, "--steps", 64, "--ppo.clip", 0.1, "--folder", "new")
    settings = weft.load("new").config
    assert settings.train.steps == 64 and settings.settings.clip == 0.1
    assert settings.settings.unroll == 16 and settings.train.envs == 2 and settings.train.checkpoint_every == 64
    assert "64 of 64 steps" in output and "Next: weft evaluate new" in output
    run("train", "dqn", "Acrobot-v1", "--dqn.warmup", 999, "--steps", 32, "--folder", "other", "--envs", 1)
    assert weft.load("other").config.settings.warmup == 999


def test_a_file_may_leave_out_the_names_or_be_overridden_by_them(run, tmp_path):
    (tmp_path / "part.toml").write_text('steps = 32\nenvs = 1\n[ppo]\nunroll = 8\nclip_rewards = "none"\n')
    run("train", "ppo", "device:Catch", "--config=part.toml", "--ppo.minibatches", 2, "--folder", "new")
    config = weft.load("new").config
    assert (config.environment, config.train.steps, config.settings.unroll) == ("device:Catch", 32, 8)
    assert config.settings.clip_rewards is None and config.settings.minibatches == 2


def test_several_seeds(run, finished):
    run(
        "train", "ppo", "CartPole-v1", *FLAGS, "--steps", 320, "--checkpoint-every", 64, "--seeds", 2, "--folder", "all"
    )
    assert_same_bits("all/seed-0", finished.folder)
    assert weft.load("all/seed-1").config.train.seed == 1
    with pytest.raises(AssertionError):
        assert_same_bits("all/seed-0", "all/seed-1")


def test_evaluate(run, finished):
    row = json.loads(run("evaluate", "finished", "--episodes", 5, "--json"))
    assert row["episodes"] == 5 == len(row["returns"]) == len(row["lengths"]) and row["returns"] == row["lengths"]
    assert row["mean_return"] == pytest.approx(np.mean(row["returns"]))
    assert row == json.loads(run("evaluate", "finished", "--episodes", 5, "--json"))
    sampled = json.loads(run("evaluate", "finished", "--episodes", 5, "--json", "--sample", "--best"))
    assert sampled["returns"] != row["returns"]
    assert f"mean return {row['mean_return']:.1f}" in run("evaluate", "finished", "--episodes", 5)


def test_resume_goes_on(run, finished):
    assert "384 of 384 steps" in run("resume", "finished", "--steps", 384)
    assert finished.summary["steps"] == 384


def test_record_and_plot(run, finished):
    run("train", "ppo", "device:CartPole-v1", *FLAGS, "--steps", 64, "--folder", "device")
    assert run("record", "device", "--output", "film.gif").strip() == "film.gif"
    with Image.open("film.gif") as film:
        assert film.n_frames > 5 and np.asarray(film.convert("L")).std() > 5
    assert run("plot", "finished", "device", "--output", "picture.png").strip() == "picture.png"
    with Image.open("picture.png") as picture:
        assert np.asarray(picture.convert("L")).std() > 5


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("algorithms", ["dqn", "ppo"]),
        ("topologies", ["a3c", "impala", "local", "sync"]),
        ("runtimes", ["inline", "processes", "threads"]),
        ("environments", ["CartPole-v1", "DeepSea", "RepeatPrevious"]),
    ],
)
def test_lists(run, what, names):
    lines = run("list", what).splitlines()
    for name in names:
        assert any(line.split()[:1] == [name] for line in lines), name
    if what != "environments":
        assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_show_mentions_every_setting_with_its_default_and_meaning(run, name, monkeypatch):
    import dataclasses

    from weft import algorithms

    monkeypatch.setenv("COLUMNS", "200")
    output = run("show", name)
    kind = algorithms.settings_class(algorithms.find(name))
    assert kind.__doc__.strip() in output
    fields = [(name, field) for field in dataclasses.fields(kind) if field.name != "network"]
    fields += [(f"{name}.network", field) for field in dataclasses.fields(kind().network)]
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.startswith("--")}
    assert list(rows) == [f"--{place}.{field.name}".replace("_", "-") for place, field in fields]
    assert all(len(row) >= 3 for row in rows.values())
    assert rows["--" + name + ".learning-rate"][0] == str(kind().learning_rate)


def test_show_tells_the_settings_of_topologies_too(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "--graph.shards" in run("show", "a3c")
    both = run("show", "impala")
    assert "--impala.discount" in both and "--graph.learners" in both


def test_graph_prints_and_draws(run, tmp_path):
    output = run("graph", "impala", "ppo", "Catch", "--actors", 4, "--graph.learners", 2, "--output", "graph.svg")
    assert "impala: 4 actors, 2 learners" in output and "Drawn in graph.svg" in output
    assert "learner 1" in (tmp_path / "graph.svg").read_text()
    assert "sync: 1 worker, 1 trainer" in run("graph", "sync")


def test_an_asynchronous_run_is_replayed(run):
    flags = ("--topology", "impala", "--runtime", "threads", "--actors", 2, "--impala.unroll", 16)
    run("train", "impala", "CartPole-v1", *flags, "--envs", 2, "--steps", 320, "--folder", "one")
    run("replay-order", "one", "--folder", "again")
    assert_same_bits("one", "again")


def test_bench_lists_and_runs_the_benchmarks(run, capfd):
    with pytest.raises(SystemExit) as stopped:
        run("bench")
    assert not stopped.value.code
    assert "startup" in capfd.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        run("bench", "nature-cnn", "--help")
    assert not stopped.value.code
    assert "nature_cnn.py" in capfd.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"]])
def test_help_lists_every_command(run, arguments):
    output = run(*arguments)
    for name, (_, text) in COMMANDS.items():
        assert f"  {name}" in output and text in output
    assert run("--version").strip() == f"weft {weft.__version__}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run, name, capfd):
    with pytest.raises(SystemExit) as stopped:
        run(name, "--help")
    assert not stopped.value.code
    assert f"usage: weft {name}" in capfd.readouterr().out


def test_help_of_train_with_an_algorithm_lists_its_settings(run, capfd):
    with pytest.raises(SystemExit):
        run("train", "ppo", "CartPole-v1", "--help")
    output = capfd.readouterr().out
    for flag in ("--steps", "--seeds", "--env.frame-stack", "--ppo.clip", "--ppo.network.hidden"):
        assert flag in output


@pytest.mark.parametrize(
    ("code", "seconds"),
    [
        ("import weft", 0.3),
        ("import sys; sys.argv = ['weft', '--help']; from weft.cli import main; main()", 0.5),
    ],
)
def test_the_surface_is_quick_and_imports_no_jax(code, seconds):
    took = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - began)
        if took[-1] < seconds:
            break
    assert min(took) < seconds
    heavy = {"jax", "flax", "numpy", "gymnasium", "tyro"}
    checked = f"{code}; import sys; assert not {heavy} & set(sys.modules), set(sys.modules)"
    subprocess.run([sys.executable, "-c", checked], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("arguments", [["train", "ppo", "CartPole-v1", "--steps", "0"], ["evaluate", "nowhere"]])
def test_the_allocator_is_told_before_jax_is_loaded(arguments):
    code = f"""
import sys
from weft import allocation, cli
allocation.keep_memory = lambda: print("jax" in sys.modules)
sys.argv = ["weft", *{arguments}]
cli.main()
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert out.startswith("False")
