"""A network as pure functions. Flax NNX modules are split here, once, and never leave this file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import gymnasium
import jax
import jax.numpy as jnp
from flax import nnx

from weft.errors import WeftError
from weft.networks.observation import ObservationAdapter
from weft.networks.policy import Head
from weft.networks.spaces import examples
from weft.networks.torsos import GRU, LSTM, MLP, Activation, Recurrent
from weft.settings import positive
from weft.types import Array, Tree

Torso: TypeAlias = Callable[..., nnx.Module] | tuple[Callable[..., Tree], Callable[..., jax.Array]]
"""The user's own way from observations to features: either ``(observation_space, rngs=...) -> nnx.Module`` whose call
maps a batch of observations to features [B, F], or a pair ``(init(key, observation) -> params, apply(params,
observation) -> features [B, F])``, as a Flax Linen module's ``(module.init, module.apply)`` is."""

Outputs: TypeAlias = dict[str, jax.Array]
"""What each head gives, by the head's name."""

_RECURRENT: dict[str, type[Recurrent]] = {"gru": GRU, "lstm": LSTM}


@dataclass(frozen=True)
class NetworkSettings:
    """What a network is made of, beside what the spaces decide."""

    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the fully connected layers. A lone image goes through convolutions instead."""
    activation: Activation = "tanh"
    """Activation of the fully connected layers; convolutions use ReLU."""
    recurrent: Literal["gru", "lstm"] | None = None
    """Memory after the fully connected layers, reset where an episode begins."""
    memory_size: int = positive(64)
    """Size of that memory."""
    orthogonal: bool = True
    """Orthogonal initialisation with gains sqrt(2) hidden, 0.01 policy, 1 value; otherwise LeCun's normal."""


@dataclass(frozen=True)
class Network:
    """Pure functions of a network whose outputs are a dict, one entry for each head."""

    init: Callable[[jax.Array], Tree]
    """key -> params, nested dicts of arrays; compiled as one function"""
    memory: Callable[[int], Tree]
    """B -> the memory that episodes begin with, [B, ...]; () when there is none"""
    apply: Callable[[Tree, Tree, Tree, Array], tuple[Outputs, Tree]]
    """(params, observation [B, ...], memory [B, ...], first [B]) -> (outputs [B, ...], memory)"""
    unroll: Callable[[Tree, Tree, Tree, Array], tuple[Outputs, Tree]]
    """(params, observation [T, B, ...], memory [B, ...], first [T, B]) -> (outputs [T, B, ...], memory)"""


def build(
    observation_space: gymnasium.Space,
    heads: Mapping[str, Head],
    settings: NetworkSettings,
    torso: Torso | None = None,
    *,
    shared: bool = True,
) -> Network:
    """Return the network from observations to ``heads``.

    With ``shared`` all heads see the same features; otherwise each has a torso (and a memory) of its own.
    """
    if any(size < 1 for size in settings.hidden):
        raise WeftError(f"network.hidden is {settings.hidden}, but every layer needs at least one unit.")

    def make(key: jax.Array) -> _Model:
        return _Model(observation_space, heads, settings, torso, shared, rngs=nnx.Rngs(key))

    graph, *_ = nnx.split(nnx.eval_shape(lambda: make(jax.random.key(0))))

    def init(key: jax.Array) -> Tree:
        return nnx.to_pure_dict(nnx.split(make(key))[1])

    def memory(number: int) -> Tree:
        if settings.recurrent is None:
            return ()
        zeros = _RECURRENT[settings.recurrent].memory(number, settings.memory_size)
        return (zeros,) if shared else (zeros,) * len(heads)

    def apply(params: Tree, observation: Tree, memory: Tree, first: Array) -> tuple[Outputs, Tree]:
        return nnx.merge(graph, params).apply(observation, memory, first)

    def unroll(params: Tree, observation: Tree, memory: Tree, first: Array) -> tuple[Outputs, Tree]:
        return nnx.merge(graph, params).unroll(observation, memory, first)

    return Network(jax.jit(init), memory, apply, unroll)


class _Model(nnx.Module):
    """One branch for all heads, or one for each; their memories are a tuple in the order of the heads."""

    def __init__(
        self,
        space: gymnasium.Space,
        heads: Mapping[str, Head],
        settings: NetworkSettings,
        torso: Torso | None,
        shared: bool,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        groups = [heads] if shared else [{name: head} for name, head in heads.items()]
        self.branches = nnx.List([_Branch(space, group, settings, torso, rngs=rngs) for group in groups])

    def apply(self, observation: Tree, memory: Tree, first: Array) -> tuple[Outputs, Tree]:
        sequence = jax.tree.map(lambda leaf: leaf[None], (observation, first))
        outputs, memory = self.unroll(sequence[0], memory, sequence[1])
        return jax.tree.map(lambda leaf: leaf[0], outputs), memory

    def unroll(self, observation: Tree, memory: Tree, first: Array) -> tuple[Outputs, Tree]:
        outputs: Outputs = {}
        memories = []
        for branch, before in zip(self.branches, memory or [()] * len(self.branches), strict=True):
            part, after = branch(observation, before, first)
            outputs |= part
            memories.append(after)
        return outputs, tuple(memories) if memory else ()


class _Branch(nnx.Module):
    """Torso, recurrent layer if any, and heads."""

    def __init__(
        self,
        space: gymnasium.Space,
        heads: Mapping[str, Head],
        settings: NetworkSettings,
        torso: Torso | None,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        orthogonal = settings.orthogonal
        if torso is None:
            self.torso: nnx.Module = _SpacesTorso(space, settings, rngs=rngs)
        else:
            self.torso = _own_torso(torso, space, rngs)
        features = _features(self.torso, space)
        if settings.recurrent is None:
            self.recurrent = None
        else:
            layer = _RECURRENT[settings.recurrent]
            self.recurrent = layer(features, settings.memory_size, rngs=rngs, orthogonal=orthogonal)
            features = settings.memory_size
        self.heads = nnx.Dict({name: head(features, rngs, orthogonal) for name, head in heads.items()})

    def __call__(self, observation: Tree, memory: Tree, first: Array) -> tuple[Outputs, Tree]:
        """(observation [T, B, ...], memory [B, ...], first [T, B]) -> (outputs [T, B, ...], memory)."""
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), observation)
        features = self.torso(flat)
        features = features.reshape(*first.shape, features.shape[-1])
        if self.recurrent is not None:
            features, memory = self.recurrent(features, memory, first)
        return {name: head(features) for name, head in self.heads.items()}, memory


class _SpacesTorso(nnx.Module):
    """The observation adapter and, unless the observation is one image, fully connected layers."""

    def __init__(self, space: gymnasium.Space, settings: NetworkSettings, *, rngs: nnx.Rngs) -> None:
        self.adapter = ObservationAdapter(space, rngs=rngs, orthogonal=settings.orthogonal)
        hidden = () if self.adapter.image else settings.hidden
        self.mlp = MLP(self.adapter.features, hidden, settings.activation, rngs=rngs, orthogonal=settings.orthogonal)

    def __call__(self, observation: Tree) -> jax.Array:
        """[N, ...] -> [N, features]."""
        return self.mlp(self.adapter(observation))


class _PairTorso(nnx.Module):
    """An ``(init, apply)`` pair as a module."""

    def __init__(
        self, init: Callable[..., Tree], apply: Callable[..., jax.Array], space: gymnasium.Space, *, rngs: nnx.Rngs
    ) -> None:
        observation = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), examples(space, 1))
        self.params = nnx.data(jax.tree.map(nnx.Param, init(rngs.params(), observation)))
        self.apply = apply

    def __call__(self, observation: Tree) -> jax.Array:
        """[N, ...] -> [N, features]."""
        params = jax.tree.map(lambda param: param[...], self.params, is_leaf=lambda leaf: isinstance(leaf, nnx.Param))
        return self.apply(params, observation)


def _own_torso(torso: Torso, space: gymnasium.Space, rngs: nnx.Rngs) -> nnx.Module:
    if isinstance(torso, tuple):
        return _PairTorso(*torso, space, rngs=rngs)
    module = torso(space, rngs=rngs)
    other = nnx.state(module, nnx.Not(nnx.Param))
    if jax.tree.leaves(other):
        raise WeftError(
            f"The torso {type(module).__name__} keeps state other than parameters ({', '.join(other)}), which a pure "
            "function cannot carry: use layers without it, such as LayerNorm for BatchNorm."
        )
    return module


_PROBE = 3
"""Batch size with which a torso is tried on abstract observations."""


def _features(torso: nnx.Module, space: gymnasium.Space) -> int:
    """Return F of a torso that maps observations [B, ...] to [B, F], or say what it does instead."""
    result = jax.eval_shape(torso, examples(space, _PROBE))
    shape = getattr(result, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != _PROBE:
        raise WeftError(
            f"A torso must map a batch of {_PROBE} observations to an array of shape [{_PROBE}, features]; "
            f"this one returned {jax.tree.map(lambda leaf: leaf.shape, result)}."
        )
    return shape[1]
