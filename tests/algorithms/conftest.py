import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def quickly_compiled():
    """What is tested here runs a few times only, so that optimising it would take longer than it saves."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
