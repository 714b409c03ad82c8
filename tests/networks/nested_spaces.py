"""Hypothesis strategies for gymnasium spaces of any depth."""

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st

sides = st.lists(st.integers(1, 3), max_size=2).map(tuple)
discrete = st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 5), st.integers(-3, 3))
multi_binary = st.one_of(st.integers(1, 4), st.lists(st.integers(1, 3), min_size=1, max_size=2)).map(spaces.MultiBinary)


@st.composite
def multi_discrete(draw) -> spaces.MultiDiscrete:
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    numbers = st.lists(st.integers(1, 5), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
    return spaces.MultiDiscrete(np.reshape(draw(numbers), shape), start=np.reshape(draw(numbers), shape) - 3)


@st.composite
def box(draw) -> spaces.Box:
    shape, dtype = draw(sides), draw(st.sampled_from([np.float32, np.float64, np.int32, np.uint8]))
    if dtype == np.uint8:
        return spaces.Box(draw(st.integers(0, 5)), draw(st.integers(6, 255)), shape, dtype)
    low, high = draw(st.sampled_from([(-1, 1), (0, 0.1), (-2.7, 13.3), (-np.inf, np.inf), (0, np.inf), (-np.inf, 0.3)]))
    if dtype == np.int32:
        low, high = draw(st.integers(-1000, 0)), draw(st.integers(1, 1000))
    return spaces.Box(low, high, shape, dtype)


def nested(leaves: st.SearchStrategy) -> st.SearchStrategy:
    """Leaves, and Dict and Tuple spaces of them."""
    return st.recursive(
        leaves,
        lambda parts: st.one_of(
            st.lists(parts, min_size=1, max_size=3).map(spaces.Tuple),
            st.dictionaries(st.sampled_from(["z", "a", "grip"]), parts, min_size=1, max_size=3).map(spaces.Dict),
        ),
        max_leaves=4,
    )


finite = nested(st.one_of(discrete, multi_discrete(), multi_binary))
anything = nested(st.one_of(discrete, multi_discrete(), multi_binary, box()))
