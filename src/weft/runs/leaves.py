"""A tree as one file of raw bytes and a description of it in JSON: every leaf with its path, kind and checksum.

Arrays are written from their own memory and read into their final one, so that a replay of gigabytes is never doubled.
"""

from __future__ import annotations

import importlib
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from weft.errors import WeftError
from weft.types import Tree

_CHUNK = 1 << 24
_ALIGNMENT = 64

Description = dict[str, Any]


class CorruptedError(Exception):
    """A stored file is not what was written."""


def write_part(path: Path, tree: Tree) -> Description:
    """Write the arrays of ``tree`` to ``path``, durably, and return the description that reads them back."""
    import jax

    flat, definition = jax.tree_util.tree_flatten_with_path(tree, is_leaf=_is_none)
    with open(path, "wb", buffering=0) as file:
        leaves = [{"path": jax.tree_util.keystr(key), **_write_leaf(file, key, leaf)} for key, leaf in flat]
        os.fsync(file.fileno())
    return {"leaves": leaves, "structure": _describe(jax.tree_util.tree_unflatten(definition, range(len(leaves))))}


def read_part(path: Path, description: Description, template: Tree | None) -> Tree:
    """Read what ``write_part`` wrote, in the structure of ``template`` or, where that is None, in the stored one."""
    rebuild = _structure(path, description, template)
    return rebuild(list(_read_leaves(path, description)))


def check_part(path: Path, description: Description) -> None:
    """Raise ``CorruptedError`` unless the file holds what ``write_part`` wrote."""
    for _ in _read_leaves(path, description):
        pass


def _read_leaves(path: Path, description: Description) -> Iterator[Any]:
    try:
        with open(path, "rb", buffering=0) as file:
            for leaf in description["leaves"]:
                yield _read_leaf(file, leaf)
    except FileNotFoundError:
        raise CorruptedError(f"its {path.name} is missing") from None


def _is_none(leaf: Any) -> bool:
    return leaf is None


# Leaves


def _write_leaf(file: BinaryIO, key: Any, leaf: Any) -> Description:
    """Return the description of a leaf: scalars are in it, arrays and bytes are written to the file."""
    import jax

    encode = _ENCODERS.get(type(leaf))
    if encode is not None:
        return {"kind": type(leaf).__name__, "value": encode(leaf)}
    if type(leaf) is bytes:
        return {"kind": "bytes", **_write_array(file, np.frombuffer(leaf, np.uint8))}
    if isinstance(leaf, jax.Array):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            described = _write_array(file, np.asarray(jax.random.key_data(leaf)))
            return {"kind": "key", "implementation": str(jax.random.key_impl(leaf)), **described}
        return {"kind": "jax", **_write_array(file, np.asarray(leaf))}
    if isinstance(leaf, np.ndarray | np.generic) and _dtype_name(leaf.dtype) is not None:
        return {"kind": "numpy" if isinstance(leaf, np.ndarray) else "scalar", **_write_array(file, np.asarray(leaf))}
    name = f"{type(leaf).__name__} of {leaf.dtype}" if isinstance(leaf, np.ndarray) else type(leaf).__name__
    raise TypeError(f"A checkpoint cannot hold the {name} at {jax.tree_util.keystr(key)}")


def _read_leaf(file: BinaryIO, leaf: Description) -> Any:
    import jax

    kind = leaf["kind"]
    if kind in _DECODERS:
        return _DECODERS[kind](leaf["value"])
    array = _read_array(file, leaf)
    if kind == "bytes":
        return array.tobytes()
    if kind == "key":
        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=leaf["implementation"])
    if kind == "jax":
        return jax.numpy.asarray(array)
    return array[()] if kind == "scalar" else array


# Through hexadecimal, integers of any size and every float (not finite ones too) come back as they were.
_ENCODERS: dict[type, Callable[[Any], Any]] = {
    int: hex,
    float: float.hex,
    bool: bool,
    str: str,
    type(None): lambda _: None,
}
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "bool": bool,
    "str": str,
    "NoneType": lambda _: None,
}


def _write_array(file: BinaryIO, array: np.ndarray) -> Description:
    offset = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
    file.seek(offset)
    checksum = 0
    for chunk in _chunks(np.ascontiguousarray(array)):
        checksum = zlib.crc32(chunk, checksum)
        _write_all(file, chunk)
    return {"dtype": _dtype_name(array.dtype), "shape": array.shape, "offset": offset, "checksum": checksum}


def _read_array(file: BinaryIO, leaf: Description) -> np.ndarray:
    array = np.empty(leaf["shape"], _dtype(leaf["dtype"]))
    file.seek(leaf["offset"])
    checksum = 0
    whole = True
    for chunk in _chunks(array):
        whole = whole and _read_all(file, chunk)
        checksum = zlib.crc32(chunk, checksum)
    if not whole or checksum != leaf["checksum"]:
        raise CorruptedError(f"its {Path(file.name).name} was changed or cut off at {leaf['path']}")
    return array


def _chunks(array: np.ndarray) -> Iterator[memoryview]:
    """Yield the memory of a contiguous array in pieces, without copying."""
    memory = array.reshape(-1).view(np.uint8).data if array.nbytes else memoryview(b"")
    for start in range(0, len(memory), _CHUNK):
        yield memory[start : start + _CHUNK]


def _write_all(file: BinaryIO, chunk: memoryview) -> None:
    while chunk:
        chunk = chunk[file.write(chunk) :]


def _read_all(file: BinaryIO, chunk: memoryview) -> bool:
    """Fill the chunk; False where the file ends before."""
    while chunk:
        count = file.readinto(chunk)  # type: ignore[attr-defined]
        if not count:
            return False
        chunk = chunk[count:]
    return True


def _dtype_name(dtype: np.dtype) -> str | None:
    """Return a name from which ``_dtype`` makes the dtype again, or None where there is none."""
    if dtype.kind in "biufcSUmM":
        return dtype.str
    return dtype.name if dtype.kind == "V" and dtype.fields is None and dtype.name[:4] != "void" else None


def _dtype(name: str) -> np.dtype:
    if name[0] in "<>|=":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


# Structures


def _describe(node: Any) -> Any:
    """Return JSON for a tree whose leaves are their numbers; only plain containers come back without a template."""
    if type(node) is int:
        return node
    if type(node) is dict and all(type(key) in (str, int) for key in node):
        return {"type": "dict", "keys": list(node), "items": [_describe(item) for item in node.values()]}
    if type(node) in (list, tuple):
        return {"type": type(node).__name__, "items": [_describe(item) for item in node]}
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        name = f"{type(node).__module__}:{type(node).__qualname__}"
        return {"type": "named", "name": name, "items": [_describe(item) for item in node]}
    return {"type": "other", "name": f"{type(node).__module__}:{type(node).__qualname__}"}


def _structure(path: Path, description: Description, template: Tree | None) -> Callable[[list[Any]], Tree]:
    """Return the function that puts leaves into their structure, once it is known that they fit it."""
    import jax

    if template is None:
        return lambda leaves: _build(description["structure"], leaves)
    flat, definition = jax.tree_util.tree_flatten_with_path(template, is_leaf=_is_none)
    wanted = {jax.tree_util.keystr(key): leaf for key, leaf in flat}
    stored = {leaf["path"]: leaf for leaf in description["leaves"]}
    problems = [f"{key} is missing" for key in wanted if key not in stored]
    problems += [f"{key} is not expected" for key in stored if key not in wanted]
    for key in wanted.keys() & stored.keys():
        found, expected = _signature(stored[key]), _expected(wanted[key])
        if found != expected:
            problems.append(f"{key} is {found}, not {expected}")
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise WeftError(f"{path} does not fit what is to be restored: {'; '.join(sorted(problems)[:3])}{more}.")
    places = {leaf["path"]: place for place, leaf in enumerate(description["leaves"])}
    return lambda leaves: jax.tree_util.tree_unflatten(definition, [leaves[places[key]] for key in wanted])


def _signature(leaf: Description) -> str:
    if "dtype" not in leaf or leaf["kind"] == "bytes":
        return "a scalar"
    if leaf["kind"] == "key":
        return f"key<{leaf['implementation']}>{leaf['shape'][:-1]}"
    return f"{_dtype(leaf['dtype'])}{leaf['shape']}"


def _expected(leaf: Any) -> str:
    import jax

    if not hasattr(leaf, "dtype"):
        return "a scalar"
    shape = list(leaf.shape)
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return f"key<{jax.random.key_impl(leaf) if isinstance(leaf, jax.Array) else leaf.dtype.name[4:-1]}>{shape}"
    return f"{np.dtype(leaf.dtype)}{shape}"


def _build(node: Any, leaves: list[Any]) -> Tree:
    if isinstance(node, int):
        return leaves[node]
    if node["type"] == "other":
        raise WeftError(f"A checkpoint that holds a {node['name']} is restored with a template only.")
    items = [_build(item, leaves) for item in node["items"]]
    if node["type"] == "dict":
        return dict(zip(node["keys"], items, strict=True))
    if node["type"] == "named":
        return _named(node["name"])(*items)
    return items if node["type"] == "list" else tuple(items)


def _named(name: str) -> Callable[..., Tree]:
    """Return the class of a named tuple."""
    module, _, qualified = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in qualified.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError):
        raise WeftError(f"The checkpoint holds a {name}, which cannot be imported here.") from None
    return found
