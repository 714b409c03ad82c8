"""On the path while PufferLib 3.0 is built: its setup.py reads this name without setting it where NO_OCEAN is set."""

import builtins

builtins.c_extension_paths = []
