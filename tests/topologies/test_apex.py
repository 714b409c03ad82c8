"""Ape-X: a replay in the middle, on every runtime; its shards, its limits, its priorities."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.errors import WeftError
from weft.runtime import RUNTIMES
from whole_runs import train

DQN = {"warmup": 64, "batch": 16, "capacity": 2_000, "steps_per_update": 4, "prioritised": True, "double": True}


def build(folder, runtime="threads", settings=None, actors=2, steps=640, environment="CartPole-v1", **options):
    settings = {**DQN, **(settings or {})}
    return train(
        "dqn",
        environment,
        folder,
        topology="apex",
        runtime=runtime,
        actors=actors,
        steps=steps,
        settings=settings,
        **options,
    )


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("shards", [1, 2])
def test_learns_on_every_runtime(runtime, shards, tmp_path):
    run = build(tmp_path / "run", runtime, graph={"shards": shards, "unroll": 8})
    summary, metrics = run.summary, run.metrics
    assert summary["finished"] and 640 <= summary["steps"] <= 640 + 400
    assert summary["episodes"] > 3 and np.isfinite(metrics["loss"][-1])
    assert metrics["replay_items"][-1] > 300 and metrics["updates"][-1] > 50
    assert run.evaluate(episodes=1).returns.shape == (1,)


@pytest.mark.parametrize("prioritised", [False, True])
@pytest.mark.parametrize("environment", ["MemoryChain", "envpool-async:CartPole-v1"])
def test_recurrent_networks_and_asynchronous_environments(prioritised, environment, tmp_path):
    network = {"hidden": [8], "recurrent": "gru", "memory_size": 4}
    settings = {"network": network, "sequence": 8, "burn_in": 2, "prioritised": prioritised}
    run = build(tmp_path / "run", settings=settings, environment=environment, graph={"unroll": 6})
    assert run.summary["finished"] and np.isfinite(run.metrics["loss"][-1])


def test_as_many_samples_for_each_step_as_the_algorithm_asks_for(tmp_path):
    run = build(tmp_path / "run", steps=6_000, settings={"capacity": 6_000}, graph={"unroll": 5})
    assert run.metrics["samples_per_insert"][-1] == pytest.approx(16 / 4, rel=0.05)


def test_goes_on_where_it_stopped_with_the_replay_that_it_had(tmp_path):
    stopped = build(tmp_path / "run", steps=1_200, graph={"shards": 2}, callbacks=[lambda row: row["steps"] < 600])
    assert not stopped.summary["finished"]
    steps, updates, items = (stopped.metrics[name][-1] for name in ("steps", "updates", "replay_items"))
    assert 600 <= steps < 1_200
    resumed = weft.load(tmp_path / "run").resume(progress=False)
    assert resumed.summary["finished"] and resumed.metrics["updates"][-1] > updates
    after = resumed.metrics["steps"] > steps
    assert resumed.metrics["replay_items"][after][0] >= items


def test_what_is_learned_from_unrolls_is_refused_and_told_where_it_fits(tmp_path):
    with pytest.raises(WeftError, match=r"ppo learns from fresh unrolls, which apex has no place for: use --topology"):
        train("ppo", "CartPole-v1", tmp_path / "run", topology="apex")


def test_more_shards_than_actors_are_refused(tmp_path):
    with pytest.raises(WeftError, match="3 shards need at least as many actors, not 2"):
        build(tmp_path / "run", graph={"shards": 3})
