"""Environments: the host kind, stepped from Python in batches, and the device kind, pure functions in JAX."""

from weft.envs.registry import known, make, make_together
from weft.envs.settings import AtariSettings, EnvironmentSettings

__all__ = ["AtariSettings", "EnvironmentSettings", "known", "make", "make_together"]
