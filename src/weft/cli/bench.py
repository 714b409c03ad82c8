"""``weft bench``: run one of the repository's benchmarks, which stand beside the package and not in it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from weft.errors import WeftError, unknown

SHARED = {"all", "measuring"}
"""Files among them that are no benchmark of their own."""


def bench(arguments: list[str]) -> None:
    """``weft bench [NAME ...]``; what follows the name is the benchmark's own."""
    scripts = _scripts()
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: weft bench NAME [--help | FLAGS OF THE BENCHMARK]\n")
        width = max(map(len, scripts))
        for name, script in scripts.items():
            print(f"  {name:<{width}}  {_first_line(script)}")
        sys.exit()
    name, *rest = arguments
    if name not in scripts:
        raise unknown("benchmark", name, scripts)
    sys.exit(subprocess.run([sys.executable, scripts[name], *rest]).returncode)


def _scripts() -> dict[str, Path]:
    """Return the benchmarks by name."""
    folder = Path(__file__).parents[3] / "benchmarks"
    if not (folder / "measuring.py").exists():
        raise WeftError(
            "Benchmarks come with the repository, not with the package: run weft bench in a checkout of it."
        )
    files = sorted(path for path in folder.glob("*.py") if path.stem not in SHARED)
    return {path.stem.replace("_", "-"): path for path in files}


def _first_line(script: Path) -> str:
    return (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").partition("\n")[0]
