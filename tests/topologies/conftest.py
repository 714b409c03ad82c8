import pytest

from weft.compilation import prepare_jax


@pytest.fixture(scope="session", autouse=True)
def kept(compiled):
    """Compile as runs do: each program once, however many agents use it."""
    prepare_jax()
