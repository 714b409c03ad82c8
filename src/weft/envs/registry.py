"""Make environments by name or by factory."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft import errors
from weft.envs.settings import EnvironmentSettings
from weft.errors import WeftError

if TYPE_CHECKING:
    import gymnasium

    from weft.envs.base import AsynchronousEnvironment, Environment


def make(
    id_or_factory: str | Callable[..., gymnasium.Env] | gymnasium.vector.VectorEnv,
    number: int = 1,
    *,
    settings: EnvironmentSettings | None = None,
    index: int = 0,
    render: bool = False,
) -> Environment | AsynchronousEnvironment:
    """Make a batch of ``number`` environments.

    Args:
        id_or_factory: ``CartPole-v1`` or ``gymnasium:CartPole-v1`` (Gymnasium), ``ALE/Pong-v5`` (Atari), ``Catch`` or
            ``device:CartPole-v1`` (weft's own, in JAX), ``envpool:Pong-v5``, ``envpool-async:Pong-v5`` (its
            argument ``batch_size`` is how many come back at once, half of them by default),
            ``package.module:make_env`` (a factory in your own code); or the factory itself, which may be a class;
            or a ``gymnasium.vector.VectorEnv``, which brings its own number.
        number: environments in the batch.
        settings: how they are made.
        index: which of the run's actors they are for; the same seed gives each actor episodes of its own.
        render: whether ``render`` will be called.
    """
    from weft.envs.base import AsynchronousEnvironment
    from weft.envs.transformed import Transformed, TransformedAsynchronous
    from weft.envs.transforms import CheckFinite, ClipReward, FrameStack, Transform

    if number < 1:
        raise WeftError(f"There must be at least one environment, not {number}.")
    settings = settings or EnvironmentSettings()
    if render:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws to memory and need not look for a screen
    environment, stack = _untransformed(id_or_factory, number, settings, render)
    name = id_or_factory if isinstance(id_or_factory, str) else environment.name
    transforms: list[Transform] = [CheckFinite(name)]
    if settings.clip_reward is not None:
        transforms.append(ClipReward(settings.clip_reward))
    if stack > 1:
        transforms.append(FrameStack(environment.spaces.observation, environment.number, stack, name))
    if isinstance(environment, AsynchronousEnvironment):
        return TransformedAsynchronous(environment, transforms, name, index)
    return Transformed(environment, transforms, name, index)


def make_together(
    id_or_factory: str | Callable[..., gymnasium.Env] | gymnasium.vector.VectorEnv,
    number: int = 1,
    *,
    settings: EnvironmentSettings | None = None,
    render: bool = False,
) -> Environment:
    """Make environments as ``make`` does, asynchronous ones as their synchronous twins."""
    from weft.envs.base import Environment

    settings = settings or EnvironmentSettings()
    if isinstance(id_or_factory, str) and id_or_factory.startswith("envpool-async:"):
        id_or_factory = id_or_factory.replace("envpool-async:", "envpool:", 1)
        arguments = {name: value for name, value in settings.arguments.items() if name != "batch_size"}
        settings = replace(settings, arguments=arguments)
    environment = make(id_or_factory, number, settings=settings, render=render)
    assert isinstance(environment, Environment)
    return environment


def known() -> dict[str, list[str]]:
    """Return the ids that can be made here, by the library that has them."""
    from weft.envs import device, gymnasium_make

    groups = {"device": list(device.IDS), "gymnasium": gymnasium_make.ids()}
    if importlib.util.find_spec("envpool"):
        from weft.envs import envpool_make

        groups["envpool"] = envpool_make.ids()
    return groups


def _untransformed(
    id_or_factory: str | Callable[..., gymnasium.Env] | gymnasium.vector.VectorEnv,
    number: int,
    settings: EnvironmentSettings,
    render: bool,
) -> tuple[Environment | AsynchronousEnvironment, int]:
    """Return the environments and how many of their observations to stack."""
    from weft.envs import gymnasium_make

    if isinstance(id_or_factory, str):
        return _named(id_or_factory, number, settings, render)
    if callable(id_or_factory):
        name = f"{id_or_factory.__module__}:{getattr(id_or_factory, '__qualname__', 'factory')}"
        return gymnasium_make.from_factory(id_or_factory, name, number, settings, render)
    return gymnasium_make.from_vector(id_or_factory, settings)


def _named(
    name: str, number: int, settings: EnvironmentSettings, render: bool
) -> tuple[Environment | AsynchronousEnvironment, int]:
    """Find out which library a name belongs to."""
    from weft.envs import device, gymnasium_make

    prefix, colon, rest = name.rpartition(":")
    if prefix == "device":
        return _device(rest, number, settings)
    if prefix in ("envpool", "envpool-async"):
        errors.require("envpool", "envpool", name)
        from weft.envs import envpool_make

        return envpool_make.from_id(rest, number, settings, render, asynchronous=prefix == "envpool-async")
    if prefix == "gymnasium" or gymnasium_make.is_id(name):
        return gymnasium_make.from_id(rest, number, settings, render)
    if colon:
        factory = _imported(prefix, rest)
        if factory is None:
            return gymnasium_make.from_id(rest, number, settings, render)
        return gymnasium_make.from_factory(factory, name, number, settings, render)
    if name in device.IDS:
        return _device(name, number, settings)
    raise errors.unknown("environment", name, {*gymnasium_make.ids(), *device.IDS})


def _device(id: str, number: int, settings: EnvironmentSettings) -> tuple[Environment, int]:
    from weft.envs import device
    from weft.envs.device.host import DeviceHost

    arguments: dict[str, Any] = dict(settings.arguments)
    if settings.time_limit is not None:
        arguments["time_limit"] = settings.time_limit
    return DeviceHost(device.make(id, **arguments), number), settings.frame_stack or 1


def _imported(module: str, name: str) -> Callable[..., gymnasium.Env] | None:
    """Return the factory ``module:name``; None where importing the module registers a Gymnasium id of that name."""
    from weft.envs import gymnasium_make

    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise WeftError(f"There is no module named {error.name!r}, which {module}:{name} asks for.") from None
    factory = getattr(imported, name, None)
    if factory is None and not gymnasium_make.is_id(name):
        factories = [item for item, value in vars(imported).items() if callable(value) and item[0] != "_"]
        raise errors.unknown(f"environment in {module}", name, factories)
    return factory
