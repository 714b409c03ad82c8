"""Whole runs: what they leave behind, that they repeat, and that they stop before anything is spoilt."""

import json
import math
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pandas
import pytest
from PIL import Image

import weft
from weft.runs.checkpoint import Checkpoints
from whole_runs import PPO, SMALL, assert_same_bits


class Faulty(gymnasium.Env):
    """After 100 steps it breaks: its observation, its reward, or nothing."""

    observation_space = gymnasium.spaces.Dict(
        {"near": gymnasium.spaces.Box(-1, 1, (3,)), "far": gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(4)])}
    )
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, what=None, value=math.nan):
        self.what, self.value, self.steps = what, value, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observation(), {}

    def step(self, action):
        self.steps += 1
        broken = self.what if self.steps == 100 else None
        observation = self._observation()
        if broken == "observation":
            observation["near"][1] = self.value
        return observation, self.value if broken == "reward" else float(action), self.steps % 7 == 0, False, {}

    def _observation(self):
        return {"near": self.np_random.uniform(-1, 1, 3).astype(np.float32), "far": (np.int64(self.steps % 4),)}


def test_the_same_configuration_in_another_process_gives_the_same_bits(finished, command):
    process = command("train", "--config", finished.folder / "config.toml", "--folder", "again")
    output, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    again = weft.load(finished.folder.with_name("again"))
    assert_same_bits(finished.folder, again.folder)
    assert (again.folder / "config.toml").read_text() == (finished.folder / "config.toml").read_text()
    for name, column in finished.metrics.items():
        if not name.startswith(("seconds", "steps_per_second", "share_")):
            np.testing.assert_array_equal(column, again.metrics[name])
    assert f"Next: weft evaluate {again.folder.name}" in output


def test_a_run_says_what_it_was_and_how_it_stands(finished):
    summary = json.loads((finished.folder / "summary.json").read_text())
    assert summary == finished.summary
    assert summary.pop("seconds") > 0 and summary.pop("steps_per_second") > 0
    assert 8 < summary.pop("mean_return") < 100 and summary.pop("episodes") > 2
    names = {"algorithm": "ppo", "environment": "CartPole-v1", "topology": "local", "runtime": "inline", "seed": 0}
    assert summary == {**names, "steps": 320, "finished": True}


def test_metrics_are_a_table_for_pandas_and_scalars_for_tensorboard(finished):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    table = pandas.read_json(finished.folder / "metrics.jsonl", lines=True)
    assert list(table["steps"]) == list(range(32, 321, 32)) == list(pandas.DataFrame(finished.metrics)["steps"])
    assert np.isfinite(table[["loss", "entropy", "gradient_norm", "mean_return", "episodes"]].to_numpy()).all()
    shares = table[["share_environment", "share_policy", "share_learning"]]
    assert (shares >= 0).all(axis=None) and (shares.sum(axis=1) <= 1.001).all()
    events = EventAccumulator(str(finished.folder / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss")] == list(table["steps"])
    np.testing.assert_allclose([event.value for event in events.Scalars("loss")], table["loss"], rtol=1e-6)


def test_settings_that_are_none_stay_none(tiny):
    run = tiny(steps=32, settings={"clip_rewards": None, "max_gradient_norm": None})
    loaded = weft.load(run.folder).config
    assert loaded.settings.clip_rewards is None and loaded.settings.max_gradient_norm is None
    assert loaded == run.config


def test_arguments_override_a_configuration_and_leave_the_rest(finished, tmp_path):
    run = weft.train(
        config=finished.folder / "config.toml",
        folder=tmp_path / "other",
        steps=32,
        settings={"clip": 0.1},
        env={"time_limit": 9},
        progress=False,
    )
    assert run.config.settings.clip == 0.1 and run.config.settings.unroll == 16
    assert run.config.train.env.time_limit == 9 and run.config.train.env.atari.frame_skip == 4
    assert run.config.train.steps == 32 and run.config.train.envs == 2 and run.config.algorithm == "ppo"


@pytest.mark.parametrize("what", ["observation", "reward"])
def test_what_is_not_finite_stops_the_training_and_keeps_the_last_good_checkpoint(tmp_path, what):
    folder = tmp_path / "run"
    with pytest.raises(weft.TrainingDiverged) as raised:
        weft.train(
            "ppo",
            Faulty,
            envs=2,
            steps=10_000,
            folder=folder,
            settings=PPO,
            env={"arguments": {"what": what}},
            checkpoint_every=64,
            progress=False,
        )
    text = str(raised.value)
    assert f"The {what}" in text and "after 114 steps" in text and "nan" in text
    assert f"The checkpoint of step 192 is kept in {folder / 'checkpoints'}." in text
    run = weft.load(folder, environment=Faulty)
    assert Checkpoints(folder / "checkpoints").steps()[-1] == 192
    assert run.summary["finished"] is False and run.summary["steps"] == 224 == run.metrics["steps"][-1]
    observation = {"near": np.zeros((2, 3), np.float32), "far": (np.zeros(2, int),)}
    assert run.policy.act(observation).shape == (2,) and np.isfinite(run.policy.value(observation)).all()


@pytest.mark.parametrize(("algorithm", "more"), [("ppo", {"epochs": 1, "minibatches": 1}), ("dqn", {})])
def test_learning_that_diverges_stops_and_keeps_finite_parameters_only(tiny, tmp_path, algorithm, more):
    """The step that ruins the parameters has a finite loss itself."""
    settings = {"learning_rate": math.inf, "anneal": False, "network": {"hidden": []}, **more}
    with pytest.raises(weft.TrainingDiverged, match=r"became NaN or infinite at update \d+\."):
        tiny(algorithm, settings=settings, checkpoint_every=2, steps=640)
    run = weft.load(tmp_path / "run")
    assert run.summary["finished"] is False and run.summary["steps"] < 200
    if Checkpoints(run.folder / "checkpoints").steps():
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(run.policy.parameters))


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_run_on_nested_spaces_is_loaded_evaluated_and_resumed(tiny, algorithm):
    run = tiny(algorithm, Faulty, steps=96)
    assert run.config.environment == "test_train:Faulty"
    run = weft.load(run.folder)
    evaluation = run.evaluate(episodes=3)
    assert list(evaluation.lengths) == [7, 7, 7] and 0 <= evaluation.mean_return <= 7
    assert run.resume(steps=160, progress=False).summary["steps"] == 160


def test_a_run_on_a_device_environment_is_filmed(tiny, tmp_path):
    run = tiny(environment="device:CartPole-v1", steps=32)
    path = run.record(tmp_path / "film.gif")
    with Image.open(path) as film:
        frames = film.n_frames
        first = np.asarray(film.convert("RGB"))
        film.seek(frames - 1)
        last = np.asarray(film.convert("RGB"))
    assert frames > 5 and first.std() > 5 and (first != last).any()
    with pytest.raises(weft.WeftError, match="at least 1"):
        run.record(tmp_path / "none.gif", episodes=0)


def test_seeds_are_plotted_as_one_line(tmp_path):
    options = {"steps": 128, "envs": 2, "settings": PPO, "progress": False, "loggers": []}
    runs = weft.train_seeds(2, "ppo", "CartPole-v1", seed=5, folder=tmp_path, **options)
    assert [run.config.train.seed for run in runs] == [5, 6]
    assert [run.folder for run in runs] == [tmp_path / "seed-5", tmp_path / "seed-6"]
    path = weft.plot([run.folder for run in runs], tmp_path / "plot.png")
    with Image.open(path) as picture:
        assert picture.size[0] > 300 and np.asarray(picture.convert("L")).std() > 5


def test_runs_without_a_folder_of_their_own_are_told_apart(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    options = {"steps": 8, "envs": 1, "progress": False, "loggers": []}
    settings = {"batch": 4, "warmup": 8, "capacity": 64, "network": SMALL}
    runs = [weft.train("dqn", "CartPole-v1", settings=settings, **options) for _ in range(2)]
    assert runs[0].folder != runs[1].folder and runs[0].folder.parent == Path("runs")
    assert runs[0].best_policy is not None
