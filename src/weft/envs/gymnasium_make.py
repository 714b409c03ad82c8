"""Make Gymnasium's vector environments: by id, for Atari, or from a factory of single environments."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from weft import errors
from weft.envs.gymnasium_host import GymnasiumHost
from weft.envs.settings import EnvironmentSettings
from weft.errors import WeftError

Made = tuple[GymnasiumHost, int]
"""An environment and how many of its observations to stack."""

_EXTRAS = {"gymnasium.envs.box2d": "box2d", "gymnasium.envs.mujoco": "mujoco", "ale_py": "atari"}
"""The extra that brings what the environments of a package need."""


def ids() -> list[str]:
    """Return the ids that Gymnasium knows here; Atari games register themselves when their package is imported."""
    if importlib.util.find_spec("ale_py"):
        importlib.import_module("ale_py")
    return list(gymnasium.registry)


def is_id(name: str) -> bool:
    """Whether Gymnasium knows a name, without importing more than it needs."""
    return name in gymnasium.registry or name.startswith("ALE/")


def from_id(id: str, number: int, settings: EnvironmentSettings, render: bool) -> Made:
    """Make ``number`` environments of a Gymnasium id."""
    if id.startswith("ALE/"):
        errors.require("ale_py", "atari", id)
    if id not in gymnasium.registry and id not in ids():
        raise errors.unknown("Gymnasium environment", id, ids())
    try:
        spec = gymnasium.spec(id)
        make = _atari if _package(spec) == "ale_py" else _registered
        return make(spec, number, settings, render)
    except gymnasium.error.DependencyNotInstalled as error:
        extra = _EXTRAS.get(_package(spec))
        raise WeftError(f'{id} needs more packages: pip install "weft[{extra}]"' if extra else str(error)) from None
    except (gymnasium.error.Error, TypeError) as error:
        raise WeftError(f"{id} could not be made: {error}") from error


def from_factory(
    factory: Callable[..., gymnasium.Env], name: str, number: int, settings: EnvironmentSettings, render: bool
) -> Made:
    """Make ``number`` environments by calling ``factory`` with the arguments of the settings."""
    arguments: dict[str, Any] = dict(settings.arguments)
    if render and "render_mode" in inspect.signature(factory).parameters:
        arguments.setdefault("render_mode", "rgb_array")
    single = partial(_single, factory, arguments, settings.time_limit)
    vector = _batch([single] * number, settings.vectorization)
    return GymnasiumHost(vector, name), settings.frame_stack or 1


def from_vector(vector: VectorEnv, settings: EnvironmentSettings) -> Made:
    """Take a vector environment as it is."""
    if settings.arguments or settings.time_limit is not None:
        raise WeftError("An environment that is already made takes no arguments and no time limit.")
    spec = getattr(vector, "spec", None)
    return GymnasiumHost(vector, spec.id if spec else type(vector.unwrapped).__name__), settings.frame_stack or 1


def _registered(spec: EnvSpec, number: int, settings: EnvironmentSettings, render: bool) -> Made:
    arguments: dict[str, Any] = dict(settings.arguments)
    if settings.time_limit is not None:
        arguments["max_episode_steps"] = settings.time_limit
    stack = settings.frame_stack or 1
    # The arithmetic on arrays of a vector implementation takes longer than one environment does by itself.
    batch = number > 1 or spec.entry_point is None
    if settings.vectorization == "auto" and spec.vector_entry_point is not None and batch and not render:
        return GymnasiumHost(gymnasium.make_vec(spec, number, "vector_entry_point", **arguments), spec.id), stack
    if render and "rgb_array" in _render_modes(spec):
        arguments["render_mode"] = "rgb_array"
    single = partial(gymnasium.make, spec, disable_env_checker=True, **arguments)
    return GymnasiumHost(_batch([single] * number, settings.vectorization), spec.id), stack


def _atari(spec: EnvSpec, number: int, settings: EnvironmentSettings, render: bool) -> Made:
    """Make Atari games, seen as grey pictures [size, size, 1]; by the emulator's own vector environment if it can."""
    ale_py = importlib.import_module("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner
    atari, stack = settings.atari, settings.frame_stack or 4
    arguments: dict[str, Any] = dict(settings.arguments)
    if settings.time_limit is not None:
        arguments["max_num_frames_per_episode"] = settings.time_limit * atari.frame_skip
    if settings.vectorization == "auto" and spec.vector_entry_point is not None and not render:
        own = {
            "frameskip": atari.frame_skip,
            "img_height": atari.size,
            "img_width": atari.size,
            "stack_num": 1,  # it would begin episodes with black pictures
            "noop_max": atari.noop_max,
            "episodic_life": atari.life_loss,
            "reward_clipping": False,
            "use_fire_reset": False,
        }
        vector = gymnasium.make_vec(spec, number, "vector_entry_point", **{**own, **arguments})
        return GymnasiumHost(vector, spec.id), stack
    if atari.life_loss:
        raise WeftError(f"{spec.id} can end episodes at the loss of a life only with vectorization auto.")
    if render:
        arguments["render_mode"] = "rgb_array"
    preprocess = partial(
        _preprocessed_atari,
        spec,
        arguments,
        frame_skip=atari.frame_skip,
        screen_size=atari.size,
        noop_max=atari.noop_max,
    )
    return GymnasiumHost(_batch([preprocess] * number, settings.vectorization), spec.id), stack


def _preprocessed_atari(spec: EnvSpec, arguments: dict[str, Any], **preprocessing: Any) -> gymnasium.Env:
    game = gymnasium.make(spec, disable_env_checker=True, frameskip=1, **arguments)
    return gymnasium.wrappers.AtariPreprocessing(game, grayscale_newaxis=True, **preprocessing)


def _batch(singles: list[Callable[[], gymnasium.Env]], vectorization: str) -> VectorEnv:
    if vectorization == "async":
        # Forked processes may hang, because JAX runs threads.
        return AsyncVectorEnv(singles, context="spawn", autoreset_mode=AutoresetMode.NEXT_STEP)
    return SyncVectorEnv(singles, autoreset_mode=AutoresetMode.NEXT_STEP)


def _single(factory: Callable[..., gymnasium.Env], arguments: dict[str, Any], time_limit: int | None) -> gymnasium.Env:
    environment = factory(**arguments)
    return environment if time_limit is None else gymnasium.wrappers.TimeLimit(environment, time_limit)


def _render_modes(spec: EnvSpec) -> list[str]:
    creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    return getattr(creator, "metadata", {}).get("render_modes", [])


def _package(spec: EnvSpec) -> str:
    """Return the package that defines an environment, as far as ``_EXTRAS`` tells them apart."""
    module = spec.entry_point if isinstance(spec.entry_point, str) else ""
    return next((package for package in _EXTRAS if module.startswith(package)), module)
