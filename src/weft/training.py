"""Train, load and resume: programs are run here, in a folder that keeps what comes of it."""

from __future__ import annotations

import logging
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft import runtime as runtimes
from weft import topologies
from weft.compilation import prepare_jax
from weft.config import Config
from weft.envs.settings import EnvironmentSettings
from weft.errors import TrainingDiverged, WeftError
from weft.launch import Sources, builder, configure, probe, resolve
from weft.runs import metrics as metric_files
from weft.runs.checkpoint import Checkpoint, Checkpoints, read
from weft.runs.folder import RunFolder
from weft.runs.monitor import Callback, RunMonitor
from weft.runs.order import OrderFile, read_order
from weft.runs.progress import Progress
from weft.runs.sinks import check_sinks, open_sinks
from weft.runtime.execution import Options
from weft.settings import check
from weft.topologies.job import Job, Work

if TYPE_CHECKING:
    import gymnasium

    from weft.algorithm import Algorithm
    from weft.envs.base import Environment
    from weft.networks.network import Torso
    from weft.runs.evaluation import Evaluation
    from weft.runs.policy import Policy

_log = logging.getLogger("weft")


def train(
    algorithm: str | Callable[..., Algorithm] | None = None,
    environment: str | Callable[..., gymnasium.Env] | None = None,
    *,
    steps: int | None = None,
    seed: int | None = None,
    folder: str | Path | None = None,
    topology: str | None = None,
    runtime: str | None = None,
    actors: int | None = None,
    envs: int | None = None,
    settings: Mapping[str, Any] | None = None,
    graph: Mapping[str, Any] | None = None,
    env: EnvironmentSettings | Mapping[str, Any] | None = None,
    torso: str | Torso | None = None,
    loggers: Sequence[str] | None = None,
    checkpoint_every: int | None = None,
    keep: int | None = None,
    patience: float | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    config: str | Path | Mapping[str, Any] | None = None,
) -> Run:
    """Train and return the run.

    Ctrl-C and SIGTERM end the training as a callback can: it is saved first, to be resumed; then they take their effect
    as ``KeyboardInterrupt`` and ``SystemExit``.

    Args:
        algorithm: a name (``weft list algorithms``), ``module:factory``, or a factory ``(config, spaces, torso=None)``.
        environment: an id, ``module:factory``, or a factory of Gymnasium environments; see ``weft.make``.
        steps: agent steps over all environments.
        seed: everything random follows from it.
        folder: of the run; by default a new one in ``runs/``.
        topology: where the parts are and what travels between them (``weft list topologies``).
        runtime: how the parts are executed (``weft list runtimes``).
        actors: how many actors.
        envs: environments of each actor.
        settings: of the algorithm, as in its ``Config``; ``weft show ALGORITHM`` lists them.
        graph: settings of the topology; ``weft show TOPOLOGY`` lists them.
        env: how environments are made: frame stacking, reward clipping, arguments ...
        torso: your own network in place of the one that is chosen by the observation space.
        loggers: ``tensorboard`` (the default), ``wandb``, ``mlflow``.
        checkpoint_every: steps between two checkpoints.
        keep: checkpoints kept beside the best one.
        patience: seconds without progress after which a part of the run is named, with what it waits for.
        callbacks: called with each row of metrics; returning False ends the training.
        progress: whether to show progress.
        config: a configuration to begin from, e.g. ``RUN/config.toml``; every other argument overrides it.
    """
    given = {
        "steps": steps,
        "seed": seed,
        "topology": topology,
        "runtime": runtime,
        "actors": actors,
        "envs": envs,
        "loggers": loggers,
        "checkpoint_every": checkpoint_every,
        "keep": keep,
        "patience": patience,
    }
    resolved_config, sources = configure(
        algorithm, environment, given, settings=settings, graph=graph, env=env, torso=torso, config=config
    )
    return Run(Path(), resolved_config, sources)._begin(folder, callbacks, progress)


def train_seeds(
    seeds: int, *arguments: Any, seed: int = 0, folder: str | Path | None = None, **options: Any
) -> list[Run]:
    """Train with ``seeds`` seeds from ``seed`` on, one after the other; other arguments as for ``train``.

    A given ``folder`` gets one folder for each seed.
    """
    if seeds < 1:
        raise WeftError(f"There must be at least 1 seed to train with, not {seeds}.")
    return [
        train(*arguments, seed=each, folder=None if folder is None else Path(folder) / f"seed-{each}", **options)
        for each in range(seed, seed + seeds)
    ]


def load(
    folder: str | Path,
    *,
    algorithm: Callable[..., Algorithm] | None = None,
    environment: Callable[..., gymnasium.Env] | None = None,
    torso: Torso | None = None,
) -> Run:
    """Return the run in ``folder``.

    Your own algorithm, environment or torso is found again by its name where it can be imported; otherwise give it.
    """
    path = RunFolder.open(folder).path
    tree = dict(RunFolder.open(folder).config)
    sources = Sources.of(tree, algorithm, environment, torso)
    return Run(path, resolve(tree, sources), sources)


class Run:
    """A run on disk: its policy, its metrics, and the means to evaluate and to continue it."""

    def __init__(self, folder: Path, config: Config, sources: Sources) -> None:
        self.folder = folder
        self.config = config
        self._sources = sources
        self._policies: dict[bool, Policy] = {}

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def summary(self) -> dict[str, Any]:
        """How the run stands: steps, seconds, mean return, whether it is finished, and what it was of."""
        return RunFolder.open(self.folder).summary

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """Columns of equal length, a row for each report; ``pandas.DataFrame(run.metrics)`` is the table."""
        return metric_files.read(self.folder)

    @property
    def policy(self) -> Policy:
        """The policy of the newest checkpoint."""
        return self._policy(best=False)

    @property
    def best_policy(self) -> Policy:
        """The policy of the checkpoint with the highest mean return."""
        return self._policy(best=True)

    def evaluate(
        self, episodes: int = 20, *, deterministic: bool = True, best: bool = False, seed: int | None = None
    ) -> Evaluation:
        """Play whole episodes with true rewards and return what they brought."""
        from weft.runs.evaluation import evaluate

        if episodes < 1:
            raise WeftError(f"An evaluation of {episodes} episodes says nothing: play at least 1.")
        environment = self._stage(min(episodes, 16))
        try:
            seed = self.config.train.seed + 10_000 if seed is None else seed
            return evaluate(self._policy(best), environment, episodes, seed, deterministic)
        finally:
            environment.close()

    def resume(self, steps: int | None = None, *, callbacks: Sequence[Callback] = (), progress: bool = True) -> Run:
        """Continue from the newest checkpoint, to ``steps`` in total if given; returns this run."""
        with RunFolder.open(self.folder) as folder:
            folder.lock()
            if steps is not None:
                self.config = self._with_total(steps)
            folder.write_config(self.config.as_tree())
            with probe(self.config, self._sources, self.folder) as (work, _):
                self._execute(folder, work, callbacks, progress, resumed=True)
        return self

    def repeat(self, folder: str | Path | None = None, *, progress: bool = True) -> Run:
        """Repeat an asynchronous run bit for bit, in the recorded order of its events; returns the repetition."""
        if not self.summary["finished"]:
            raise WeftError(f"{self.folder} is not finished, so that there is no whole run to repeat.")
        order = read_order(self.folder)
        inline = replace(self.config, train=replace(self.config.train, runtime="inline"))
        return Run(Path(), inline, self._sources)._begin(folder, (), progress, order)

    def record(self, path: str | Path | None = None, *, episodes: int = 1, best: bool = False) -> Path:
        """Film whole episodes as mp4 or gif, by default into ``video.mp4`` in the run's folder."""
        from weft.runs.video import record

        if episodes < 1:
            raise WeftError(f"A video of {episodes} episodes shows nothing: film at least 1.")
        environment = self._stage(1, render=True)
        try:
            policy = self._policy(best)
            target = Path(path) if path is not None else self.folder / "video.mp4"
            seed = self.config.train.seed
            return record(environment, policy.follow, target, episodes=episodes, seed=seed)
        finally:
            environment.close()

    def _with_total(self, steps: int) -> Config:
        """Return the configuration with another total of steps, which the run may not have passed yet."""
        train = self.config.train
        taken = max(Checkpoints(self.folder / "checkpoints").steps(), default=0)
        if steps < min(taken, train.steps):
            raise WeftError(f"The run has taken {taken:,} steps already, so that it cannot end at {steps:,}.")
        return replace(self.config, train=check(replace(train, steps=steps), "train"))

    def _begin(
        self,
        path: str | Path | None,
        callbacks: Sequence[Callback],
        progress: bool,
        order: Mapping[str, Sequence[int]] | None = None,
    ) -> Run:
        check_sinks(self.config.train.loggers)
        with (
            probe(self.config, self._sources, self.folder) as (work, _),
            RunFolder.create(self.config.as_tree(), path) as folder,
        ):
            self.folder = folder.path
            try:
                self._execute(folder, work, callbacks, progress, order=order)
            except WeftError:
                folder.discard_unused()
                raise
        return self

    def _execute(
        self,
        folder: RunFolder,
        work: Work,
        callbacks: Sequence[Callback],
        progress: bool,
        resumed: bool = False,
        order: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Run the program, and keep account of how the run stands."""
        train = self.config.train
        with ExitStack() as stack:
            title = f"{self.config.algorithm} on {self.config.environment}"
            display = stack.enter_context(Progress(train.steps, title)) if progress else None
            warn = display.note if display else _log.warning
            checkpoints = Checkpoints(folder.path / "checkpoints", train.keep, warn)
            earlier = _newest(checkpoints, warn) if resumed else None
            steps = earlier.steps if earlier else 0
            metric_files.truncate(folder.path, steps)
            sinks: list[metric_files.Sink] = [
                stack.enter_context(metric_files.Metrics(folder.path)),
                stack.enter_context(
                    closing(open_sinks(train.loggers, folder.path, self.config.as_tree(), steps, warn))
                ),
            ]
            monitor = RunMonitor(
                train.steps,
                checkpoints,
                train.checkpoint_every or max(train.steps // 10, 1),
                sinks,
                display,
                callbacks,
                lambda summary: folder.write_summary({**self._names(), **summary}),
                earlier.parts["run"] if earlier else None,
            )
            job = Job(
                work,
                monitor,
                self.config.graph,
                restore=(lambda templates: read(earlier.path, templates).parts) if earlier else None,
            )
            record = None if train.runtime == "inline" else OrderFile(folder.path, resumed)
            options = Options(note=warn, patience=train.patience, record=record, repeat=order or {})
            self._policies.clear()
            folder.write_summary({**self._names(), **monitor.summary()})
            try:
                execution = runtimes.find(str(train.runtime))(topologies.find(train.topology)(job), options)
                monitor.flow = execution.flow.row
                with monitor.signals():
                    execution.run()
            except TrainingDiverged as error:
                kept = checkpoints.steps()
                where = f" The checkpoint of step {kept[-1]} is kept in {checkpoints.folder}." if kept else ""
                raise TrainingDiverged(f"{error}{where}") from None
            finally:
                folder.write_summary({**self._names(), **monitor.summary()})
            if display is not None:
                display.finish([*filter(None, [execution.flow.bottleneck()]), *self._closing_lines()])
        _obey(monitor.interrupted)

    def _closing_lines(self) -> list[str]:
        summary, folder = self.summary, shlex.quote(str(self.folder))
        if not summary["finished"]:
            return [
                f"Stopped and saved at {summary['steps']:,} of {self.config.train.steps:,} steps in {folder}",
                f"Continue with: weft resume {folder}",
            ]
        return [
            f"The run is in {folder}",
            f"Next: weft evaluate {folder}   weft record {folder}   weft plot {folder}",
        ]

    def _names(self) -> dict[str, Any]:
        train = self.config.train
        return {
            "algorithm": self.config.algorithm,
            "environment": self.config.environment,
            "topology": train.topology,
            "runtime": train.runtime,
            "seed": train.seed,
        }

    def _stage(self, number: int, render: bool = False) -> Environment:
        """Make environments to show the policy in: as scores are reported, and all of them stepped together."""
        from weft.envs import make_together

        prepare_jax()
        settings = self.config.train.env.evaluation()
        return make_together(self._sources.environment, number, settings=settings, render=render)

    def _policy(self, best: bool) -> Policy:
        """Return the policy of a checkpoint, read once."""
        import jax

        from weft.runs.policy import Policy

        if best not in self._policies:
            environment = self._stage(1)
            environment.close()
            algorithm = builder(self.config, self._sources, environment.spaces, self.folder)()
            template = {"state": jax.eval_shape(algorithm.init, jax.random.key(0))}
            checkpoint = Checkpoints(self.folder / "checkpoints").restore({"learner": template}, best=best)
            state = jax.device_put(checkpoint.parts["learner"]["state"])
            self._policies[best] = Policy(algorithm, state.policy, environment.spaces, self.config.train.seed)
        return self._policies[best]


def _newest(checkpoints: Checkpoints, warn: Callable[[str], None]) -> Checkpoint | None:
    """Return the checkpoint to continue from; None for a run that was killed before its first one."""
    if checkpoints.steps():
        return checkpoints.restore({"run": None}, whole=True)
    warn("There is no checkpoint yet: the run begins anew.")
    return None


def _obey(signal_number: int | None) -> None:
    """End what a signal was meant to end, now that everything is saved."""
    if signal_number == signal.SIGINT:
        raise KeyboardInterrupt
    if signal_number is not None:
        raise SystemExit(128 + signal_number)
