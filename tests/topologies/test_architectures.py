"""Every algorithm in every topology that fits on every runtime: whole runs, and what they have in common."""

import itertools
import json
import re

import jax
import numpy as np
import pytest

import weft
from weft.errors import WeftError
from weft.runtime import RUNTIMES
from whole_runs import ON_POLICY, assert_same_bits, kept, train

GRAPHS = {
    "sync": ("sync", {}),
    "impala": ("impala", {}),
    "impala, batches of 2": ("impala", {"batch": 2}),
    "impala, a master": ("impala", {"learners": 2}),
    "impala, all": ("impala", {"learners": 2, "reduce": "all"}),
    "a3c": ("a3c", {}),
    "a3c, 2 servers": ("a3c", {"shards": 2}),
    "a3c, average": ("a3c", {"merge": "average", "every": 2}),
    "a3c, best": ("a3c", {"merge": "best", "every": 2}),
}
SYNCHRONOUS = ("sync", "a3c, average", "a3c, best")
EVERYWHERE = pytest.mark.parametrize("runtime", RUNTIMES)


def build(folder, architecture, runtime="inline", algorithm="ppo", environment="CartPole-v1", actors=2, **options):
    topology, settings = GRAPHS[architecture]
    settings = {**settings, **options.pop("graph", {})}
    return train(
        algorithm, environment, folder, topology=topology, runtime=runtime, actors=actors, graph=settings, **options
    )


def state_of(folder):
    return {name: np.asarray(leaf) for name, leaf in kept(folder) if name.startswith("['learner']")}


def assert_close_states(folder, other, tolerance):
    ones, others = state_of(folder), state_of(other)
    assert ones.keys() == others.keys()
    for name, leaf in ones.items():
        np.testing.assert_allclose(leaf, others[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("algorithm", ON_POLICY)
def test_each_algorithm_learns_in_each_topology(algorithm, graph, tmp_path):
    run = build(tmp_path / "run", graph, "threads", algorithm, steps=640)
    summary, metrics = run.summary, run.metrics
    assert summary["finished"] and 640 <= summary["steps"] <= 640 + 4 * 64
    assert summary["episodes"] > 3 and 8 < summary["mean_return"] < 100
    assert np.isfinite(metrics["loss"][-1]) and metrics["updates"][-1] > 0
    assert any(name.startswith("wait_") for name in metrics)
    assert run.evaluate(episodes=1).returns.shape == (1,)


@pytest.mark.parametrize("graph", [name for name in GRAPHS if name != "impala, batches of 2"])
def test_each_topology_runs_in_processes(graph, tmp_path):
    run = build(tmp_path / "run", graph, "processes", "impala", steps=640)
    assert run.summary["finished"] and run.summary["runtime"] == "processes" and run.summary["episodes"] > 3


@pytest.mark.parametrize("graph", ["sync", "impala", "a3c", "a3c, average"])
@pytest.mark.parametrize("environment", ["MemoryChain", "envpool-async:CartPole-v1"])
def test_recurrent_networks_and_asynchronous_environments(graph, environment, tmp_path):
    network = {"hidden": [8], "recurrent": "gru", "memory_size": 4}
    run = build(tmp_path / "run", graph, "threads", environment=environment, settings={"network": network})
    assert run.summary["finished"] and run.summary["episodes"] > 3


@pytest.mark.parametrize("graph", SYNCHRONOUS)
def test_a_synchronous_topology_gives_the_same_bits_on_every_runtime(graph, tmp_path):
    for runtime in RUNTIMES:
        build(tmp_path / runtime, graph, runtime)
    for runtime in RUNTIMES:
        assert_same_bits(tmp_path / "inline", tmp_path / runtime)


@EVERYWHERE
def test_sync_with_one_worker_is_local(runtime, tmp_path):
    train("ppo", "CartPole-v1", tmp_path / "local")
    build(tmp_path / "sync", "sync", runtime, actors=1)
    assert_close_states(tmp_path / "local", tmp_path / "sync", 0)


@pytest.mark.parametrize(
    "graph", [name for name in GRAPHS if "2" not in name and "master" not in name and name != "impala, all"]
)
@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_one_update_from_the_same_data_is_that_of_local(algorithm, graph, tmp_path):
    one = {"steps": 32, "graph": {"every": 1} if "average" in graph or "best" in graph else {}}
    train(algorithm, "CartPole-v1", tmp_path / "local", steps=32)
    build(tmp_path / "run", graph, algorithm=algorithm, actors=1, **one)
    assert state_of(tmp_path / "run")["['learner']['state'].updates"] == (4 if algorithm == "ppo" else 1)
    assert_close_states(tmp_path / "local", tmp_path / "run", 0 if graph in ("sync", "impala") else 1e-6)


def test_servers_with_parts_of_the_parameters_take_the_same_steps_as_one(tmp_path):
    for shards in (1, 2, 5):
        build(tmp_path / str(shards), "a3c", actors=1, graph={"shards": shards})
    for shards in (2, 5):
        assert_close_states(tmp_path / "1", tmp_path / str(shards), 1e-6)


@pytest.mark.parametrize("reduce", ["master", "all"])
def test_learners_with_half_the_batch_each_are_one_with_all_of_it(reduce, tmp_path):
    """No episode ends within the first steps, so that both halves weigh the same."""
    plain = {"standardise_advantages": False, "scale_rewards": False, "epochs": 1, "minibatches": 1, "unroll": 6}
    build(tmp_path / "one", "sync", settings=plain, steps=24)
    build(tmp_path / "two", "impala", settings=plain, steps=24, graph={"learners": 2, "reduce": reduce})
    assert state_of(tmp_path / "two")["['learner']['state'].updates"] == 1
    assert_close_states(tmp_path / "one", tmp_path / "two", 1e-5)


@pytest.mark.parametrize("graph", SYNCHRONOUS)
@EVERYWHERE
def test_stopped_and_resumed_is_the_same_bit_for_bit(graph, runtime, tmp_path):
    build(tmp_path / "whole", graph, runtime, steps=640, checkpoint_every=128)

    def stop(row):
        return row["steps"] < 256

    stopped = build(tmp_path / "stopped", graph, runtime, steps=640, checkpoint_every=128, callbacks=[stop])
    assert not stopped.summary["finished"]
    weft.load(tmp_path / "stopped").resume(progress=False)
    assert_same_bits(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.parametrize("graph", ["impala", "impala, a master", "impala, all", "a3c", "a3c, 2 servers"])
def test_an_asynchronous_run_goes_on_where_it_stopped_and_says_what_began_anew(graph, tmp_path, caplog):
    stopped = build(tmp_path / "run", graph, steps=640, callbacks=[lambda row: row["steps"] < 256])
    before = state_of(tmp_path / "run")
    steps, episodes = stopped.summary["steps"], stopped.summary["episodes"]
    assert 256 <= steps < 640
    resumed = stopped.resume(progress=False)
    assert "begin anew" in caplog.text
    assert resumed.summary["finished"] and resumed.summary["episodes"] > episodes
    assert resumed.metrics["steps"].tolist() == sorted(set(resumed.metrics["steps"].tolist()))
    updates = "['learner']['state'].updates"
    assert state_of(tmp_path / "run")[updates] > before[updates] > 0


@pytest.mark.parametrize(
    ("graph", "runtime"),
    [*itertools.product(["impala", "a3c"], ["threads", "processes"]), ("a3c, 2 servers", "threads")],
)
def test_an_asynchronous_run_is_repeated_bit_for_bit(graph, runtime, tmp_path):
    run = build(tmp_path / "run", graph, runtime, steps=960)
    run.repeat(tmp_path / "again", progress=False)
    assert_close_states(tmp_path / "run", tmp_path / "again", 0)
    assert 'runtime = "inline"' in (tmp_path / "again" / "config.toml").read_text()


def test_a_run_without_a_recorded_order_cannot_be_repeated(tmp_path, finished):
    with pytest.raises(WeftError, match=r"order\.jsonl"):
        finished.repeat(tmp_path / "again")
    half = build(tmp_path / "half", "impala", "threads", callbacks=[lambda row: False])
    with pytest.raises(WeftError, match="is not finished"):
        half.repeat(tmp_path / "again")


def test_policy_lag_is_measured_and_can_be_injected(tmp_path):
    for delay in (0, 5):
        run = build(tmp_path / str(delay), "impala", actors=1, graph={"delay": delay}, steps=960)
        lags = run.metrics["lag_mean"][10:]
        assert (lags >= delay).all() and (lags <= delay + 2).all()
        assert (run.metrics["lag_max"][10:] >= lags).all()


def test_gradients_that_are_too_old_are_discarded(tmp_path):
    free = build(tmp_path / "free", "a3c", actors=3)
    assert free.metrics["lag_max"].max() > 1 and free.metrics["gradients_discarded"][-1] == 0
    bounded = build(tmp_path / "bounded", "a3c", actors=3, graph={"max_staleness": 1})
    assert bounded.metrics["gradients_discarded"][-1] > 0
    assert np.nanmax(bounded.metrics["lag_max"]) <= 1


def test_the_best_worker_is_what_all_go_on_with():
    from weft.algorithm import State
    from weft.topologies.merging import averaged, chosen

    states = [State.begin({"w": np.full(3, value)}, (np.int32(value),)) for value in (1.0, 2.0, 6.0)]
    best = chosen(states, np.array([3.0, 7.0, -np.inf]))
    jax.tree.map(np.testing.assert_array_equal, best, states[1])
    mean = averaged(states, np.zeros(3))
    assert mean.params["w"].tolist() == [3.0] * 3 and mean.optimiser[0] == 6


@pytest.mark.parametrize(
    ("algorithm", "graph", "options", "message"),
    [
        ("dqn", "impala", {}, "dqn learns from a replay, which impala has no place for: use --topology local"),
        ("dqn", "a3c", {}, "use --topology local"),
        ("ppo", "impala", {"graph": {"learners": 3}}, "3 learners need at least as many actors, not 2"),
        ("ppo", "a3c, average", {"graph": {"shards": 2}}, "merging by average has no parameter server"),
        ("ppo", "impala", {"graph": {"lerners": 3}}, "no setting of graph named 'lerners': did you mean learners?"),
        ("ppo", "impala", {"graph": {"full": "drop"}}, "graph.full is 'drop'"),
        ("ppo", "impala", {"graph": {"delay": -1}}, "graph.delay is -1"),
        ("ppo", "sync", {"settings": {"minibatches": 7}}, "cannot be split into 7 minibatches"),
        ("ppo", "sync", {"runtime": "proceses"}, "no runtime named 'proceses': did you mean processes?"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing_behind(algorithm, graph, options, message, tmp_path):
    with pytest.raises(WeftError, match=re.escape(message)):
        build(tmp_path / "run", graph, options.pop("runtime", "inline"), algorithm, **options)
    assert not (tmp_path / "run").exists()


def test_the_run_ends_by_naming_who_waited_for_whom(tmp_path, capsys):
    build(tmp_path / "run", "impala", "threads", progress=True, steps=960)
    assert re.search(r"The (actors|learner) waited for the (actor|learner) \d+% of the time\.", capsys.readouterr().out)


def test_the_configuration_says_how_it_was_executed_and_repeats_it(tmp_path):
    run = build(tmp_path / "run", "impala", "inline", graph={"batch": 2})
    again = weft.train(config=run.folder / "config.toml", folder=tmp_path / "again", progress=False)
    assert again.config.graph.batch == 2 and again.config.train.topology == "impala"
    assert_same_bits(tmp_path / "run", tmp_path / "again")
    assert json.loads((tmp_path / "again" / "summary.json").read_text())["topology"] == "impala"


def test_topologies_that_send_something_run_in_processes_unless_told_otherwise(tmp_path):
    from weft.launch import configure

    assert configure("ppo", "CartPole-v1", {"topology": "impala"})[0].train.runtime == "processes"
