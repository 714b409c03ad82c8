"""Imports go one way, importing weft is light, its public names are there, and files can be read in one sitting."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import weft

PACKAGE = Path(weft.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
LIMIT = 500

TRANSPORT = {"asyncio", "multiprocessing", "queue", "ray", "socket", "threading", "zmq"}
WHERE_IT_RUNS = {"weft.cli", "weft.envs", "weft.launch", "weft.runs", "weft.runtime"}
WHERE_IT_RUNS |= {"weft.topologies", "weft.training"}
FORBIDDEN = {
    "algorithms": WHERE_IT_RUNS | TRANSPORT,
    "algorithm.py": WHERE_IT_RUNS | TRANSPORT | {"weft.algorithms"},
    "update.py": WHERE_IT_RUNS | TRANSPORT | {"weft.algorithms"},
    "maths": WHERE_IT_RUNS | TRANSPORT | {"weft.algorithms", "weft.experience", "weft.networks"},
    "networks": WHERE_IT_RUNS | TRANSPORT | {"weft.algorithms"},
    # A store has a lock, so that threads may share it, and no thread of its own.
    "experience": WHERE_IT_RUNS | (TRANSPORT - {"threading"}) | {"weft.algorithms", "weft.networks"},
    "envs": (WHERE_IT_RUNS - {"weft.envs"}) | {"weft.algorithms"},
    "topologies": (WHERE_IT_RUNS - {"weft.envs", "weft.topologies"}) | {"weft.algorithms"} | TRANSPORT,
    "runtime": (WHERE_IT_RUNS - {"weft.runtime"}) | {"weft.algorithms"},
    "drawing": WHERE_IT_RUNS | TRANSPORT | {"weft.algorithms"},
}
"""Part of the package -> what nothing in it may import."""


def module_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path) -> set[str]:
    """Every module that a file imports anywhere, in functions and for type checking too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("part", FORBIDDEN)
def test_imports_go_one_way(part):
    files = [file for file in FILES if file.relative_to(PACKAGE).parts[0] == part]
    assert files, f"there is no {part}"
    wrong = [
        f"{module_of(file)} imports {module}"
        for file in files
        for module in sorted(imports(file))
        if any(within(module, package) for package in FORBIDDEN[part])
    ]
    assert not wrong


def test_all_three_meet_in_one_place():
    meeting = imports(PACKAGE / "launch.py")
    for package in ("weft.algorithms", "weft.topologies", "weft.runtime"):
        assert any(within(module, package) for module in meeting)


def test_topologies_know_of_environments_only_what_they_are():
    for file in (PACKAGE / "topologies").glob("*.py"):
        assert not [
            module for module in imports(file) if within(module, "weft.envs") and not within(module, "weft.envs.base")
        ], file


def test_importing_weft_is_light():
    heavy = ["flax", "gymnasium", "jax", "matplotlib", "numpy", "optax", "tensorboardX", "tyro"]
    code = f"import sys, weft; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_public_names_resolve():
    assert len(set(weft.__all__)) == len(weft.__all__) > 5
    for name in weft.__all__:
        assert getattr(weft, name) is not None
        assert name in dir(weft)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        weft.trian  # noqa: B018


def test_files_can_be_read_in_one_sitting():
    assert not [module_of(file) for file in FILES if len(file.read_text().splitlines()) >= LIMIT]
