"""From what the caller says to a configuration, and from that to a program: where algorithms, topologies and runtimes
meet. Nothing is started here, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft import algorithms, names, topologies
from weft import runtime as runtimes
from weft.compilation import prepare_jax
from weft.config import GRAPH, Config, TrainSettings, name_of, resolved
from weft.envs.settings import EnvironmentSettings
from weft.errors import WeftError
from weft.experience.kinds import Replay, Unrolls
from weft.runs.folder import read_config
from weft.topologies.job import AnyEnvironment, Job, Work

if TYPE_CHECKING:
    import gymnasium

    from weft.algorithm import Algorithm
    from weft.networks.network import Torso
    from weft.program import Program
    from weft.types import Spaces


EXAMPLES: dict[type, str] = {Unrolls: "ppo", Replay: "dqn"}
"""Kind of experience -> a usual algorithm that learns from it."""


class Sources(NamedTuple):
    """What the names in a configuration stand for: names, or the caller's own objects."""

    algorithm: Any
    environment: Any
    torso: Any = None

    @classmethod
    def of(cls, tree: Mapping[str, Any], algorithm: Any = None, environment: Any = None, torso: Any = None) -> Sources:
        """Return the objects that are given, and the names in a configuration in place of those that are not."""
        given = {"algorithm": algorithm, "environment": environment, "torso": torso}
        return cls(**{name: source or tree.get(name) for name, source in given.items()})


@dataclass(frozen=True)
class Environments:
    """Makes the environments of any actor, in whatever process; it pickles."""

    source: Any
    number: int
    settings: EnvironmentSettings

    def __call__(self, index: int) -> AnyEnvironment:
        """Make those of one actor."""
        from weft.envs import make

        prepare_jax()
        return make(self.source, self.number, settings=self.settings, index=index)


def graph(
    topology: str | None = None,
    algorithm: str | Callable[..., Algorithm] | None = None,
    environment: str | Callable[..., gymnasium.Env] | None = None,
    *,
    actors: int | None = None,
    envs: int | None = None,
    settings: Mapping[str, Any] | None = None,
    graph: Mapping[str, Any] | None = None,
    env: EnvironmentSettings | Mapping[str, Any] | None = None,
    torso: str | Torso | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
) -> Program:
    """Return the program that a training would run, to look at: ``print(program)``, ``program.draw("graph.svg")``.

    Args:
        topology: a name (``weft list topologies``).
        algorithm: as for ``train``; by default the one with the topology's name, or else a usual one that it serves.
        environment: as for ``train``; by default CartPole-v1.
        actors: how many actors.
        envs: environments of each actor.
        settings: of the algorithm.
        graph: settings of the topology.
        env: how environments are made.
        torso: your own network.
        config: a configuration to begin from, e.g. ``RUN/config.toml``; every other argument overrides it.
    """
    tree = _tree_of(config)
    topology = topology or tree.get("topology", TrainSettings.topology)
    example = topology if topology in algorithms.ALGORITHMS else EXAMPLES[topologies.place(topology).serves[0]]
    given = {"topology": topology, "actors": actors, "envs": envs}
    resolved_config, sources = configure(
        algorithm or tree.get("algorithm") or example,
        environment or tree.get("environment") or "CartPole-v1",
        given,
        settings=settings,
        graph=graph,
        env=env,
        torso=torso,
        config=tree,
    )
    with probe(resolved_config, sources) as (work, _):
        return topologies.find(topology)(Job(work, _Nobody(), resolved_config.graph))


def configure(
    algorithm: Any,
    environment: Any,
    given: Mapping[str, Any],
    *,
    settings: Mapping[str, Any] | None = None,
    graph: Mapping[str, Any] | None = None,
    env: EnvironmentSettings | Mapping[str, Any] | None = None,
    torso: Any = None,
    config: str | Path | Mapping[str, Any] | None = None,
) -> tuple[Config, Sources]:
    """Return the configuration of ``given`` settings over those of ``config``, and what its names stand for."""
    tree = for_topology(_tree_of(config), given.get("topology"))
    sources = Sources.of(tree, algorithm, environment, torso)
    more: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if env is not None:
        more["env"] = {**tree.get("env", {}), **(asdict(env) if isinstance(env, EnvironmentSettings) else env)}
    if graph is not None:
        more[GRAPH] = {**tree.get(GRAPH, {}), **graph}
    more |= {name: name_of(source) for name, source in sources._asdict().items() if source is not None}
    return resolve({**tree, **more}, sources, settings), sources


def for_topology(tree: dict[str, Any], topology: str | None) -> dict[str, Any]:
    """Return a configuration for another topology: without the settings and the runtime that went with its own."""
    if topology is None or topology == tree.get("topology", topology):
        return tree
    return {name: value for name, value in tree.items() if name not in (GRAPH, "runtime")}


def resolve(tree: Mapping[str, Any], sources: Sources, settings: Mapping[str, Any] | None = None) -> Config:
    """Resolve names and settings before anything slow is done."""
    if sources.algorithm is None or sources.environment is None:
        raise WeftError("A run needs an algorithm and an environment: weft.train('ppo', 'CartPole-v1').")
    factory = algorithms.find(sources.algorithm)
    section = factory.__name__
    if settings is not None:
        tree = {**tree, section: {**tree.get(section, {}), **settings}}
    config = resolved(tree, section, algorithms.settings_class(factory))
    topologies.find(config.train.topology)
    runtimes.find(str(config.train.runtime))
    return config


@contextmanager
def probe(config: Config, sources: Sources, run: Path | None = None) -> Iterator[tuple[Work, AnyEnvironment]]:
    """Make environments, so that whatever is wrong with them or the algorithm is said before anything is begun.

    Where the run's one actor is in this process, they are the ones that it acts in.
    """
    from weft.envs import make

    prepare_jax()
    train, here = config.train, config.train.topology == "local"
    maker = Environments(sources.environment, train.envs, train.env)
    environment = maker(0) if here else make(sources.environment, 1, settings=train.env)
    try:
        work = Work(
            build=builder(config, sources, environment.spaces, run),
            make_environment=(lambda index: environment) if here else maker,
            spaces=environment.spaces,
            delivers_final=environment.delivers_final,
            actors=train.actors,
            envs=train.envs,
            steps=train.steps,
            seed=train.seed,
        )
        topologies.check(train.topology, config.algorithm, work, config.graph)
        yield work, environment
    finally:
        environment.close()


def builder(config: Config, sources: Sources, spaces: Spaces, run: Path | None = None) -> Callable[[], Algorithm]:
    """Return what builds the algorithm, in whatever process."""
    for kind, source in sources._asdict().items():
        if isinstance(source, str) and source.startswith("<"):
            raise WeftError(
                f"The {kind} of {run} was given as an object without a name that can be imported: "
                f"give it again, weft.load(folder, {kind}=...)."
            )
    torso = sources.torso
    if isinstance(torso, str):
        torso = names.find(torso, "torso")
    return partial(algorithms.find(sources.algorithm), config.settings, spaces, torso)


def _tree_of(config: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(read_config(Path(config))) if isinstance(config, str | Path) else dict(config or {})


class _Nobody:
    """The monitor of a program that is only looked at."""

    async def tick(self, reporter: Any) -> bool:
        """End at once."""
        return False

    async def finish(self, reporter: Any) -> None:
        """Keep nothing."""

    def note(self, text: str) -> None:
        """Tell nobody."""
