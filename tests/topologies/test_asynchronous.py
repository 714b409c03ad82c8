"""Asynchronous environments: every step is recorded once, in order, for each environment, and nothing is invented."""

from __future__ import annotations

import functools
import pickle
from collections import Counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from walking import Watcher, run, saved

from weft.algorithm import Act, Algorithm
from weft.algorithms import dqn, ppo
from weft.envs.base import AsynchronousEnvironment
from weft.experience.asynchronous import AsynchronousReplayBuffer, AsynchronousUnrollRecorder
from weft.experience.kinds import Replay, Unrolls
from weft.maths.normalisation import Normaliser
from weft.networks.network import NetworkSettings
from weft.topologies.asynchronous import AsynchronousActor
from weft.topologies.local import UnrollCycle
from weft.types import Spaces, Timestep, Trajectory

DISCOUNT = 0.5
SPACES = Spaces(spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Discrete(3))


class Made(NamedTuple):
    """One step as an environment made it; ``real`` unless it is the filler between two episodes."""

    observation: tuple[float, ...]
    first: bool
    real: bool
    action: int
    reward: float
    discount: float
    successor: tuple[float, ...]
    ended: bool
    """Whether the episode is over after it, or was over before."""


class Stub(SimpleNamespace):
    """An algorithm of which only a part is needed; like any algorithm it can be a key."""

    __hash__ = object.__hash__


class Uneven:
    """Shows (environment, episode, step). Episode lengths and how long each step takes follow scripts; environment 0
    is the slowest, and every second episode is truncated."""

    name = "Uneven"
    spaces = SPACES
    delivers_final = False

    def __init__(
        self, number: int, batch: int, lengths: list[int], durations: list[int], same_step: bool, episode: int = 0
    ) -> None:
        self.number, self.batch = number, batch
        self.made: list[list[Made]] = [[] for _ in range(number)]
        self.seeds: list[int] = []
        self._episodes = [episode] * number
        self._lengths, self._durations, self._same_step = lengths, durations, same_step

    def reset(self, seed: int) -> None:
        self.seeds.append(seed)
        self.shown = [self._begin(id) for id in range(self.number)]
        self._actions: list[int | None] = [None] * self.number
        self._waiting = [(0, id) for id in range(self.number)]
        self._clock = 0

    def receive(self) -> tuple[np.ndarray, Timestep]:
        self._clock, ids = self._waiting[self.batch - 1][0], [id for _, id in self._waiting[: self.batch]]
        self._waiting = self._waiting[self.batch :]
        for id in ids:
            if self._actions[id] is not None:
                self._step(id, self._actions[id])
        columns = [np.array(column) for column in zip(*(self.shown[id] for id in ids), strict=True)]
        return np.array(ids), Timestep(*columns)._replace(final=columns[5] if self._same_step else None)

    def send(self, ids: np.ndarray, action: np.ndarray) -> None:
        for id, move in zip(ids.tolist(), action.tolist(), strict=True):
            assert id not in [waiting for _, waiting in self._waiting]
            self._actions[id] = move
            duration = self._durations[(id + len(self.made[id])) % len(self._durations)] * (4 if id == 0 else 1)
            self._waiting = sorted([*self._waiting, (self._clock + duration, id)])

    def _begin(self, id: int) -> Timestep:
        observation = np.array([id, self._episodes[id], 0], np.float32)
        return Timestep(observation, np.float32(0), np.float32(1), True, False, observation)

    def _step(self, id: int, action: int) -> None:
        before = self.shown[id]
        after = self._begin(id) if before.last else self._within(before, action)
        successor = after.observation
        if after.last:
            self._episodes[id] += 1
        if after.last and self._same_step:
            begun = self._begin(id).observation
            after = after._replace(observation=begun, first=True, last=False, final=successor)
        self.shown[id] = after
        step = (tuple(before.observation), before.first, not before.last, action, after.reward, after.discount)
        self.made[id].append(Made(*step, tuple(successor), after.first or after.last))

    def _within(self, before: Timestep, action: int) -> Timestep:
        id, episode, step = before.observation.astype(int)
        ended = step + 1 == self._lengths[episode % len(self._lengths)]
        observation = np.array([id, episode, step + 1], np.float32)
        discount = np.float32(not ended or episode % 2)
        return Timestep(observation, np.float32(step + action / 4), discount, False, ended, observation)

    def render(self) -> None:
        return None

    def close(self) -> None:
        pass


@st.composite
def environments(draw: st.DrawFn) -> Uneven:
    number = draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    durations = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    return Uneven(number, draw(st.integers(1, number)), lengths, durations, draw(st.booleans()))


def counting() -> Any:
    """What actors need of an algorithm: its memory counts the steps of an episode, its extras tell how it acted."""

    def act(policy, observation, memory, first, key, explore):
        memory = jnp.where(first, 0, memory)
        action = (observation.sum(axis=-1) + policy).astype(jnp.int32) % 3
        draw = jax.random.bits(key, first.shape)
        return Act(action, action, memory + 1, {"memory": memory, "policy": policy + 0 * memory, "draw": draw})

    return Stub(memory=lambda number: jnp.zeros(number), act=act, explore=lambda progress: 1.0)


def actor_of(environment: Uneven) -> AsynchronousActor:
    assert isinstance(environment, AsynchronousEnvironment)
    return AsynchronousActor(counting(), environment, np.random.SeedSequence(1))


class Collector:
    """A learner that learns nothing: it keeps unrolls, and what every environment had made and showed by then."""

    def __init__(self, environment: Uneven) -> None:
        self.algorithm = counting()
        self.state = SimpleNamespace(policy=np.float32(0))
        self.unrolls: list[tuple[Trajectory, list[int], list[Timestep]]] = []
        self._environment = environment

    def learn(self, batch: Trajectory, progress: float) -> None:
        self.unrolls.append((batch, list(map(len, self._environment.made)), list(self._environment.shown)))
        self.state.policy = self.state.policy + 1


@settings(deadline=None, max_examples=30, derandomize=True)
@given(environment=environments(), length=st.integers(1, 6))
def test_unrolls_hold_every_step_once_and_in_order(environment, length):
    cycle = UnrollCycle(AsynchronousUnrollRecorder(Unrolls(length, return_discount=DISCOUNT), environment.number))
    actor, collector = actor_of(environment), Collector(environment)
    for _ in range(5):
        cycle.advance(actor, collector, 0.0)
    assert actor.agent_steps == sum(map(len, environment.made))
    counts = np.array([[0] * environment.number, *(counts for _, counts, _ in collector.unrolls)])
    assert (np.diff(counts, axis=0).max(axis=1) == length).all()
    for id, made in enumerate(environment.made):
        draws, running = set(), 0.0
        for version, (batch, _, shown) in enumerate(collector.unrolls):
            steps = made[counts[version, id] : counts[version + 1, id]]
            column = jax.tree.map(lambda leaf: leaf[:, id], batch._replace(memory=()))  # noqa: B023
            running = check_steps(column, steps, running)
            check_end(column, len(steps), shown[id])
            if steps:
                assert column.extras["memory"][0] == (0 if steps[0].first else batch.memory[id])
                assert column.extras["policy"][0] <= version
                assert (column.extras["policy"][1 : len(steps)] == version).all()
            draws.update(column.extras["draw"][: len(steps)].tolist())
        assert len(draws) == len(made)


def check_steps(column: Trajectory, steps: list[Made], running: float) -> float:
    """Compare the unroll [T] of one environment with its steps; returns the running return after them."""
    for row, step in enumerate(steps):
        running = DISCOUNT * running + step.reward
        assert tuple(column.observation[row]) == step.observation
        recorded = column.first, column.valid, column.action, column.reward, column.discount
        assert [field[row] for field in recorded] == list(step[1:6])
        assert column.extras["running_return"][row] == np.float32(running)
        assert not step.real or column.extras["memory"][row] == step.observation[2]
        if step.real:
            successors = column.observation[1:] if column.final is None else column.final
            assert tuple(successors[row]) == step.successor
        running = 0.0 if step.ended else running
    return running


def check_end(column: Trajectory, count: int, shown: Timestep) -> None:
    """Beyond its steps the column shows what the last of them led to, and is otherwise empty."""
    if count:
        assert tuple(column.observation[count]) == tuple(shown.observation)
        assert column.first[count] == shown.first
    rest = column.valid, column.action, column.reward, column.discount, *column.extras.values()
    assert not any(field[count:].any() for field in rest)
    assert not column.observation[count + 1 :].any() and not column.first[count + 1 :].any()


@settings(deadline=None, max_examples=10, derandomize=True)
@given(environment=environments())
def test_episodes_are_counted_for_each_environment(environment):
    actor = actor_of(environment)
    for _ in range(6):
        list(actor.steps(np.float32(0), 1.0, 5))
    returns, lengths = [], []
    for made in environment.made:
        total = length = 0
        for step in made:
            total, length = total + step.reward, length + 1
            if step.ended and step.real:
                returns.append(total)
                lengths.append(length)
            if step.ended:
                total = length = 0
    report = actor.episodes.report()
    assert report.pop("episodes") == len(returns)
    expected = {"mean_return": np.mean(returns), "mean_length": np.mean(lengths)} if returns else {}
    assert report == pytest.approx(expected)


def fill(buffer: AsynchronousReplayBuffer, actor: AsynchronousActor, number: int) -> None:
    for step in actor.steps(np.float32(0), 1.0, number):
        buffer.add(step.timestep, step.raw, step.extras, step.memory, step.following, step.ids)


def n_step(made: list[Made], index: int, n: int) -> tuple[float, float, tuple[float, ...]]:
    """Reward, discount and successor of n steps from ``made[index]`` on, by the plainest loop there is."""
    reward, discount = 0.0, 1.0
    for step in made[index : index + n]:
        reward += discount * step.reward
        discount *= DISCOUNT * step.discount
        if step.ended:
            break
    return reward, discount, step.successor


UNEVEN = (4, 2, [1, 3, 2, 1, 4], [1, 5, 2])
CAPACITY, ROWS = 82, 20


def buffer_of(batch: int = 400, **options: Any) -> AsynchronousReplayBuffer:
    experience = Replay(capacity=CAPACITY, batch=batch, warmup=8, discount=DISCOUNT, **options)
    return AsynchronousReplayBuffer(experience, 4, np.random.SeedSequence(2))


def eligible(environment: Uneven, span: int) -> dict[tuple[float, ...], tuple[list[Made], int]]:
    """What may be sampled, by its observation: real steps that are held with ``span`` rows after them."""
    places = [(made, i) for made in environment.made for i in range(max(len(made) - ROWS, 0), len(made) - span)]
    return {made[i].observation: (made, i) for made, i in places if made[i].real}


@pytest.mark.parametrize("same_step", [False, True])
@pytest.mark.parametrize(("n", "number"), [(1, 6), (3, 12), (3, 60)])
def test_replay_serves_every_step_held_and_what_it_led_to(same_step, n, number):
    environment, buffer = Uneven(*UNEVEN, same_step), buffer_of(n_step=n)
    fill(buffer, actor_of(environment), number)
    places, counts = eligible(environment, n), Counter()
    assert len(buffer) == sum(min(len(made), ROWS) for made in environment.made)
    assert len({len(made) for made in environment.made}) > 1
    for _ in range(10):
        batch = buffer.sample()
        for index, observation in enumerate(map(tuple, batch.observation)):
            made, at = places[observation]
            counts[observation] += 1
            assert batch.action[index] == made[at].action
            reward, discount, successor = n_step(made, at, n)
            assert (batch.reward[index], batch.discount[index]) == pytest.approx((reward, discount))
            assert tuple(batch.successor[index]) == successor
    drawn, mean = np.array([counts[place] for place in places]), 4000 / len(places)
    assert np.abs(drawn - mean).max() < 5 * np.sqrt(mean)


@pytest.mark.parametrize("same_step", [False, True])
def test_replay_serves_sequences_of_one_environment(same_step):
    environment, buffer = Uneven(*UNEVEN, same_step), buffer_of(sequence=3, batch=100)
    fill(buffer, actor_of(environment), 60)
    batch, starts = buffer.sample(), set()
    for index in range(100):
        id, episode, step = batch.observation[0, index]
        made = environment.made[int(id)]
        at = next(
            at
            for at, other in enumerate(made)
            if other.observation == (id, episode, step) and other.real == batch.valid[0, index]
        )
        assert len(made) - ROWS <= at < len(made) - 3
        starts.add((id, at))
        column = jax.tree.map(lambda leaf: leaf[:, index], batch._replace(memory=()))  # noqa: B023
        for row, other in enumerate(made[at : at + 3]):
            assert tuple(column.observation[row]) == other.observation
            recorded = column.first, column.valid, column.action, column.reward, column.discount
            assert [field[row] for field in recorded] == list(other[1:6])
        assert tuple(column.observation[3]) == made[at + 3].observation
        if not batch.first[0, index]:
            assert batch.memory[index] == batch.extras["memory"][0, index]
    assert len(starts) > 30


@pytest.mark.parametrize("number", [8, 60])
def test_restored_replay_goes_on_with_the_same_samples(number):
    environment, original, restored = Uneven(*UNEVEN, False), buffer_of(n_step=2), buffer_of(n_step=2)
    actor = actor_of(environment)
    fill(original, actor, number)
    restored.restore(pickle.loads(pickle.dumps(original.save())))
    for _ in range(2):
        jax.tree.map(np.testing.assert_array_equal, restored.sample(), original.sample())
        for step in actor.steps(np.float32(0), 1.0, 5):
            for buffer in (original, restored):
                buffer.add(step.timestep, step.raw, step.extras, step.memory, step.following, step.ids)


def test_where_episodes_begin_anew_the_interrupted_steps_are_served_no_more():
    old, new = Uneven(*UNEVEN, False), Uneven(*UNEVEN, False, episode=100)
    before, restored = buffer_of(n_step=2), buffer_of(n_step=2)
    fill(before, actor_of(old), 9)
    restored.restore(pickle.loads(pickle.dumps(before.save())), episodes_restarted=True)
    fill(restored, actor_of(new), 9)
    interrupted = {made[-1].observation for made in old.made if made[-1].real}
    batch = restored.sample()
    seen = set(map(tuple, batch.observation))
    assert interrupted and not seen & interrupted
    assert ((batch.observation[:, 1] < 100) == (batch.successor[:, 1] < 100)).all()
    assert {place[1] < 100 for place in seen} == {False, True}


def make_ppo(recurrent: Any = None, **options: Any) -> Algorithm:
    network = NetworkSettings(hidden=(4,), memory_size=3, recurrent=recurrent)
    return ppo.ppo(ppo.Config(unroll=8, epochs=2, minibatches=2, network=network, **options), SPACES)


def make_dqn(recurrent: Any = None) -> Algorithm:
    network = NetworkSettings(hidden=(4,), memory_size=3, recurrent=recurrent)
    config = dqn.Config(batch=8, capacity=120, warmup=32, sequence=4, target_period=3, network=network)
    return dqn.dqn(config, SPACES)


COUNTS = [5, 0, 8, 1]


def padded(algorithm: Algorithm) -> tuple[Trajectory, list[Trajectory]]:
    """An unroll of 8 steps whose environments have made ``COUNTS`` steps, and those of each environment alone."""
    random, number = np.random.default_rng(0), len(COUNTS)
    first = random.random((9, number)) < 0.3
    whole = Trajectory(
        observation=random.normal(size=(9, number, 3)).astype(np.float32),
        first=first,
        action=random.integers(0, 3, (8, number)),
        reward=random.normal(size=(8, number)).astype(np.float32),
        discount=(random.random((8, number)) < 0.8).astype(np.float32),
        valid=~first[1:],
        extras={name: -random.random((8, number)).astype(np.float32) for name in ("log_prob", "running_return")},
        memory=jax.tree.map(lambda leaf: random.normal(size=leaf.shape).astype(np.float32), algorithm.memory(number)),
    )
    alone = [
        jax.tree.map(lambda leaf: leaf[: count + len(leaf) - 8, id : id + 1], whole._replace(memory=()))._replace(  # noqa: B023
            memory=jax.tree.map(lambda leaf: leaf[id : id + 1], whole.memory)  # noqa: B023
        )
        for id, count in enumerate(COUNTS)
    ]
    for id, count in enumerate(COUNTS):
        for leaf in jax.tree.leaves(whole._replace(memory=())):
            leaf[count + len(leaf) - 8 :, id] = 0
    return whole, [single for single, count in zip(alone, COUNTS, strict=True) if count]


@pytest.mark.parametrize("recurrent", [None, "gru"])
def test_ppo_learns_from_the_steps_that_are_there_as_if_there_were_no_others(recurrent):
    plain = {"standardise_advantages": False, "scale_rewards": False, "normalise_observations": False}
    algorithm = make_ppo(recurrent, **plain)
    state, key = algorithm.init(jax.random.key(0)), jax.random.key(1)
    whole, alone = padded(algorithm)

    @jax.jit
    def learn(batch: Trajectory) -> tuple[Any, Any]:
        samples = algorithm.prepare(state, batch)[1]
        return samples, algorithm.gradients(state, samples, key)[0]

    samples, gradients = learn(whole)
    singles = [learn(single) for single in alone]
    steps = [single.valid.sum() for single in alone]
    expected = jax.tree.map(lambda *leaves: np.average(leaves, axis=0, weights=steps), *(one for _, one in singles))
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), gradients, expected)

    for name in ("advantage", "target"):
        column = np.asarray(getattr(samples, name)).reshape((4, 8) if recurrent else (8, 4))
        column = column if recurrent else column.T
        reference = np.concatenate([np.ravel(getattr(single, name)) for single, _ in singles])
        made = np.arange(8) < np.array(COUNTS)[:, None]
        np.testing.assert_allclose(column[made], reference, atol=1e-5)


def test_running_moments_are_those_of_the_steps_that_are_there():
    normaliser = Normaliser(observations=True, clip_observations=None, rewards=True, clip_rewards=None)
    whole, alone = padded(make_ppo())
    statistics = normaliser.updated(normaliser.initial(np.zeros(3, np.float32)), whole)
    seen = np.concatenate([single.observation[:-1][single.valid] for single in alone])
    returns = np.concatenate([single.extras["running_return"][single.valid] for single in alone])
    for moments, values in ((statistics.observation[0], seen), (statistics.returns, returns)):
        np.testing.assert_allclose(moments.mean, values.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(moments.variance, values.var(axis=0), rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "same_step"),
    [
        (make_ppo, False),
        (functools.partial(make_ppo, "lstm"), True),
        (make_dqn, True),
        (functools.partial(make_dqn, "gru"), False),
    ],
)
def test_stopped_and_resumed_with_new_episodes(make, same_step):
    algorithm, environment, resumed = make(), Uneven(*UNEVEN, same_step), Uneven(*UNEVEN, same_step)
    stopped = run(algorithm, Watcher(lambda reporter: reporter.steps < 90), environment, 200)
    parts = pickle.loads(pickle.dumps(saved(stopped)))
    assert parts["environment"] is None and 90 <= stopped.steps == sum(map(len, environment.made))
    watcher = Watcher()
    finished = run(algorithm, watcher, resumed, 200, restore=lambda templates: parts)
    assert len(watcher.notes) == 1 and "begin anew" in watcher.notes[0]
    assert watcher.ticks[0] == stopped.steps
    assert finished.steps == stopped.steps + sum(map(len, resumed.made)) >= 200
    report = finished.report()
    assert np.isfinite(list(report.values())).all() and report["updates"] > stopped.report()["updates"] > 0
    assert len(environment.seeds) == len(resumed.seeds) == 1 and environment.seeds != resumed.seeds


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_training_in_a_pool(tiny, algorithm):
    run = tiny(algorithm, "envpool-async:CartPole-v1", envs=5, steps=2_000, env={"arguments": {"batch_size": 2}})
    assert run.summary["finished"] and 2_000 <= run.summary["steps"] < 2_100 and run.summary["episodes"] > 20
    assert all(np.isfinite(run.metrics[name][-1]) for name in run.metrics)
    assert run.evaluate(3).lengths.min() > 1
    run.resume(steps=2_500, progress=False)
    assert run.summary["finished"] and 2_500 <= run.summary["steps"] < 2_600
