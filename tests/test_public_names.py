"""The names a user scripts against."""

import subprocess
import sys


def test_a_public_function_is_never_hidden_by_a_module_of_the_same_name():
    code = (
        "import weft, importlib, pkgutil\n"
        "weft.load, weft.plot, weft.make\n"
        "for module in pkgutil.walk_packages(weft.__path__, 'weft.'):\n"
        "    name = module.name.removeprefix('weft.')\n"
        "    assert name not in weft.__all__, name\n"
        "assert callable(weft.train) and callable(weft.make) and callable(weft.plot)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
