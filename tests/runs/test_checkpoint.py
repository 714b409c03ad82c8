import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from weft.errors import WeftError
from weft.runs import checkpoint
from weft.runs.checkpoint import Checkpoints


class Learner(NamedTuple):
    params: dict
    key: jax.Array
    memory: tuple = ()


def tree():
    params = {"w": jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3), "b": np.zeros((0, 4)), "n": np.int32(7)}
    return Learner(params, jax.random.key(3), ({"rng": 2**127 + 1, "name": "ü", "blob": b"\0\1"}, None, -0.0, True, []))


def assert_same(found, expected):
    assert type(found) is type(expected) or isinstance(expected, jax.Array)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, item in expected.items():
            assert_same(found[key], item)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_same(*pair)
    elif isinstance(expected, jax.Array) and jnp.issubdtype(expected.dtype, jax.dtypes.prng_key):
        assert found.dtype == expected.dtype
        assert_same(jax.random.key_data(found), jax.random.key_data(expected))
    elif hasattr(expected, "dtype"):
        assert isinstance(found, jax.Array) == isinstance(expected, jax.Array)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
    elif isinstance(expected, float):
        assert math.isnan(found) if math.isnan(expected) else found.hex() == expected.hex()
    else:
        assert found == expected


@pytest.mark.parametrize("template", [None, tree()])
def test_every_kind_of_leaf_comes_back_as_it_was(tmp_path, template):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"learner": tree()}, steps=12, mean_return=3.5)
    found = checkpoints.restore({"learner": template})
    assert (found.steps, found.mean_return) == (12, 3.5)
    assert_same(found.parts["learner"], tree())


def test_abstract_templates_and_registered_nodes(tmp_path):
    optimiser = optax.adam(1e-3)
    params = nnx.state(nnx.Linear(2, 3, rngs=nnx.Rngs(0)))
    state = {"params": params, "optimiser": optimiser.init(params), "key": jax.random.key(0, impl="rbg")}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"learner": state}, steps=1)
    found = checkpoints.restore({"learner": jax.eval_shape(lambda: state)}).parts["learner"]
    assert jax.tree.structure(found) == jax.tree.structure(state)
    for pair in zip(jax.tree.leaves(found), jax.tree.leaves(state), strict=True):
        assert_same(*pair)
    with pytest.raises(WeftError, match="with a template only"):
        checkpoints.restore()


dtypes = stn.scalar_dtypes() | st.sampled_from([np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)])
arrays = st.tuples(dtypes, stn.array_shapes(min_dims=0, min_side=0), st.binary(min_size=1)).map(
    lambda parts: (
        np.resize(np.frombuffer(parts[2], np.uint8), int(np.prod(parts[1])) * parts[0].itemsize)
        .view(parts[0])
        .reshape(parts[1])
    )
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
trees = st.recursive(
    scalars | arrays,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(deadline=None, max_examples=60)
@given(trees)
def test_any_tree_comes_back_exactly(tmp_path_factory, value):
    checkpoints = Checkpoints(tmp_path_factory.mktemp("checkpoints"), keep=1)
    checkpoints.save({"part": value}, steps=0)
    assert_same(checkpoints.restore().parts["part"], value)
    assert_same(checkpoints.restore({"part": value} if value is not None else None).parts["part"], value)


def test_what_cannot_be_kept_exactly_is_refused(tmp_path):
    for leaf in (object(), np.array([object()]), 1j):
        with pytest.raises(TypeError, match=r"cannot hold .* at \['odd'\]"):
            Checkpoints(tmp_path).save({"part": {"odd": leaf}}, steps=0)
    assert list(tmp_path.iterdir()) == []


def test_a_tree_that_does_not_fit_says_where(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"learner": {"w": np.zeros((2, 3), np.float32), "old": 1, "b": np.zeros(2)}}, steps=1)
    with pytest.raises(WeftError) as error:
        checkpoints.restore({"learner": {"w": np.zeros((2, 4), np.float32), "new": 1, "b": np.zeros(2)}})
    for problem in ("['new'] is missing", "['old'] is not expected", "['w'] is float32[2, 3], not float32[2, 4]"):
        assert problem in str(error.value)
    with pytest.raises(WeftError, match="no part 'replay': it has learner"):
        checkpoints.restore({"replay": None})


def test_keeps_the_last_ones_and_the_best(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for steps, mean_return in enumerate([1.0, 9.0, 9.0, float("nan"), None, 5.0]):
        checkpoints.save({"part": steps}, steps, mean_return)
    assert checkpoints.steps() == [2, 4, 5]
    assert checkpoints.restore().parts == {"part": 5}
    assert checkpoints.restore(best=True).parts == {"part": 2}


def test_saving_the_same_or_earlier_steps_gives_up_the_later_ones(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for value, steps in enumerate([10, 20, 30, 20, 20]):
        checkpoints.save({"part": value}, steps, mean_return=-value)
        assert checkpoints.restore().parts == {"part": value}
    assert checkpoints.steps() == [10, 20]


def test_parts_are_read_alone(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.save({"policy": {"w": np.ones(3)}, "replay": np.zeros(1000)}, steps=1)
    (path / "replay.bin").unlink()
    assert checkpoints.restore({"policy": None}).parts["policy"]["w"].sum() == 3


def flip_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


DAMAGES = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 3),
    "emptied": lambda path: os.truncate(path, 0),
    "bit flip": flip_bit,
    "missing": os.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("name", ["learner.bin", "manifest.json"])
def test_a_corrupted_checkpoint_is_reported_and_the_one_before_used(tmp_path, damage, name):
    warnings = []
    checkpoints = Checkpoints(tmp_path, warn=warnings.append)
    first = checkpoints.save({"learner": np.arange(100)}, steps=1)
    second = checkpoints.save({"learner": np.arange(100) * 2}, steps=2)
    damage(second / name)
    found = checkpoints.restore({"learner": np.arange(100)})
    assert found.steps == 1 and found.path == first
    assert_same(found.parts["learner"], np.arange(100))
    assert len(warnings) == 1 and str(second) in warnings[0] and name in warnings[0]
    damage(first / name)
    with pytest.raises(WeftError, match="no whole checkpoint"):
        checkpoints.restore()


def test_nothing_to_restore_is_said(tmp_path):
    with pytest.raises(WeftError, match="no checkpoint yet"):
        Checkpoints(tmp_path / "missing").restore()


def test_checkpoints_of_a_newer_version_are_refused(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    with monkeypatch.context() as future:
        future.setattr(checkpoint, "FORMAT", checkpoint.FORMAT + 1)
        checkpoints.save({"part": 1}, steps=1)
    with pytest.raises(WeftError, match="newer weft"):
        checkpoints.restore()


WRITER = """
import sys
import numpy as np
from weft.runs.checkpoint import Checkpoints
checkpoints = Checkpoints(sys.argv[1], keep=2)
steps = checkpoints.steps()[-1] if checkpoints.steps() else 0
while True:
    steps += 1
    checkpoints.save({"a": np.full(300_000, steps), "b": {"steps": steps, "c": np.full(1000, steps)}}, steps, -steps)
    print(steps, flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_its_last_checkpoint(tmp_path):
    moments = random.Random(0)
    warnings = []
    checkpoints = Checkpoints(tmp_path, warn=warnings.append)
    for _ in range(4):
        with subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            written = int(writer.stdout.readline())
            time.sleep(moments.uniform(0, 0.15))
            writer.send_signal(signal.SIGKILL)
            written = max([written, *map(int, writer.stdout)])
        found = checkpoints.restore()
        assert found.steps in (written, written + 1) and warnings == []
        assert found.parts["b"]["steps"] == found.steps
        assert (found.parts["a"] == found.steps).all()
    assert len(checkpoints.steps()) <= 4
    checkpoints.save({"part": 1}, steps=10**6)
    assert not list(tmp_path.glob(".*"))


def test_a_full_disk_keeps_the_old_checkpoints(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"part": np.zeros(10)}, steps=1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(WeftError, match="larger than this system allows"):
            checkpoints.save({"part": np.zeros(100_000)}, steps=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["000000000001"]
    assert checkpoints.restore().steps == 1


def test_large_arrays_are_not_copied(tmp_path):
    replay = np.zeros(2**25, np.uint8)
    checkpoints = Checkpoints(tmp_path)
    tracemalloc.start()
    try:
        checkpoints.save({"replay": replay}, steps=1)
        assert tracemalloc.get_traced_memory()[1] < 2**22
        checkpoints.restore()
        assert tracemalloc.get_traced_memory()[1] < replay.nbytes + 2**22
    finally:
        tracemalloc.stop()


def test_the_manifest_is_json(tmp_path):
    path = Checkpoints(tmp_path).save({"part": {"w": jnp.zeros(2)}}, steps=5, mean_return=np.float32(2.5))
    manifest = json.loads((path / "manifest.json").read_text().splitlines()[0])
    assert (path.name, manifest["steps"], manifest["mean_return"]) == ("000000000005", 5, 2.5)
