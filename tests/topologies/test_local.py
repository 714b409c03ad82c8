"""The local topology: what is counted and reported, and that a stopped and resumed run is the same, bit for bit."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest
from walking import SPACES, Walk, Watcher, program_of, run, saved

from weft.algorithm import Algorithm, Feedback
from weft.algorithms import dqn, ppo
from weft.errors import TrainingDiverged
from weft.networks.network import NetworkSettings
from weft.runs.checkpoint import Checkpoints
from weft.topologies.job import Reporter

NUMBER = 4


def make_ppo(recurrent: Any = None) -> Algorithm:
    network = NetworkSettings(hidden=(4,), memory_size=3, recurrent=recurrent)
    return ppo.ppo(ppo.Config(unroll=8, epochs=2, minibatches=2, network=network), SPACES)


def make_dqn(recurrent: Any = None) -> Algorithm:
    network = NetworkSettings(hidden=(4,), memory_size=3, recurrent=recurrent)
    config = dqn.Config(
        batch=8, capacity=120, warmup=32, steps_per_update=3.0, target_period=3, sequence=4, network=network
    )
    return dqn.dqn(config, SPACES)


ALGORITHMS = {
    "ppo": (make_ppo, 32),
    "ppo_lstm": (functools.partial(make_ppo, "lstm"), 32),
    "dqn": (make_dqn, NUMBER),
    "dqn_gru": (functools.partial(make_dqn, "gru"), NUMBER),
}
"""name -> (factory, steps of one cycle)"""


@pytest.mark.parametrize("name", ALGORITHMS)
def test_stopped_and_resumed_is_bit_for_bit_the_same_as_never_stopped(name, tmp_path):
    make, cycle = ALGORITHMS[name]
    middle, end = 512 + cycle, 640  # beyond the first block of random keys
    algorithm, checkpoints = make(), Checkpoints(tmp_path)

    def save_in_the_middle(reporter: Reporter) -> None:
        if reporter.steps == middle:
            checkpoints.save(saved(reporter), middle)

    never_stopped = run(algorithm, Watcher(save_in_the_middle), Walk(NUMBER), end)
    walk, watcher = Walk(NUMBER), Watcher()
    restore = functools.partial(_restore, checkpoints)
    resumed = run(algorithm, watcher, walk, end, restore=restore)
    assert watcher.ticks[0] == middle and not watcher.notes and walk.resets == 0
    jax.tree.map(np.testing.assert_array_equal, saved(resumed), saved(never_stopped))
    same = ("updates", "episodes", "mean_return", "mean_length")
    assert {key: resumed.report()[key] for key in same} == {key: never_stopped.report()[key] for key in same}
    assert saved(resumed)["learner"]["state"].updates > 0


def _restore(checkpoints: Checkpoints, templates: dict[str, Any]) -> dict[str, Any]:
    return checkpoints.restore(templates).parts


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_where_the_environment_cannot_be_saved_the_episodes_begin_anew_and_the_run_says_so(name, tmp_path):
    make, cycle = ALGORITHMS[name]
    algorithm, checkpoints = make(), Checkpoints(tmp_path)
    stopped = run(algorithm, Watcher(lambda reporter: reporter.steps < 64), Walk(NUMBER, savable=False), 320)
    assert stopped.steps == 64
    checkpoints.save(saved(stopped), stopped.steps)
    walk, watcher = Walk(NUMBER, savable=False), Watcher()
    resumed = run(algorithm, watcher, walk, 64 + 2 * cycle, restore=functools.partial(_restore, checkpoints))
    (note,) = watcher.notes
    assert "Walk" in note and "begin anew" in note
    assert walk.resets == 1 and resumed.steps == 64 + 2 * cycle
    before, after = saved(stopped), saved(resumed)
    if name == "dqn":
        replay = after["experience"]["replay"]
        np.testing.assert_array_equal(replay["columns"]["valid"][15], False)
        assert before["experience"]["replay"]["columns"]["valid"][15].any()
        assert replay["columns"]["first"][16].all()


def test_running_returns_begin_anew_with_the_episodes(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    stopped = run(make_ppo(), Watcher(), Walk(NUMBER, savable=False), 32)
    assert saved(stopped)["experience"]["running_return"].any()
    checkpoints.save(saved(stopped), 32)
    watcher = Watcher(lambda reporter: False)
    resumed = run(
        make_ppo(), watcher, Walk(NUMBER, savable=False), 64, restore=functools.partial(_restore, checkpoints)
    )
    np.testing.assert_array_equal(saved(resumed)["experience"]["running_return"], 0)


def test_steps_updates_and_reports():
    watcher, walk = Watcher(), Walk(NUMBER)
    agent = run(make_ppo(), watcher, walk, 96)
    assert watcher.ticks == [0, 32, 64] and agent.steps == 96 and walk.closed
    report = agent.report()
    assert report["updates"] == 3 * 4
    assert report["episodes"] >= 8 and 1 <= report["mean_length"] <= 7
    assert np.isfinite(report["loss"])
    shares = {name: value for name, value in report.items() if name.startswith("share_")}
    assert set(shares) == {"share_environment", "share_policy", "share_learning"}
    assert all(value > 0 for value in shares.values()) and sum(shares.values()) <= 1
    assert agent.report()["updates"] == 12


def test_updates_keep_pace_with_steps():
    """One update for three steps once the replay is warm, which the run is told of at once."""
    seen = []

    def look(reporter: Reporter) -> None:
        seen.append((reporter.steps, reporter.report()["updates"], reporter.learning))

    look(run(make_dqn(), Watcher(look), Walk(NUMBER), 92))
    for steps, updates, learning in seen:
        due = max(steps - 32 + NUMBER, 0) / 3
        assert abs(updates - due) < 1 + 1e-6 and learning == (updates > 0)
    assert updates > 15


def test_same_seed_same_run_and_another_seed_another():
    first, again, other = (
        saved(run(make_ppo(), Watcher(), Walk(NUMBER), 64, seed=seed))["learner"]["state"] for seed in (3, 3, 4)
    )
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert any((left != right).any() for left, right in zip(*map(jax.tree.leaves, (first, other)), strict=True))


def test_what_is_saved_is_not_changed_by_learning_on():
    kept, copies = [], []

    def keep(reporter: Reporter) -> None:
        kept.append(saved(reporter)["learner"])
        copies.append(jax.tree.map(np.array, kept[-1]))

    run(make_ppo(), Watcher(keep), Walk(NUMBER), 96)
    jax.tree.map(np.testing.assert_array_equal, kept, copies)
    assert kept[0]["state"].updates == 0 and kept[2]["state"].updates == 8


def test_divergence_is_reported_with_the_update_at_which_it_began():
    algorithm = make_dqn()

    def gradients(state, minibatch, key):
        grads, feedback = algorithm.gradients(state, minibatch, key)
        loss = jax.numpy.where(state.updates >= 3, np.nan, feedback.metrics["loss"])
        return grads, Feedback({**feedback.metrics, "loss": loss})

    broken = _replaced(algorithm, gradients=gradients)
    agent = run(broken, Watcher(), Walk(NUMBER), 60)
    with pytest.raises(TrainingDiverged, match="loss became NaN or infinite at update 3"):
        agent.report()


def test_environments_are_closed_when_something_goes_wrong():
    def fail(reporter: Reporter) -> None:
        raise KeyboardInterrupt

    walk = Walk(NUMBER)
    with pytest.raises(KeyboardInterrupt):
        run(make_ppo(), Watcher(fail), walk, 96)
    assert walk.closed


def test_exploration_and_learning_rate_follow_the_progress_of_the_run():
    algorithm, levels = make_dqn(), []
    watched = _replaced(algorithm, explore=lambda progress: levels.append(progress) or 0.5)
    agent = run(watched, Watcher(), Walk(NUMBER), 40)
    assert levels == [steps / 40 for steps in range(0, 40, NUMBER)]
    assert saved(agent)["learner"]["state"].progress == np.float32(36 / 40)


def test_the_program_is_one_agent():
    program = program_of(make_ppo(), Watcher(), Walk(NUMBER), 32)
    assert program.name == "local" and list(program.nodes) == ["agent"]


def _replaced(algorithm: Algorithm, **functions: Any) -> Algorithm:
    return Algorithm(**{**vars(algorithm), **functions})
